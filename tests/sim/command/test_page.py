"""The page on checking says what the commands do."""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

import pytest

from sm100sim.command import main, shown
from sm100sim.command.options import USAGE, Parser
from sm100sim.findings.suppress import Suppression
from sm100sim.formats.save import SUFFIXES
from sm100sim.pytest_plugin import hooks

PAGE = (Path(__file__).parents[3] / "docs" / "checking.md").read_text()


@pytest.mark.parametrize("command", main.COMMANDS)
def test_every_option_is_in_the_table(command: str) -> None:
    parser = Parser()
    main.COMMANDS[command][0](parser)
    options = [
        option
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction)
        for option in action.option_strings
    ]
    cells = " ".join(re.findall(r"^\| (`--[^|]*)\|", PAGE, re.MULTILINE))
    assert [option for option in options if not re.search(rf"`{option}\b(?!-)", cells)] == []
    assert f"sm100sim {command} " in PAGE


def test_every_exit_code_is_in_the_table() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert codes == {*shown.VERDICTS.values(), USAGE}
    assert all(str(code) in main.EXITS for code in codes)


def test_the_suppression_of_the_page_can_be_read() -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (entry,) = tomllib.loads(block)["suppress"]
    rule = Suppression(**entry)
    assert {*entry, "origin"} == set(Suppression.__dataclass_fields__)
    assert rule.line


def test_formats_and_settings_are_in_the_tables() -> None:
    for suffix in SUFFIXES:
        assert f"| `{suffix}` | " in PAGE
    for setting in (hooks.SUPPRESSIONS, hooks.ACTIVATE):
        assert f"| `{setting} = " in PAGE
