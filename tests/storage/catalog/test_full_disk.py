"""A full disk below the catalog is one sentence, and nothing of delta-rs's is printed."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.storage.catalog_contract import claims
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.catalog import folder_files
from tierfold.storage.catalog.catalog import Catalog

_C: Final = ctypes.CDLL(None, use_errno=True)
SIZE_BYTES: Final = 3 << 20
PROGRAM: Final = """
import sys
from tests.storage.catalog_contract import claims
from tierfold.storage.catalog.catalog import Catalog
try:
    claims(Catalog(sys.argv[1]), 1)
except Exception as error:
    print(error)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of three megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = _C.mount(b"tmpfs", bytes(place), b"tmpfs", 0, f"size={SIZE_BYTES}".encode())
    if mounted != 0:
        pytest.skip("only root can mount a small file system")
    yield place
    _C.umount2(bytes(place), 2)


def filled(disk: Path, free_bytes: int) -> None:
    """Leave so many bytes free."""
    there = os.statvfs(disk)
    (disk / "full").write_bytes(bytes(there.f_bavail * there.f_frsize - free_bytes))


@pytest.mark.parametrize("free_bytes", [0, 16 << 10, 64 << 10, 192 << 10])
def test_a_full_disk_is_one_sentence(disk: Path, free_bytes: int) -> None:
    filled(disk, free_bytes)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(disk / "catalog")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    (line,) = ran.stdout.splitlines()
    assert "No space left on device" in line
    assert "the free space" in line
    assert Catalog(str(disk / "catalog")).read() == {}


def test_a_disk_that_fills_up_meanwhile_is_one_sentence_too(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog(str(disk / "catalog"))
    (row,) = claims(catalog, 1)
    filled(disk, 4096)
    monkeypatch.setattr(folder_files, "COMMIT_BYTES", -SIZE_BYTES)
    with pytest.raises(UnreadableObject, match=r"written: No space left on device\."):
        catalog.clean_up()
        claims(Catalog(str(disk / "another")), 1)
    assert [*catalog.read().values()] == [row]
