"""A partition of the model, for the tests of the checks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.random_verbs import verbs_broker as broker
from tests.faults.random_verbs.test_verbs_checks import append
from tests.faults.random_verbs.verbs_model import Partition


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    """Epoch 0 wrote offsets 0 to 9, one record per batch: key a at even offsets, b at odd ones.

    Offset 8 is a tombstone.
    """
    (tmp_path / broker.TIER_FOLDER).mkdir()
    found = broker.new_partition(random.Random(1), tmp_path, "orders", 0)
    for offset in range(10):
        append(found, offset)
    return found
