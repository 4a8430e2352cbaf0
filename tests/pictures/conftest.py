"""The folder of drawn logs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scratch import SCRATCH


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder of the test's own, in memory where possible."""
    with tempfile.TemporaryDirectory(prefix="tierfold-pictures-", dir=SCRATCH) as folder:
        yield Path(folder)
