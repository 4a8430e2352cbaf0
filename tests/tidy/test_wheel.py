"""The wheel holds the four folders with their data files, and the pages that messages name."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.tidy.source_tree import FOLDERS, ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of the files in a wheel built from a copy: building leaves folders behind."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for folder in (*FOLDERS, "tierfold", "docs", "sample", "tests"):
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, copy / folder, ignore=unwanted, symlinks=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command = [*pip, "--no-index", "--wheel-dir", "dist", "."]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = (copy / "dist").glob("tierfold-*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def test_every_module_and_every_data_file_is_in_it(wheel: set[str]) -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    files += [path for path in (ROOT / "conf").rglob("*.*") if "__pycache__" not in path.parts]
    files += [path for path in (ROOT / "docs").rglob("*.*") if path.suffix in {".md", ".svg"}]
    expected = {f"tierfold/{path.relative_to(ROOT).as_posix()}" for path in files}
    assert expected | {"tierfold/py.typed"} <= wheel


def test_only_one_package_the_command_and_the_licence_are_in_it(wheel: set[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tierfold"}
    metadata = {Path(name).name for name in wheel if ".dist-info/" in name}
    assert {"entry_points.txt", "LICENSE"} <= metadata
