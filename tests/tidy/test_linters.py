"""The linters pass on the whole source tree, and each one finds a planted violation."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy import source_tree
from tests.tidy.source_tree import FOLDERS, ROOT

RUFF = [sys.executable, "-m", "ruff", "check"]
MYPY = [sys.executable, "-m", "mypy"]
LINT_IMPORTS = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]


def output_of(command: list[str], *, cwd: Path = ROOT, text: str = "") -> tuple[int, str]:
    done = subprocess.run(command, cwd=cwd, input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def ruff_on(text: str) -> str:
    options = ["--output-format=concise", "--no-cache", "--stdin-filename=compaction/made_up.py"]
    return output_of([*RUFF, *options, "-"], text=text)[1]


@pytest.mark.parametrize(
    "command", [[*RUFF, "."], MYPY, LINT_IMPORTS], ids=["ruff", "mypy", "lint-imports"]
)
def test_the_source_tree_passes(command: list[str]) -> None:
    status, printed = output_of(command)
    assert status == 0, printed


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


def test_mypy_refuses_a_function_without_types(tmp_path: Path) -> None:
    untyped = tmp_path / "untyped.py"
    untyped.write_text("def f(a):\n    return a\n", encoding="utf-8")
    config = ["--config-file", str(ROOT / "setup.cfg")]
    status, printed = output_of([*MYPY, *config, str(untyped)], cwd=tmp_path)
    assert status == 1
    assert "[no-untyped-def]" in printed


@pytest.fixture(scope="module")
def empty_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages with empty modules, which keep the contracts."""
    copy = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "setup.cfg", copy)
    for source in source_tree.product():
        made = copy / source.path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.touch()
    for folder in FOLDERS:
        (copy / "tierfold" / folder).symlink_to(f"../{folder}")
    assert output_of(LINT_IMPORTS, cwd=copy)[0] == 0
    return copy


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
def test_a_broken_import_contract_is_refused(path: str, text: str, empty_modules: Path) -> None:
    planted = empty_modules / path
    planted.write_text(text, encoding="utf-8")
    status, _ = output_of(LINT_IMPORTS, cwd=empty_modules)
    planted.unlink()
    assert status == 1
