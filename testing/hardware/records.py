"""Record files: outputs of micro-kernels on the chip, one LZMA-compressed file per family.

Layout inside the LZMA: a line of JSON, then the outputs' bytes one after the other.  The JSON maps a case
to {"digest", "outputs": [byte count, ...]} or {"digest", "error"}.  Words are stored byte plane by
byte plane and as differences, which compresses better.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np

from testing.hardware.micro import family

DIRECTORY = Path(__file__).parent / "records"


def _planes(array: np.ndarray) -> bytes:
    raw = array.view(np.uint8).reshape(-1, array.itemsize).T
    return np.ascontiguousarray(raw).tobytes()


def _join(raw: bytes, like: np.ndarray) -> np.ndarray:
    planes = np.frombuffer(raw, np.uint8).reshape(like.itemsize, like.size)
    return np.ascontiguousarray(planes.T).view(like.dtype).reshape(like.shape)


def path_of(directory: Path, name: str) -> Path:
    """The file of a family."""
    return directory / f"{name}.rec.xz"


def write(directory: Path, name: str, results: dict[str, Any]) -> Path:
    """Write the results of a family: per case a list of arrays, or the text of an error."""
    index: dict[str, Any] = {}
    body = []
    for case in family(name):
        value = results.get(case.name, "not run")
        if isinstance(value, str):
            index[case.name] = {"digest": case.digest(), "error": value.split(":")[0]}
            continue
        raw = [_planes(a) for a in value]
        index[case.name] = {"digest": case.digest(), "outputs": [len(r) for r in raw]}
        body += raw
    directory.mkdir(parents=True, exist_ok=True)
    path = path_of(directory, name)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6}]
    path.write_bytes(
        lzma.compress(
            json.dumps(index).encode() + b"\n" + b"".join(body), lzma.FORMAT_XZ, filters=filters
        )
    )
    return path


def read(name: str, directory: Path = DIRECTORY) -> dict[str, Any]:
    """Case name -> (digest, list of arrays or an error's name)."""
    raw = lzma.decompress(path_of(directory, name).read_bytes())
    head, body = raw.split(b"\n", 1)
    cases = {case.name: case for case in family(name)}
    out: dict[str, Any] = {}
    at = 0
    for key, entry in json.loads(head).items():
        if "error" in entry:
            out[key] = (entry["digest"], entry["error"])
            continue
        pieces = []
        for count in entry["outputs"]:
            pieces.append(body[at : at + count])
            at += count
        if key in cases:
            arrays = [_join(p, like) for p, like in zip(pieces, cases[key].outputs, strict=True)]
            out[key] = (entry["digest"], arrays)
    return out
