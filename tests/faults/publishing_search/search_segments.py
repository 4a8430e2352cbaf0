"""Segments of a few records, and rows that name them: one object for each content.

All that a search compares is made once, so that two are equal if they are one object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, NamedTuple

from tests.compaction.builders import a_segment, a_state, retired, segment_id
from tests.compaction.looks import LIMITS, NOW_MS, own, replacement
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.segment_ids import is_restored_id
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState, Segment
from tierfold.compaction.model.serving import Consent, ConsentKind

HALF_GRACE_MS: Final = LIMITS.grace_ms // 2
OLD: Final = 2
"""Ages count halves of the grace period; from this one on the grace period is over."""


class Record(NamedTuple):
    """A record of the log; a value of None is a tombstone."""

    offset: int
    key: str
    value: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A segment with its records, as its object in the tier holds them."""

    name: str
    segment_id: str
    start: int
    end: int
    records: tuple[Record, ...]
    epochs: tuple[LeaderEpoch, ...]
    is_upload: bool

    def __str__(self) -> str:
        return f"{self.name}[{self.start}-{self.end}]"

    @property
    def is_restored(self) -> bool:
        """Whether its id says that a restore made it."""
        return is_restored_id(self.segment_id)

    @property
    def is_diverged(self) -> bool:
        """Whether a leader uploaded it that was deposed."""
        return self.name[0] == "D"


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A partition's row."""

    epoch: int
    live: tuple[Stored, ...]
    retired: tuple[tuple[Stored, int], ...]
    """Each with its age."""
    unknown: frozenset[Stored]
    """What was retired before a rebuild: the topic does not say all of it."""
    state: PartitionState

    @property
    def gone(self) -> frozenset[Stored]:
        """The retired segments."""
        return frozenset(segment for segment, _ in self.retired)

    def changed(self, live: Iterable[Stored], gone: Iterable[Stored]) -> Row:
        """The next commit of the run that holds the partition."""
        ages = (*self.retired, *((one, 0) for one in gone))
        return row_of(self.epoch, in_order(live), ages, self.unknown)

    def claimed(self) -> Row:
        """The row under the next epoch."""
        return row_of(self.epoch + 1, self.live, self.retired, self.unknown)

    def older(self) -> Row:
        """The row half a grace period later."""
        ages = tuple((segment, min(age + 1, OLD)) for segment, age in self.retired)
        return row_of(self.epoch, self.live, ages, self.unknown)

    def rebuilt(self) -> Row:
        """The row once a lost metadata topic names all again."""
        return row_of(self.epoch, self.live, self.retired, self.gone)

    def with_live(self, live: tuple[Stored, ...]) -> Row:
        """The row with these live segments instead."""
        return row_of(self.epoch, live, self.retired, self.unknown)

    def without(self, left: frozenset[Stored]) -> Row:
        """The row without these retired segments."""
        kept = tuple(entry for entry in self.retired if entry[0] not in left)
        return row_of(self.epoch, self.live, kept, self.unknown - left)


_NAMES: Final[Counter[str]] = Counter()
BY_ID: Final[dict[str, Stored]] = {}
"""Every segment that a search made."""


@cache
def stored(
    label: str, start: int, end: int, records: tuple[Record, ...], epochs: tuple[LeaderEpoch, ...]
) -> Stored:
    """The one segment with this content; the label of a broker's begins with U, W, X or D.

    That of one which a restore made begins with R.
    """
    name = f"{label}.{_NAMES[label]}" if _NAMES[label] else label
    _NAMES[label] += 1
    is_upload = label[0] in "UWXD"
    its_id = (
        segment_id(name.replace(".", "_"))
        if is_upload
        else own(name, is_restored=label[0] == "R")
    )
    made = Stored(name, its_id, start, end, records, epochs, is_upload)
    assert its_id not in BY_ID, its_id
    BY_ID[its_id] = made
    return made


def upload_of(
    label: str, log: Sequence[Record], bounds: tuple[int, int], lineage: Sequence[LeaderEpoch]
) -> Stored:
    """What a leader of the lineage uploads of these offsets, both inclusive."""
    start, end = bounds
    records = tuple(record for record in log if start <= record.offset <= end)
    return stored(label, start, end, records, epochs_in(lineage, start, end))


def in_order(segments: Iterable[Stored]) -> tuple[Stored, ...]:
    """Segments in offset order."""
    return tuple(sorted(segments, key=lambda one: (one.start, one.end, one.name)))


@cache
def row_of(
    epoch: int,
    live: tuple[Stored, ...],
    retired_ages: tuple[tuple[Stored, int], ...],
    unknown: frozenset[Stored] = frozenset(),
) -> Row:
    """The one row with this content; of live ones that overlap the first gives the offsets."""
    chain, reached = [], -1
    for segment in live:
        chain.append(segment_of(segment, max(segment.start, reached + 1)))
        reached = max(reached, segment.end)
    count = len(retired_ages)  # What was retired later is later in the order, too.
    at_ms = {
        one: NOW_MS - age * HALF_GRACE_MS - (count - place)
        for place, (one, age) in enumerate(retired_ages)
    }
    gone = tuple(
        retired(segment_of(segment, segment.start), retired_at_ms=at_ms[segment])
        for segment, _ in retired_ages
    )
    consents = tuple(
        Consent(kind=ConsentKind.REBUILT, given_at_ms=at_ms[one], run="run") for one in unknown
    )
    state = a_state(chain, retired=gone, consents=consents)
    state = replace(state, epoch=epoch, owner_run="run")
    return Row(epoch, live, retired_ages, unknown, state)


@cache
def segment_of(segment: Stored, start: int) -> Segment:
    """The segment as a row names it, with that effective start."""
    fields = {
        "segment_id": segment.segment_id,
        "leader_epochs": segment.epochs,
        "skipped_offsets": start - segment.start,
    }
    made = a_segment if segment.is_upload else _replacement
    return made(start, segment.end, **fields)


def _replacement(start: int, end: int, **fields: object) -> Segment:
    return replacement("", start, end, **fields)
