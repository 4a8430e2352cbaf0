"""How much of a plan is done at once: chunks of a partition, waves of a run (SEMANTICS 7).

A chunk is a round that ends earlier: all of `[log start, its end)`, its dirty part whole segments,
at least one. The clean part below is read again with each chunk, as Kafka's `Cleaner` does where
its map is full. A record superseded within a chunk is superseded in the whole as well, and one
that stays meets the records of the next chunk, so the result is the same however a log is cut.

    next_wave(due, budget_left)  ->  Wave: chunks of the first plans of `due`, which share a pass
    rest_of_plan(plan, ...)      ->  the plan for what lies beyond a chunk that was committed

A chunk is a `PartitionPlan` like any other, of a `Compact` that is not the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.units import BATCH_HEADER_BYTES
from tierfold.compaction.model.wording import spaced
from tierfold.compaction.planning.grouping import grouped
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Compact

SPACE_SHARE: Final = 3
"""A wave takes at most one part in so many of the free space (KIP-1272: `free space / 3`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of one run; None: no limit."""

    max_partitions: int | None = None
    max_bytes: int | None = None
    """Bytes of source logs, the clean part of each chunk among them."""
    max_duration_ms: int | None = None
    """No chunk begins once this much time has passed."""


UNBOUND: Final = Budget()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingBudget:
    """What a wave may take, in bytes of source logs; None: no bound."""

    budget_bytes: int | None = None
    """Of the whole run."""
    spent_bytes: int = 0
    """What the run has begun so far."""
    free_bytes: int | None = None
    """What the tier's file system has left: results lie beside their sources."""
    wave_bytes: int | None = None
    """Of a wave of several partitions; one alone may take more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """The chunks of the first partitions that were due, in their order."""

    chunks: tuple[PartitionPlan, ...]
    stop: str = ""
    """Why nothing else may be begun in this run, a sentence; empty: something may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    """One limit, as it stands for the next partition."""

    whole_bytes: int
    left_bytes: int
    is_untouched: bool
    """Nothing has been taken of it yet: then at least one segment may be."""
    cuts: bool
    """A partition is cut to fit where it never would as a whole; else it goes alone."""
    why: str
    stop: str = ""
    """What ends the run where it binds; empty: the next wave starts afresh."""


def next_wave(due: Sequence[PartitionPlan], budget_left: RemainingBudget) -> Wave:
    """The next wave: chunks of the first partitions in their order, as many as the budget allows.

    The order is kept: once a partition must wait, all behind it wait. The first partition always
    gets a chunk, unless the run's bytes are spent, so that each run makes progress.
    """
    chunks: list[PartitionPlan] = []
    taken_bytes = 0
    for partition in due:
        found = _fitting(partition, tuple(_limits(budget_left, taken_bytes)))
        if isinstance(found, _Limit):
            return Wave(chunks=tuple(chunks), stop=found.stop)
        chunks.append(found)
        taken_bytes += found.compact.bytes_in
    return Wave(chunks=tuple(chunks))


def _limits(budget_left: RemainingBudget, taken_bytes: int) -> Iterator[_Limit]:
    if budget_left.budget_bytes is not None:
        used = budget_left.spent_bytes + taken_bytes
        yield _Limit(
            whole_bytes=budget_left.budget_bytes,
            left_bytes=budget_left.budget_bytes - used,
            is_untouched=used == 0,
            cuts=True,
            why=f"--max-bytes is {spaced(budget_left.budget_bytes)}, {spaced(used)} are taken",
            stop=f"--max-bytes is {spaced(budget_left.budget_bytes)}, this run took {spaced(used)}",
        )
    if budget_left.free_bytes is not None:
        share = budget_left.free_bytes // SPACE_SHARE
        yield _Limit(
            whole_bytes=share,
            left_bytes=share - taken_bytes,
            is_untouched=taken_bytes == 0,
            cuts=True,
            why=f"results lie in the tier, which has {spaced(budget_left.free_bytes)} bytes free,"
            " a chunk takes at most a third",
        )
    if budget_left.wave_bytes is not None:
        yield _Limit(
            whole_bytes=budget_left.wave_bytes,
            left_bytes=budget_left.wave_bytes - taken_bytes,
            is_untouched=taken_bytes == 0,
            cuts=False,
            why="",
        )


def _fitting(due: PartitionPlan, limits: Sequence[_Limit]) -> PartitionPlan | _Limit:
    """The largest chunk within `chunk.bytes` and the limits, or the limit that makes it wait."""
    whole = due.compact
    sources = whole.sources
    clean = [source for source in sources if source.next_offset <= whole.first_dirty]
    dirty = sources[len(clean) :]
    clean_bytes = sum(source.size_bytes for source in clean)
    # Of the first, the first two, … dirty segments.
    dirty_bytes = list(accumulate(source.size_bytes for source in dirty))
    count, why = len(dirty), ""
    bound = due.rules.chunk_bytes
    if bound is not None and dirty and dirty_bytes[-1] > bound:
        count, why = max(1, _within(dirty_bytes, bound)), f"chunk.bytes is {bound}"
    for limit in limits:
        size = clean_bytes + (dirty_bytes[count - 1] if count else 0)
        if size <= limit.left_bytes or (limit.is_untouched and not limit.cuts):
            continue
        fits = _within(dirty_bytes, limit.left_bytes - clean_bytes)
        is_too_large_for_any = limit.cuts and size > limit.whole_bytes
        if not is_too_large_for_any or not (fits or limit.is_untouched):
            return limit
        count, why = min(count, max(1, fits)), limit.why
    if count == len(dirty):
        return due
    number = whole.chunks_done + 1
    about = whole.chunks_done + -(-dirty_bytes[-1] // dirty_bytes[count - 1])
    chunk = _of_sources(whole, sources[: len(clean) + count], due.rules)
    said = f"chunk {number} of about {about}, up to offset {chunk.next_offset - 1}: {why}"
    return replace(due, choice=replace(chunk, held_back=(said,), is_last=False))


def _within(sums: Sequence[int], bound: int) -> int:
    """How many of the ascending sums are at most `bound`."""
    return sum(sum_ <= bound for sum_ in sums)


def rest_of_plan(whole: PartitionPlan, first_dirty: int, state: PartitionState) -> PartitionPlan:
    """Return what is left of `whole` once its part below `first_dirty` has been committed.

    `state`: the partition's row after that commit. Raises TypeError if `whole` is not due.
    """
    compact = whole.compact
    sources = tuple(s for s in state.segments if s.start_offset < compact.next_offset)
    rest = replace(
        _of_sources(compact, sources, whole.rules),
        first_dirty=first_dirty,
        chunks_done=compact.chunks_done + 1,
    )
    view = whole.view
    if view is not None:
        view = replace(view, state=state, segments=state.segments)
    return replace(whole, choice=rest, view=view)


def _of_sources(plan: Compact, sources: tuple[Segment, ...], rules: Rules) -> Compact:
    bytes_in = sum(segment.size_bytes for segment in sources)
    return replace(
        plan,
        next_offset=sources[-1].next_offset,
        groups=grouped(sources, rules),
        bytes_in=bytes_in,
        bytes_out_estimate=bytes_in + BATCH_HEADER_BYTES,
    )
