"""The linters pass on the whole source tree, and each one finds a planted violation."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy import source_tree
from tests.tidy.source_tree import FOLDERS, ROOT

LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def output_of(command: list[str], *, cwd: Path = ROOT, text: str = "") -> tuple[int, str]:
    done = subprocess.run(command, cwd=cwd, input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def ruff_on(text: str, path: str = "compaction/made_up.py") -> str:
    command = [sys.executable, "-m", "ruff", "check", "--output-format=concise", "--no-cache"]
    return output_of([*command, f"--stdin-filename={path}", "-"], text=text)[1]


def test_style_is_kept() -> None:
    status, said = output_of([sys.executable, "-m", "ruff", "check", "."])
    assert status == 0, said


def test_types_hold() -> None:
    status, said = output_of([sys.executable, "-m", "mypy"])
    assert status == 0, said


def test_import_contracts_hold() -> None:
    status, said = output_of([str(LINT_IMPORTS), "--no-cache"])
    assert status == 0, said


HEAD = '"""A made-up module."""\n\nfrom __future__ import annotations\n\n'


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("TID251", HEAD + "import time\n\nNOW = time.time()\n"),
        ("TID251", HEAD + "from datetime import datetime\n\nNOW = datetime.now()\n"),
        ("TID251", HEAD + "from uuid import uuid4\n\nID = uuid4()\n"),
        ("TID251", HEAD + "import random\n\nDRAWN = random.random()\n"),
        ("TID252", HEAD + "from . import units\n\nUNITS = units\n"),
        ("T201", HEAD + "print(1)\n"),
        ("S101", HEAD + "assert len(HEAD) > 1\n"),
        ("D100", "X = 1\n"),
        ("D103", HEAD + "def f() -> None:\n    return\n"),
        ("ANN001", HEAD + 'def f(a) -> None:\n    """F."""\n    return a\n'),
        ("E501", HEAD + f'X = "{"x" * 100}"\n'),
        ("BLE001", HEAD + "try:\n    X = 1\nexcept Exception:\n    X = 2\n"),
    ],
)
def test_ruff_refuses(rule: str, text: str) -> None:
    assert f" {rule} " in ruff_on(text)


def test_ruff_lets_clean_code_pass() -> None:
    assert "All checks passed" in ruff_on(HEAD + "X = 1\n")


def test_mypy_refuses_what_has_no_type(tmp_path: Path) -> None:
    untyped = tmp_path / "untyped.py"
    untyped.write_text("def f(a):\n    return a\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "setup.cfg")]
    status, said = output_of([*command, str(untyped)], cwd=tmp_path)
    assert status == 1
    assert "[no-untyped-def]" in said


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("compaction/model/made_up.py", "import tierfold.storage\n"),
        ("compaction/model/made_up.py", "import tierfold.compaction.planning\n"),
        ("compaction/model/made_up.py", "import pyspark\n"),
        ("compaction/model/made_up.py", "import pyarrow\n"),
        ("compaction/made_up.py", ""),
        ("storage/kafka/made_up.py", "import tierfold.jobs\n"),
        ("storage/kafka/made_up.py", "import tierfold.storage.tiers\n"),
        ("storage/kafka/made_up.py", "import click\n"),
        ("jobs/verbs/made_up.py", "import tierfold.jobs.cli\n"),
    ],
)
def test_a_broken_import_contract_is_refused(path: str, text: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    for source in source_tree.product():
        made = tmp_path / source.path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.touch()
    for folder in FOLDERS:
        (tmp_path / "tierfold" / folder).symlink_to(f"../{folder}")
    lint = [str(LINT_IMPORTS), "--no-cache"]
    assert output_of(lint, cwd=tmp_path)[0] == 0
    (tmp_path / path).write_text(text, encoding="utf-8")
    assert output_of(lint, cwd=tmp_path)[0] == 1
