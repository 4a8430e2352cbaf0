"""Segments that a tierfold made, that brokers have, and that the row does not name.

    another catalog's       another catalog is at work
    ours, started           a late send: a run that died sent it
    ours, below log start   it expired, and left the row before brokers forget it
    ours, any other         this catalog was set back

Rule: PUBLISHING 2.5, 4.6, 6.5.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tierfold.compaction.brokers.broker_view import BrokerSegment, BrokerView
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.model.segment_ids import Maker, maker_of


@dataclass(frozen=True, slots=True, kw_only=True)
class UnnamedWrites:
    """What runs made that the row does not name, each by start offset."""

    of_others: tuple[BrokerSegment, ...]
    """Their marks are not this catalog's."""
    finished: tuple[BrokerSegment, ...]
    """Of this catalog, or of a release before marks: brokers had them whole."""
    started: tuple[BrokerSegment, ...]
    """Of this catalog, or of a release before marks: brokers never had them whole."""

    @property
    def contradict(self) -> tuple[BrokerSegment, ...]:
        """Those that say that the row is not the newest word."""
        return self.of_others + self.finished


def unnamed_writes(
    view: BrokerView, named_ids: Collection[str], log_start: int, fingerprint: int | None
) -> UnnamedWrites:
    """What brokers have of runs beside the row.

    `named_ids`: of the row; `log_start`: the brokers'; `fingerprint`: the catalog's, None: there is
    no catalog yet.
    """
    of_others: list[BrokerSegment] = []
    finished: list[BrokerSegment] = []
    started: list[BrokerSegment] = []
    for segment in sorted(view.segments.values(), key=_by_start):
        maker = maker_of(segment.added.segment_id, fingerprint)
        if segment.added.segment_id in named_ids or maker is Maker.BROKER:
            continue
        if maker is Maker.ANOTHER_CATALOG:
            of_others.append(segment)
        elif segment.state is SegmentState.COPY_STARTED:
            started.append(segment)
        elif segment.added.end_offset >= log_start:
            finished.append(segment)
    return UnnamedWrites(
        of_others=tuple(of_others), finished=tuple(finished), started=tuple(started)
    )


def _by_start(segment: BrokerSegment) -> tuple[int, str]:
    return segment.added.start_offset, segment.added.segment_id
