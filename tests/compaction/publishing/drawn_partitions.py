"""A partition that is drawn: rounds of a run, uploads and elections, and brokers that follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from tests.compaction.broker_events import FINISHED, LISTED
from tests.compaction.builders import a_segment, epochs, retired
from tests.compaction.looks import LIMITS, LONG_AGO_MS, NOW_MS, a_look, a_row, given, own, started
from tierfold.compaction.brokers.events import Event, SegmentAdded
from tierfold.compaction.model.leader_epochs import epochs_in, merged_epochs
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState, Segment
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.steps import Copy, Delete, Merge, Retire, Send, Step, Wait

_END: Final = 60
_DAY_MS: Final = 24 * 3_600_000


@dataclass(slots=True, kw_only=True)
class DrawnPartition:
    """What row, topic and tier say, and how they go on."""

    rng: Random
    lineage: tuple[LeaderEpoch, ...]
    row: PartitionState
    topic: list[tuple[Event, int]] = field(default_factory=list)
    log_start: int = 0
    now_ms: int = NOW_MS
    gone: set[str] = field(default_factory=set)
    """Ids of segments whose objects were deleted."""
    drawn: int = 0

    def look(self) -> Look:
        """One reading of it."""
        there = self.row.named_ids - self.gone
        return a_look(
            self.row,
            self.topic,
            log_start=self.log_start,
            lineage=self.lineage,
            now_ms=self.now_ms,
            whole=there,
            present=there,
        )

    def taken(self, step: Step | Delete) -> bool:
        """Do what a step says; whether there is something to do."""
        match step:
            case Send():
                # The clock of a run may be ahead.
                sent_ms = self.now_ms + self.rng.choice((*[0] * 9, _DAY_MS))
                self.topic += [(event, sent_ms) for event in step.events]
            case Merge():
                self._merge(step.segment_ids)
            case Copy():
                sources = [one for one in self.row.segments if one.segment_id == step.segment_id]
                self._replace(sources, sources[0].start_offset)
            case Retire():
                events = (self._added()[one] for one in step.segment_ids)
                new = tuple(retired(_as_segment(one), retired_at_ms=self.now_ms) for one in events)
                self.row = replace(self.row, retired=(*self.row.retired, *new))
            case Delete():
                self.gone |= set(step.segment_ids)
            case Wait(until_ms=int(until_ms)):
                self.now_ms = max(until_ms, self.now_ms)
            case _:
                return False
        return True

    def surprised(self) -> None:
        """Something else happens between two looks."""
        often, seldom = (self._round, self._upload), (self._log_start, self._time, self._late_start)
        self.rng.choice((*often, *often, *seldom))()

    def _time(self) -> None:
        self.now_ms += self.rng.choice((1000, LIMITS.grace_ms, _DAY_MS))

    def _log_start(self) -> None:
        self.log_start = max(self.log_start, self.rng.choice((0, 5, 10, 15, 30)))

    def _late_start(self) -> None:
        """A run that was suspended starts a replacement that no row names."""
        self.drawn += 1
        name = own(f"late {self.drawn}")
        self.topic.append((started(replace(self.uploaded(0, 19), segment_id=name)), self.now_ms))

    def _upload(self) -> None:
        """An upload of a new leader over what is there; some are never finished."""
        start = self.rng.randrange(0, _END, 5)
        segment = self.uploaded(start, start + self.rng.choice((4, 9, 14, 24)))
        self.topic.append((started(segment), self.now_ms))
        if self.rng.random() < 0.6:
            self.topic.append((given(segment, FINISHED), self.now_ms))
        if self.rng.random() < 0.1:
            self.topic.append((given(segment, LISTED), self.now_ms))

    def uploaded(self, start: int, end: int) -> Segment:
        """What a broker uploads; some of it is of another history."""
        self.drawn += 1
        is_of_log = self.topic == [] or self.rng.random() < 0.95
        its = epochs_in(self.lineage, start, end) if is_of_log else epochs((7, start))
        name = f"{self.drawn}".zfill(21) + "A"
        return a_segment(start, end, segment_id=name, leader_epochs=its)

    def _round(self) -> None:
        """A run rewrites some neighbours, into one or two replacements."""
        live = self.row.segments
        first = self.rng.randrange(len(live))
        sources = live[first : first + self.rng.choice((1, 2, 3, 9))]
        self._replace(sources, sources[0].start_offset, parts=self.rng.choice((1, 1, 2)))

    def _added(self) -> dict[str, SegmentAdded]:
        """By id: the events that added segments."""
        added = (event for event, _ in self.topic if isinstance(event, SegmentAdded))
        return {event.segment_id: event for event in added}

    def _merge(self, ids: Sequence[str]) -> None:
        """The row takes what it lacks of these, and retires it with the others."""
        found = self._added()
        known = {one.segment_id: one for one in self.row.segments}
        sources = [known.get(one) or _as_segment(found[one]) for one in ids]
        self._replace(sources, min(one.own_start_offset for one in sources))

    def _replace(self, sources: Sequence[Segment], start: int, parts: int = 1) -> None:
        ids = {one.segment_id for one in sources}
        kept = [one for one in self.row.segments if one.segment_id not in ids]
        new = self._replacements(sources, start, parts)
        gone = tuple(retired(one, retired_at_ms=self.now_ms) for one in sources)
        self.row = replace(
            self.row,
            segments=tuple(sorted([*kept, *new], key=lambda one: one.start_offset)),
            retired=(*self.row.retired, *gone),
        )

    def _replacements(
        self, sources: Sequence[Segment], start: int, parts: int
    ) -> Iterator[Segment]:
        end = max(one.end_offset for one in sources)
        own_start = min(one.own_start_offset for one in sources)
        cuts = sorted({start, *(self.rng.randint(start, end) for _ in range(parts - 1))})
        known = merged_epochs(one.leader_epochs for one in sources)
        for first, last in zip(cuts, [*(cut - 1 for cut in cuts[1:]), end], strict=True):
            self.drawn += 1
            skipped = first - own_start if first == start else 0
            yield a_segment(
                first,
                last,
                segment_id=own(f"{self.drawn}"),
                origin=Compacted("run"),
                leader_epochs=epochs_in(known, first - skipped, last),
                skipped_offsets=skipped,
            )


def _as_segment(event: SegmentAdded) -> Segment:
    return a_segment(
        event.start_offset,
        event.end_offset,
        segment_id=event.segment_id,
        leader_epochs=event.leader_epochs,
    )


def drawn_partition(rng: Random) -> DrawnPartition:
    """Uploads that brokers finished and the row has, and a few things that happened since."""
    starts = sorted(rng.sample(range(5, _END, 5), k=rng.choice((0, 1, 2))))
    lineage = epochs((0, 0), *((2 * number + 2, start) for number, start in enumerate(starts)))
    drawn = DrawnPartition(rng=rng, lineage=lineage, row=a_row([]))
    cuts = sorted({0, *rng.sample(range(5, _END, 5), k=rng.choice((2, 4, 6)))})
    spans = zip(cuts, [*(cut - 1 for cut in cuts[1:]), _END - 1], strict=True)
    uploads = [drawn.uploaded(first, last) for first, last in spans]
    drawn.row = a_row(uploads)
    for one in uploads:
        drawn.topic += [(started(one), LONG_AGO_MS), (given(one, FINISHED), LONG_AGO_MS)]
    for _ in range(rng.choice((0, 1, 3))):
        drawn.surprised()
    return drawn
