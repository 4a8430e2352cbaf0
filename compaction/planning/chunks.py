"""How much of a plan is done at once: chunks of a partition, waves of a run (SEMANTICS 7).

A chunk is a round that ends early: it covers all of `[log start, its end)`. Its dirty part is whole
segments, at least one; the clean part below is read again with each chunk, as Kafka's `Cleaner`
does when its map is full. The result is the same however a log is cut: a record superseded within
a chunk is superseded in the whole, and a record that stays meets the records of the next chunk.

    next_wave(due, budget_left)  ->  Wave: chunks of the first plans of `due`, which share a pass
    rest_of_plan(plan, ...)      ->  the plan for the rest, once a chunk is committed

A chunk is a `PartitionPlan` whose `Compact` is not the last.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.units import BATCH_HEADER_BYTES
from tierfold.compaction.model.wording import counted, spaced
from tierfold.compaction.planning.grouping import grouped
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Compact
from tierfold.compaction.planning.waves import WaveLimit
from tierfold.compaction.publishing.batches import sources_max

SPACE_SHARE: Final = 3
"""A wave takes at most a third of the free space (KIP-1272: `free space / 3`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of one run; None: no limit."""

    max_partitions: int | None = None
    max_bytes: int | None = None
    """Bytes of source logs, the clean part of each chunk included."""
    max_duration_ms: int | None = None
    """No chunk begins once this much time has passed."""


UNBOUND: Final = Budget()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingBudget:
    """What a wave may take, in bytes of source logs; None: no limit."""

    budget_bytes: int | None = None
    """The limit of the whole run."""
    spent_bytes: int = 0
    """How much of it the run has begun."""
    free_bytes: int | None = None
    """Free space of the tier's file system, where the results are written."""
    wave: WaveLimit | None = None
    """The limit of a wave of several partitions; a partition alone may exceed its bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """The chunks of the first partitions that were due, in their order."""

    chunks: tuple[PartitionPlan, ...]
    stop: str = ""
    """Why this run may begin nothing else, a clause; empty: it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    """A limit, as it applies to the next partition."""

    whole_bytes: int
    used_bytes: int
    """If 0, at least one segment may be taken, however large."""
    cuts: bool = True
    """A partition beyond the whole limit is cut to fit; False: it is taken alone and whole."""
    why: str = ""
    ends_run: bool = False
    """Once it is reached the run ends; False: the next wave starts with the whole limit."""

    @property
    def left_bytes(self) -> int:
        return self.whole_bytes - self.used_bytes


def next_wave(due: Sequence[PartitionPlan], budget_left: RemainingBudget) -> Wave:
    """The next wave: chunks of the first partitions in their order, as many as the budget allows.

    The order is kept: if a partition must wait, all after it wait. The first partition always gets
    a chunk, unless the run's bytes are spent, so that each run makes progress.
    """
    chunks: list[PartitionPlan] = []
    taken_bytes = 0
    most = None if budget_left.wave is None else budget_left.wave.partitions
    for partition in due[:most]:
        found = _fitting(partition, tuple(_limits(budget_left, taken_bytes)))
        if isinstance(found, _Limit):
            return Wave(chunks=tuple(chunks), stop=found.why if found.ends_run else "")
        chunks.append(found)
        taken_bytes += found.compact.bytes_in
    return Wave(chunks=tuple(chunks))


def _limits(budget_left: RemainingBudget, taken_bytes: int) -> Iterator[_Limit]:
    if (most := budget_left.budget_bytes) is not None:
        used = budget_left.spent_bytes + taken_bytes
        taken = f", and this run has already taken {counted(used, 'byte')}" if used else ""
        why = f"--max-bytes is {spaced(most)}{taken}"
        yield _Limit(whole_bytes=most, used_bytes=used, why=why, ends_run=True)
    if (free := budget_left.free_bytes) is not None:
        why = (
            f"the tier, where results are written, has {spaced(free)} bytes free, and a chunk takes"
            " at most a third"
        )
        yield _Limit(whole_bytes=free // SPACE_SHARE, used_bytes=taken_bytes, why=why)
    if (wave := budget_left.wave) is not None:
        yield _Limit(whole_bytes=wave.work, used_bytes=taken_bytes, cuts=False)


def _fitting(due: PartitionPlan, limits: Sequence[_Limit]) -> PartitionPlan | _Limit:
    """The largest chunk within `chunk.bytes` and the limits, or the limit that makes it wait."""
    whole = due.compact
    sources = whole.sources
    clean = [source for source in sources if source.next_offset <= whole.first_dirty]
    clean_bytes = sum(source.size_bytes for source in clean)
    # The bytes of the first dirty segment, of the first two, ….
    dirty_bytes = list(accumulate(source.size_bytes for source in sources[len(clean) :]))
    all_dirty = count = len(dirty_bytes)
    why = ""
    chunk_bytes = due.rules.chunk_bytes
    if chunk_bytes is not None and dirty_bytes and dirty_bytes[-1] > chunk_bytes:
        count, why = max(1, bisect(dirty_bytes, chunk_bytes)), f"chunk.bytes is {chunk_bytes}"
    for limit in limits:
        size = clean_bytes + (dirty_bytes[count - 1] if count else 0)
        if size <= limit.left_bytes or not (limit.used_bytes or limit.cuts):
            continue
        fits = bisect(dirty_bytes, limit.left_bytes - clean_bytes)
        is_too_large_for_any = limit.cuts and size > limit.whole_bytes
        if not is_too_large_for_any or (limit.used_bytes and not fits):
            return limit
        count, why = min(count, max(1, fits)), limit.why
    if count == all_dirty:
        return due
    number = whole.chunks_done + 1
    chunk_count = whole.chunks_done + -(-dirty_bytes[-1] // dirty_bytes[count - 1])
    chunk = _of_sources(whole, sources[: len(clean) + count], due.rules)
    held_back = (
        f"chunk {number} of about {chunk_count}, up to offset {chunk.next_offset - 1}: {why}"
    )
    return replace(due, choice=replace(chunk, held_back=(held_back,), is_last=False))


def rest_of_plan(whole: PartitionPlan, first_dirty: int, state: PartitionState) -> PartitionPlan:
    """The rest of `whole`, once its part below `first_dirty` is committed.

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
    is_for_brokers = plan.groups[0].is_for_brokers
    return replace(
        plan,
        next_offset=sources[-1].next_offset,
        groups=grouped(sources, rules, sources_max(plan.key) if is_for_brokers else None),
        bytes_in=bytes_in,
        bytes_out_estimate=bytes_in + BATCH_HEADER_BYTES,
    )
