"""SARIF: what its schema requires, and the places of findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import sm100sim
from sm100sim.formats.document import Results
from sm100sim.formats.sarif import sarif
from tests.sim.formats.launches import race, stopped

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
FILE = {
    "type": "object",
    "properties": {
        "uri": {"type": "string", "pattern": r"^[\w.~%/:-]+$"}, "uriBaseId": {"type": "string"},
    },
    "required": ["uri"],
}  # fmt: skip
REGION = {
    "type": "object",
    "properties": {
        "startLine": {"type": "integer", "minimum": 1}, "snippet": TEXT,
        "startColumn": {"type": "integer", "minimum": 1},
    },
    "additionalProperties": False,
}  # fmt: skip
LOCATION = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": -1},
        "message": TEXT,
        "physicalLocation": {
            "type": "object",
            "properties": {"artifactLocation": FILE, "region": REGION},
            "additionalProperties": False,
        },
        "logicalLocations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    k: {"type": "string"} for k in ("name", "kind", "fullyQualifiedName")
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
RESULT = {
    "type": "object",
    "required": ["message"],
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": {"enum": ["none", "note", "warning", "error"]},
        "kind": {"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
        "message": TEXT,
        "locations": {"type": "array", "items": LOCATION},
        "relatedLocations": {"type": "array", "items": LOCATION, "uniqueItems": True},
        "occurrenceCount": {"type": "integer", "minimum": 1},
        "properties": {"type": "object"},
        "suppressions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["kind"],
                "properties": {
                    "kind": {"enum": ["inSource", "external"]}, "justification": {"type": "string"},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}  # fmt: skip
RUN = {
    "type": "object",
    "required": ["tool"],
    "properties": {
        "tool": {
            "type": "object",
            "required": ["driver"],
            "properties": {
                "driver": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string"},
                        "version": {"type": "string"},
                        "rules": {
                            "type": "array",
                            "uniqueItems": True,
                            "items": {"type": "object", "required": ["id"]},
                        },
                    },
                },
            },
        },
        "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        "originalUriBaseIds": {"type": "object", "additionalProperties": FILE},
        "invocations": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["executionSuccessful"],
                "properties": {
                    "executionSuccessful": {"type": "boolean"}, "exitCode": {"type": "integer"},
                    "toolExecutionNotifications": {
                        "type": "array",
                        "items": {"type": "object", "required": ["message"]},
                    },
                },
                "additionalProperties": False,
            },
        },
        "results": {"type": "array", "items": RESULT},
    },
    "additionalProperties": False,
}  # fmt: skip
SCHEMA = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"enum": ["2.1.0"]},
        "runs": {"type": "array", "items": RUN},
    },
    "additionalProperties": False,
}
"""What the schema of SARIF 2.1.0 (sections 3.13 to 3.27) says of the fields that are used here."""


def written(results: Results) -> dict[str, Any]:
    document = json.loads(json.dumps(sarif(results)))
    jsonschema.validate(document, SCHEMA)
    run: dict[str, Any] = document["runs"][0]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    return run


def test_both_source_lines_of_a_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = race(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = written(Results((report,)))["results"][0]
    lines = {2: "s[t] = a[t]", 3: "o[t] = s[63 - t]"}
    places = [x["physicalLocation"] for x in (*result["locations"], *result["relatedLocations"])]
    assert {p["region"]["startLine"]: p["region"]["snippet"]["text"] for p in places} == lines
    assert {p["artifactLocation"]["uri"] for p in places} == {"kernel%20%26.py"}
    assert {p["artifactLocation"]["uriBaseId"] for p in places} == {"%SRCROOT%"}
    assert result["level"] == "warning"
    assert f"PTX line {report.findings[0].line}: " in str(result["locations"])


def test_files_elsewhere_have_whole_addresses(tmp_path: Path) -> None:
    result = written(Results((race(tmp_path),)))["results"][0]
    file = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert file == {"uri": f"{tmp_path.as_uri()}/kernel%20%26.py"}


def test_the_same_finding_of_several_launches_is_one_result(tmp_path: Path) -> None:
    report = race(tmp_path)
    once, twice = (written(Results((report,) * k))["results"] for k in (1, 2))
    assert len(once) == len(twice) == len(report.findings)
    assert twice[0]["occurrenceCount"] == 2 * once[0]["occurrenceCount"]


def test_suppressed_findings_keep_their_reason(tmp_path: Path) -> None:
    rule = sm100sim.Suppression("race-shared", "tested")
    run = written(Results((race(tmp_path, suppressions=rule),), exit_code=0))
    assert run["results"][0]["suppressions"] == [{"kind": "external", "justification": "tested"}]
    assert run["invocations"][0]["exitCode"] == 0
    assert run["invocations"][0]["executionSuccessful"]


def test_a_finding_without_a_source_line_is_placed_in_the_program(tmp_path: Path) -> None:
    report = stopped(tmp_path)
    line = report.findings[0].line
    places = {
        program: written(Results((report,), program=program))["results"][0]["locations"][0]
        for program in ("", "kernel.ptx", "script.py")
    }
    assert "physicalLocation" not in places[""]
    assert places["kernel.ptx"]["physicalLocation"]["region"]["startLine"] == line
    assert places["script.py"]["physicalLocation"]["artifactLocation"]["uri"] == "script.py"
    assert "region" not in places["script.py"]["physicalLocation"]
    assert written(Results((report,)))["results"][0]["level"] == "error"


def test_no_launch_is_no_success() -> None:
    assert not written(Results(()))["invocations"][0]["executionSuccessful"]


def test_what_the_schema_forbids_is_found(tmp_path: Path) -> None:
    document = sarif(Results((race(tmp_path),)))
    del document["runs"][0]["results"][0]["message"]
    with pytest.raises(jsonschema.ValidationError, match="'message' is a required property"):
        jsonschema.validate(document, SCHEMA)
