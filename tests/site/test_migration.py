"""What the page on other libraries names here exists."""

from __future__ import annotations

import inspect
import re

import pytest

from fa4_cute.host.interface import flash_attn_varlen
from sm100sim.command import main
from sm100sim.command.options import Parser
from testing.site.markdown import ROOT
from tests.site.test_reference import resolve

PAGE = (ROOT / "docs" / "migration.md").read_text()
HERE = [row.split(" | ")[1] for row in re.findall(r"^\| (.* \| .*) \|$", PAGE, re.MULTILINE)]
SPANS = [span for cell in HERE for span in re.findall(r"`([^`]+)`", cell)]
NAMES = sorted({span for span in SPANS if re.fullmatch(r"(?:fa4_cute|sm100sim)(?:\.\w+)+", span)})
ARGUMENTS = sorted({span[:-1] for span in SPANS if re.fullmatch(r"\w+=", span)})


@pytest.mark.parametrize("name", NAMES)
def test_names_exist(name: str) -> None:
    assert resolve(name) is not None


def test_arguments_exist() -> None:
    known = set(inspect.signature(flash_attn_varlen).parameters)
    assert len(ARGUMENTS) > 8
    assert set(ARGUMENTS) <= known


def test_commands_and_options_exist() -> None:
    known = set()
    for add, _ in (main.COMMANDS[name][:2] for name in main.COMMANDS):
        parser = Parser()
        add(parser)
        known |= set(parser._option_string_actions)
    assert set(re.findall(r"--[\w-]+", " ".join(SPANS))) <= known
    commands = {words.split()[1] for words in SPANS if words.startswith("sm100sim ")}
    assert commands
    assert commands <= set(main.COMMANDS)
