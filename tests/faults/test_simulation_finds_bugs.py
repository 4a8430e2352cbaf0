"""The simulation can fail: bugs that the protocol is there to exclude, brought back one by one.

How many seeds each takes is written down in docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from compaction import commit, sweep
from compaction.commit import EpochIs, SegmentsAreLive
from jobs import publishing
from storage.local_tiered_storage import Part, StagedSegment
from storage.segment_writer import SegmentWriter
from tests.faults.simulation import played
from tests.faults.world_store import VirtualStore
from tests.faults.world_table import TableLog, VirtualVersion

Break = Callable[[pytest.MonkeyPatch], None]
