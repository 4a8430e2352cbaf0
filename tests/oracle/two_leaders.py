"""One log that several leaders upload, each with segment borders of its own, so that they overlap.

    batch borders ── drawn_layouts(seed) ── Layout: each leader's borders, and all uploads in order
    Layout.covered ── the borders of the log without overlap, and the end of each phase

A new leader starts with the segment of its own log that holds the next offset, or with an earlier
one if it does not know how far its predecessor got (Kafka
`RemoteLogManager.candidateLogSegments`). Some uploads finish late. So uploads overlap, enclose each
other, share a start or an end, arrive twice, or arrive ahead of the uploads that they follow.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

PHASES: Final = 3
"""Uploads arrive before each of the first three passes."""
BATCHES_LEAST: Final = 12
"""The fewest borders that leave every leader a choice."""
_LEADERS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A segment that a leader uploads; `end` is the offset after it."""

    leader: int
    start: int
    end: int
    phase: int = 0
    """The number of the pass before which it arrives, from 0 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """The log without overlap."""

    borders: tuple[int, ...]
    """The effective start of each upload that adds offsets, and the end of the log."""
    ends: tuple[int, ...]
    """The end of the readable log in each phase, exclusive."""
    waiting: tuple[int, ...]
    """The number of uploads that wait behind a gap in each phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The uploads of all leaders."""

    borders: tuple[tuple[int, ...], ...]
    """The segment borders of each leader's log, both ends included."""
    uploads: tuple[Upload, ...]
    """In the order of arrival."""

    @property
    def covered(self) -> Covered:
        """The log after each phase; an upload adds the offsets above the end of those before it."""
        borders, ends, waiting = [0], [], []
        known: list[Upload] = []
        for phase in range(PHASES):
            known += [upload for upload in self.uploads if upload.phase == phase]
            for upload in sorted(known, key=lambda one: (one.start, -one.end)):
                if upload.start <= borders[-1] < upload.end:
                    borders.append(upload.end)
            ends.append(borders[-1])
            waiting.append(sum(upload.start > borders[-1] for upload in known))
        return Covered(borders=tuple(borders), ends=tuple(ends), waiting=tuple(waiting))

    @property
    def kinds(self) -> set[str]:
        """The names of the kinds of overlap."""
        covered, found = self.covered, set()
        for number, one in enumerate(self.uploads):
            for other in self.uploads[:number]:
                found |= _kinds(one, other)
        if any(covered.waiting):
            found.add("ahead of its predecessor")
        ends = (0, *covered.ends)
        if any(upload.start < ends[upload.phase] < upload.end for upload in self.uploads):
            found.add("over compacted segments")
        if any(upload.end <= ends[upload.phase] for upload in self.uploads):
            found.add("late and redundant")
        return found


def drawn_layouts(boundaries: Sequence[int], seed: int) -> Iterator[Layout]:
    """Yield a seed's layouts without end, for a log that may be split at `boundaries`.

    These include both ends of the log. At the end the whole log is readable; the first phase has no
    gap.
    """
    rnd = random.Random(f"leaders {seed}")
    while True:
        borders = _drawn_borders(boundaries, rnd)
        uploads = _drawn_uploads(borders, rnd)
        phased = _phased(uploads, rnd)
        if phased is None:
            continue
        layout = Layout(borders=borders, uploads=phased)
        covered = layout.covered
        if covered.ends[0] and covered.waiting[0] == 0 and covered.ends[-1] == boundaries[-1]:
            yield layout


def _drawn_borders(boundaries: Sequence[int], rnd: random.Random) -> tuple[tuple[int, ...], ...]:
    """Draw each leader's borders; the others share some with the first leader."""
    drawn: list[tuple[int, ...]] = []
    for leader in range(_LEADERS):
        inner = set(rnd.sample(boundaries[1:-1], rnd.randint(3, 8)))
        if leader:
            inner |= {border for border in drawn[0][1:-1] if rnd.random() < 0.3}
        drawn.append((boundaries[0], *sorted(inner), boundaries[-1]))
    return tuple(drawn)


def _drawn_uploads(borders: Sequence[Sequence[int]], rnd: random.Random) -> list[Upload]:
    """Draw the uploads of changing leaders, up to the log's end."""
    uploads: list[Upload] = []
    reached, leader = borders[0][0], 0
    while reached < borders[0][-1]:
        segments = list(pairwise(borders[leader]))
        holds_next = bisect_right(borders[leader], reached) - 1
        first = max(0, holds_next - rnd.choice((0, 0, 1, 2)))
        after = holds_next + rnd.randint(1, 3)
        chosen = [(leader, *span) for span in segments[first:after]]
        if rnd.random() < 0.4:
            other = rnd.randrange(_LEADERS)
            late = [span for span in pairwise(borders[other]) if span[0] <= reached]
            chosen.append((other, *rnd.choice(late)))
        uploads += [Upload(leader=who, start=start, end=end) for who, start, end in chosen]
        reached = max(reached, *(end for _, _, end in chosen))
        leader = (leader + rnd.randint(1, _LEADERS - 1)) % _LEADERS
    return uploads


def _phased(uploads: Sequence[Upload], rnd: random.Random) -> tuple[Upload, ...] | None:
    """Draw each upload's phase; every phase extends the log, and some uploads are a phase late.

    None: too few uploads extend the log.
    """
    reached, steps = 0, []
    for number, upload in enumerate(uploads):
        if upload.end > reached:
            reached = upload.end
            steps.append(number)
    if len(steps) < PHASES:
        return None
    firsts = sorted(rnd.sample(steps[1:], PHASES - 1))
    phased = [
        replace(upload, phase=bisect_right(firsts, number)) for number, upload in enumerate(uploads)
    ]
    for number, upload in enumerate(phased):
        if upload.phase + 1 < PHASES and rnd.random() < 0.2:
            phased[number] = replace(upload, phase=upload.phase + 1)
    return tuple(phased)


def _kinds(one: Upload, other: Upload) -> set[str]:
    if one.start >= other.end or other.start >= one.end:
        return set()
    if (one.start, one.end) == (other.start, other.end):
        return {"identical"}
    if one.start == other.start:
        return {"same start"}
    if one.end == other.end:
        return {"same end"}
    is_nested = (one.start < other.start) == (one.end > other.end)
    return {"nested" if is_nested else "chained"}
