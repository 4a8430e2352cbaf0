"""Fixtures that are slow to create, created once per session."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.end_to_end.spark_cluster import built_archive


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive that `make dist` builds."""
    return built_archive(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the archive holds."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder
