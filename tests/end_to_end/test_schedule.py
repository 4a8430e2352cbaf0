"""The script of docs/operations.md runs its steps in order and exits with the right code."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.commands import ROOT

PAGE: Final = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
SCRIPT: Final = re.findall(r"```sh\n(#!/bin/sh\n.*?)```", PAGE, re.DOTALL)[0]

FAKE_TIERFOLD: Final = """#!/bin/sh
echo "$1" >> verbs
echo "output of $1" >&2
eval "exit \\${$1:-0}"
"""
"""Records the verb, and exits with the code that the environment has for it."""


@pytest.mark.parametrize(
    ("codes", "steps", "code"),
    [
        ({}, ["compact", "verify", "vacuum"], 0),
        ({"compact": 3}, ["compact", "verify", "vacuum"], 3),
        ({"compact": 4}, ["compact", "verify", "vacuum"], 4),
        ({"verify": 3}, ["compact", "verify"], 3),
        ({"compact": 4, "verify": 3}, ["compact", "verify"], 3),
        ({"compact": 3, "vacuum": 4}, ["compact", "verify", "vacuum"], 3),
        ({"verify": 2}, ["compact", "verify"], 2),
    ],
)
def test_the_script_deletes_nothing_after_verify_finds_corruption(
    codes: dict[str, int], steps: list[str], code: int, tmp_path: Path
) -> None:
    for name, text in (("tierfold", FAKE_TIERFOLD), ("night.sh", SCRIPT)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    environment = {verb: str(exit_code) for verb, exit_code in codes.items()}
    environment["PATH"] = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
    done = subprocess.run(
        [tmp_path / "night.sh"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (tmp_path / "verbs").read_text(encoding="utf-8").split() == steps
    assert done.returncode == code
    # Only the logs of failed steps are shown.
    assert done.stderr == "".join(f"output of {verb}\n" for verb in steps if verb in codes)
