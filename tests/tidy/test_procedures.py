"""Each command, program and settings file of docs/kafka.md and docs/migration.md is carried out.

Tests ask `tests.brokers.kafka_page` for what stands below a heading, and unpack all of it: a new
command below a heading that a test has fails there, one below a new heading fails here.
"""

from __future__ import annotations

import ast
from typing import Final

from tests.brokers.kafka_page import PROMPT, blocks, commands_of
from tests.tidy import source_tree
from tests.tidy.source_tree import Source, source_of

ASKED: Final = {
    "sh": "commands_of",
    "text": "commands_of",
    "python": "python_of",
    "toml": "settings_of",
}
"""The function that gives a block of this language."""
NO_PROCEDURE: Final = {("Turning publishing on", "toml"), ("Connection", "toml")}
"""They show where settings are; tests of the settings and of the connection read such files."""


def to_be_carried_out() -> set[tuple[str, str]]:
    """The heading and the function of each block; outputs alone are none."""
    return {
        (block.heading, ASKED[block.language])
        for block in blocks()
        if (block.heading, block.language) not in NO_PROCEDURE
        and (block.language != "text" or block.text.startswith(PROMPT))
    }


def carried_out(source: Source) -> set[tuple[str, str]]:
    """The heading and the function of each such call in a file of tests."""
    constants = {
        target.id: node.value.value
        for node in source.tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(target := node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    found = set()
    for name, call in source_tree.calls(source):
        if name in ASKED.values() and len(call.args) == 1:
            (asked,) = call.args
            if isinstance(asked, ast.Constant):
                found.add((str(asked.value), name))
            elif isinstance(asked, ast.Name):
                found.add((str(constants.get(asked.id)), name))
    return found


def test_a_test_on_a_broker_carries_out_each_procedure() -> None:
    tests = [one for one in source_tree.sources("tests") if one.path.startswith("tests/brokers/")]
    found = {pair for source in tests for pair in carried_out(source)}
    assert to_be_carried_out() - found == set(), "carry it out in a test in tests/brokers"
    assert len(found) > 0


def test_a_procedure_that_no_test_carries_out_is_found() -> None:
    text = 'HERE: Final = "One"\ncommands_of(HERE)\nsettings_of("Two")\ncommands_of(unknown)\n'
    found = carried_out(source_of(text))
    assert found == {("One", "commands_of"), ("Two", "settings_of"), ("None", "commands_of")}
    assert ("A lost catalog", "commands_of") in to_be_carried_out() - found


def test_commands_that_go_on_in_the_next_line_and_prompts_are_read() -> None:
    assert commands_of("2. Plan") == ["tierfold plan /mnt/tier --config tierfold.toml"]
    first, *_ = commands_of("The metadata topic was lost")
    assert first.split()[-1] == "remote.log.copy.disable=true,local.retention.ms=-2"
