"""An empty tier."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.live_segments import a_tier
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage


@pytest.fixture
def tier(tmp_path: Path) -> LocalTieredStorage:
    return a_tier(tmp_path)
