"""numba keeps compiled kernels, which are pickles, only where no one else can put one."""

from __future__ import annotations

import logging
import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.storage.test_private_folders import ANOTHERS, given_to_another
from tierfold.storage import kernel_cache
from tierfold.storage.kernel_cache import VARIABLE, ensure_kernel_cache

REPOSITORY: Final = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_folder_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "restored after the test")
    monkeypatch.delenv(VARIABLE)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The `__pycache__` of the only package of an installation, which others may write to."""
    package = tmp_path / "installed" / "storage" / "kafka"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__pycache__").chmod(0o777)
    monkeypatch.setattr(kernel_cache, "_SOURCES", tmp_path / "installed")
    return package / "__pycache__"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder for caches."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def is_temporary() -> bool:
    return "/tierfold-kernels-" in os.environ[VARIABLE]


def test_beside_private_sources_needs_no_other_folder(
    source: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source.chmod(0o755)
    ensure_kernel_cache()
    source.rmdir()
    ensure_kernel_cache()
    assert VARIABLE not in os.environ
    assert lines(caplog) == []


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_the_users_cache_is_next_and_kept_from_others(
    source: Path, cache: Path, umask: int, caplog: pytest.LogCaptureFixture
) -> None:
    os.umask(umask)
    for _ in range(2):
        os.environ.pop(VARIABLE, None)
        ensure_kernel_cache()
        assert os.environ[VARIABLE] == str(cache / "numba")
        assert stat.S_IMODE((cache / "numba").stat().st_mode) == 0o700
        (cache / "numba" / "kafka_1234").mkdir(exist_ok=True, mode=0o755)
    assert lines(caplog) == []


def test_an_older_cache_of_this_user_is_closed_to_others(source: Path, cache: Path) -> None:
    (cache / "numba").mkdir(parents=True, mode=0o755)
    ensure_kernel_cache()
    assert os.environ[VARIABLE] == str(cache / "numba")
    assert stat.S_IMODE((cache / "numba").stat().st_mode) == 0o700


@pytest.mark.parametrize("where", ["", "numba", "numba/kafka_1234"])
@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_cache_that_others_may_write_to_is_not_used(
    source: Path, cache: Path, where: str, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    (cache / "numba" / "kafka_1234").mkdir(parents=True)
    (cache / where).chmod(mode)
    ensure_kernel_cache()
    assert is_temporary()
    (line,) = lines(caplog)
    assert f"others may write to {(cache / where)}" in line
    assert VARIABLE in line


@pytest.mark.parametrize("where", ["numba", "numba/kafka_1234"])
def test_a_cache_of_another_user_is_not_used(
    source: Path, cache: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    (cache / "numba" / "kafka_1234").mkdir(parents=True)
    if not given_to_another(cache / where):
        return
    ensure_kernel_cache()
    assert is_temporary()
    (line,) = lines(caplog)
    assert f"{cache / where} belongs to {ANOTHERS}" in line


@pytest.mark.parametrize("mode", [0o777, 0o755])
def test_the_folder_that_a_user_names_is_looked_at_too(
    tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(mode)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "mine"))
    ensure_kernel_cache()
    assert is_temporary() is (mode == 0o777)
    assert is_temporary() or os.environ[VARIABLE] == str(tmp_path / "mine" / "tierfold")
    # It is left as it is, and a process that inherits the variable uses the same folder.
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == mode
    ensure_kernel_cache()
    assert is_temporary() or os.environ[VARIABLE] == str(tmp_path / "mine" / "tierfold")


def test_an_empty_name_is_none(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    mode = tmp_path.stat().st_mode
    monkeypatch.setenv(VARIABLE, "")
    ensure_kernel_cache()
    assert VARIABLE not in os.environ
    assert tmp_path.stat().st_mode == mode


def test_a_file_is_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "tierfold"
    file.touch(mode=0o755)
    monkeypatch.setenv(VARIABLE, str(file))
    ensure_kernel_cache()
    assert is_temporary()
    assert f"{file} is no folder" in lines(caplog)[0]


@pytest.mark.parametrize("name", ["key.nbi", "kafka_1234/key.1.nbc"])
@pytest.mark.parametrize("is_anothers", [True, False])
def test_what_others_left_in_a_cache_that_is_closed_now_is_not_read(
    source: Path, cache: Path, name: str, is_anothers: bool, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = cache / "numba" / name
    kernel.parent.mkdir(parents=True)
    kernel.touch()
    if is_anothers and not given_to_another(kernel):
        return
    if not is_anothers:
        kernel.chmod(0o666)
    (cache / "numba").chmod(0o700)
    ensure_kernel_cache()
    assert is_temporary()
    reason = f"{kernel} belongs to {ANOTHERS}" if is_anothers else f"others may write to {kernel}"
    assert reason in lines(caplog)[0]


def test_what_others_left_beside_the_source_is_not_read(source: Path, cache: Path) -> None:
    source.chmod(0o755)
    (source / "key.nbi").touch()
    ensure_kernel_cache()
    assert VARIABLE not in os.environ
    if not given_to_another(source / "key.nbi"):
        return
    ensure_kernel_cache()
    assert os.environ[VARIABLE] == str(cache / "numba")


def test_a_user_without_a_home_gets_a_temporary_folder(
    source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unknown_user(uid: int) -> object:
        raise KeyError(uid)

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown_user)
    ensure_kernel_cache()
    assert is_temporary()
    (line,) = lines(caplog)
    assert "this user has no home" in line


PLANT: Final = """
import os, pickle, sys
class Planted:
    def __reduce__(self):
        return os.mkdir, (sys.argv[2],)
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        path = os.path.join(folder, name)
        if name.endswith(".nbi"):
            with open(path, "rb") as file:
                version = pickle.load(file)
            with open(path, "wb") as file:
                pickle.dump(version, file)
                file.write(pickle.dumps(Planted()))
"""
RUN: Final = """
import numpy as np
from tierfold.compaction.cleaning.key_hash import same_key
same_key(np.zeros(8, np.uint8), 0, np.zeros(8, np.uint8), 0, 8)
"""


def test_a_planted_pickle_is_never_read(tmp_path: Path) -> None:
    cache, planted = tmp_path / "cache", tmp_path / "planted"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), VARIABLE: str(cache)}

    def run(program: str, *arguments: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.stdout + ran.stderr

    assert "Compiled kernels" not in run(RUN)
    run(PLANT, str(cache), str(planted))
    cache.chmod(0o777)
    assert f"others may write to {cache}" in run(RUN)
    assert not planted.exists()
    # Only the rule kept it out.
    cache.chmod(0o700)
    run(RUN)
    assert planted.exists()


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("is_late", [True, False])
def test_settings_of_numba_in_a_folder_that_is_open_to_others_are_not_read(
    tmp_path: Path, is_open: bool, is_late: bool
) -> None:
    (folder := tmp_path / "folder").mkdir()
    folder.chmod(0o1777 if is_open else 0o755)
    settings = folder / ".numba_config.yaml"
    if not is_late:
        settings.write_text("disable_jit: 1\n")
    program = (
        "import pathlib, tierfold; from numba.core import config;"
        f"pathlib.Path({str(settings)!r}).write_text('disable_jit: 1\\n');"
        "config.reload_config(); print(config.DISABLE_JIT)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == ("0" if is_open else "1")
