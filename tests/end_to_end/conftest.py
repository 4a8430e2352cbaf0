"""Fixtures that are slow to create, created once per session."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.built_archive import built_archive


@pytest.fixture(scope="session")
def archive() -> Path:
    """The archive that `make dist` builds."""
    return built_archive()


@pytest.fixture(scope="session")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the archive is unpacked."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder
