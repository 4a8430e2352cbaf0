"""Measures how long a run spends in each stage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from tierfold.storage.clock import elapsed_s


class TimedStage(StrEnum):
    """The stages of a run, as the column `stage_seconds` names them."""

    SURVEY = "survey"
    """Lists the tier, reads the catalog and the ends of new segments, and plans."""
    CLAIM = "claim"
    """Reads transaction indexes, and opens the next epochs."""
    SCAN = "scan"
    """Reads keys and reduces them to the records that are superseded: one Spark job, or three if
    key indexes are asked."""
    REWRITE = "rewrite"
    """Reads the segments again; writes the new ones and verifies each. In `restore`, copies those
    that come back."""
    CHECK = "check"
    """Compares what was written with a listing; `restore` reads the segments that it restores."""
    COMMIT = "commit"
    DELETE = "delete"
    """`vacuum` deletes objects, lists again, and commits what is gone."""


class StageSeconds:
    """The seconds that a run has spent in each stage, of all partitions together."""

    def __init__(self) -> None:
        self._seconds: defaultdict[TimedStage, float] = defaultdict(float)

    @contextmanager
    def timed(self, stage: TimedStage) -> Iterator[None]:
        """Add the seconds of this block to `stage`, also if it raises."""
        began_s = elapsed_s()
        try:
            yield
        finally:
            self._seconds[stage] += elapsed_s() - began_s

    def so_far(self) -> dict[str, float]:
        """Return the seconds by stage, rounded to milliseconds; a stage not begun is left out."""
        return {stage.value: round(seconds, 3) for stage, seconds in self._seconds.items()}
