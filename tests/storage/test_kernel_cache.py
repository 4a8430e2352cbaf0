"""numba gets a folder for compiled kernels, also in a read-only installation without a home."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from tierfold.storage import kernel_cache
from tierfold.storage.kernel_cache import VARIABLE, ensure_kernel_cache


@pytest.fixture(autouse=True)
def _no_folder_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "restored after the test")
    monkeypatch.delenv(VARIABLE)


def test_a_folder_that_numba_can_write_to_needs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "_is_writable", lambda _: True)
    ensure_kernel_cache()
    assert VARIABLE not in os.environ


def test_a_read_only_installation_gets_a_temporary_folder_even_without_a_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown_user(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.setattr(kernel_cache, "_is_writable", lambda _: False)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown_user)
    ensure_kernel_cache()
    assert Path(os.environ[VARIABLE]).is_dir()
