"""`tierfold verify`: reads all live segments and checks them; writes nothing.

It checks every checksum and every record's format; that offsets have no gaps; indexes, snapshot,
checkpoint and leader epochs against the log; aborted transactions against their markers; and, as
long as the originals exist, the latest value of every key before and after. With
`--second-opinion`, a Spark window finds the latest records too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any, Final

from tierfold.compaction.cleaning.transactions import (
    TransactionStatus,
    joined_batches,
    transaction_status,
    with_unindexed,
)
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.wording import counted
from tierfold.compaction.planning.waves import FIRST_WAVE_OF_BYTES
from tierfold.compaction.verification.comparison import KeysCompared, SecondOpinion, sum_of
from tierfold.jobs.context.byte_progress import Step
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stopping import Stopped, check, deferred, finishing
from tierfold.jobs.engines.engine_choice import Engine, on_spark
from tierfold.jobs.engines.rows import Row, RowKind, unpickled
from tierfold.jobs.engines.stage_executor import StageExecutor, WorkersDied
from tierfold.jobs.pipeline.pace import Pace, pace_ended
from tierfold.jobs.pipeline.survey import READERS, known_partitions
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.verified import Verified
from tierfold.jobs.verbs.verified_by_brokers import FoundByBrokers, found_by_brokers
from tierfold.jobs.verbs.verify_targets import (
    SegmentSet,
    VerifyTarget,
    orders_of,
    target_of,
)
from tierfold.storage.clock import now_ms
from tierfold.storage.segments.segment_check import CheckedSegment

UNINDEXED_SHOWN: Final = 3
"""Maximum number of transactions without an index entry that a message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much `verify` does."""

    second_opinion: bool = False
    """A Spark window compares the keys too."""
    max_duration_ms: int | None = None
    """No wave begins once this much time has passed; None: no limit."""


EVERYTHING_ONCE: Final = Extent()
_NOTHING_FOUND: Final = FoundByBrokers()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The results of the workers for one partition."""

    checked: Mapping[str, CheckedSegment] = field(default_factory=dict)
    """By segment id."""
    failed: dict[str, RefusalPart] = field(default_factory=dict)
    """Why a segment could not be read, by its id."""
    compared: tuple[KeysCompared, ...] = ()
    is_doubtful: bool = False
    """Some aborts are unindexed: a reader returns their records as committed."""
    second: SecondOpinion | str | None = None
    """The second opinion, or why there is none; None: it was not requested."""
    by_brokers: FoundByBrokers = _NOTHING_FOUND

    def transaction_status(self, segment_set: SegmentSet) -> TransactionStatus:
        """Return the transactions' status from a segment set; all its segments were read."""
        txn_batches = [
            self.checked[segment.segment_id].txn_batches for segment in segment_set.segments
        ]
        return transaction_status(joined_batches(txn_batches), segment_set.aborted)

    def could_read(self, segment_set: SegmentSet | None) -> bool:
        """Every segment of the set was read."""
        return segment_set is not None and not segment_set.ids & self.failed.keys()


def _read(
    executor: StageExecutor[Any], context: RunContext, targets: Sequence[VerifyTarget]
) -> list[_Found]:
    """Run the stages; return one result per target, in their order.

    Unindexed aborts are known only after everything was read. Compaction respects them too, so
    partitions that have some are read again with these aborts known.
    """
    found = _read_once(executor, context, targets)
    doubtful = [i for i, target in enumerate(targets) if _is_doubtful(target, found[i])]
    if not doubtful:
        return found
    again = [_with_unindexed_aborts(targets[i], found[i]) for i in doubtful]
    second = dict(zip(doubtful, _read_once(executor, context, again), strict=True))
    for i, reread in second.items():
        failed = found[i].failed | reread.failed
        found[i] = replace(found[i], is_doubtful=True, compared=reread.compared, failed=failed)
    return found


def _read_once(
    executor: StageExecutor[Any], context: RunContext, targets: Sequence[VerifyTarget]
) -> list[_Found]:
    passes = {i: target.passes for i, target in enumerate(targets) if target.passes}
    try:
        rows = executor.verify([orders_of(target, context.hash_key) for target in targets], passes)
    except WorkersDied as died:
        check()  # The signal that stops this run may have stopped the workers too.
        raise UnreadableObject(died.what, where=context.tier_uri, remedy=died.remedy) from died
    by_partition: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_partition[row.partition_index].append(row)
    return [_found(target, by_partition[i]) for i, target in enumerate(targets)]


def _found(target: VerifyTarget, rows: Sequence[Row]) -> _Found:
    of_kind: dict[RowKind, list[tuple[str, Any]]] = defaultdict(list)
    read = target.read
    for row in rows:
        segment_id = read[row.segment_index].segment_id
        of_kind[row.kind].append((segment_id, unpickled(row.payload)))
    return _Found(
        checked=dict(of_kind[RowKind.CHECKED]),
        failed=dict(of_kind[RowKind.FAILED]),
        compared=tuple(one for _, one in of_kind[RowKind.COMPARED]),
    )


def verify(
    context: RunContext,
    settings: Settings,
    scope: Scope,
    extent: Extent = EVERYTHING_ONCE,
    engine: Engine = on_spark,
) -> list[Verified]:
    """Verify every partition in scope, by topic and number, of any policy.

    The partitions are read wave by wave; those that no wave reaches before a signal, or the end of
    `--max-duration`, are left.

    Raises UnreadableObject if Spark's workers die, BadSettings if the tier does not exist or a
    topic's settings conflict; an error in one partition is in its result.
    """
    started_at_ms = now_ms()
    targets = _targets(context, settings, scope)
    readable = [target for target in targets if target.read]
    found: dict[PartitionKey, _Found] = {}
    if readable:
        bytes_total = sum(target.read_bytes for target in readable)
        executor = engine(context, bytes_total)
        context.progress.begin(len(readable), bytes_total)
        pace = Pace(
            limit=FIRST_WAVE_OF_BYTES,
            started_at_ms=started_at_ms,
            max_duration_ms=extent.max_duration_ms,
        )
        with deferred(), suppress(Stopped):  # What earlier waves have found is reported.
            for wave in pace.waves(readable, attrgetter("read_bytes")):
                at_work = counted(len(wave), "partition")
                drops = finishing(f"the reading of {at_work} is dropped; others are reported")
                with drops, context.progress.wave(sum(target.read_bytes for target in wave)):
                    found |= _of_wave(executor, context, wave, extent)
                context.progress.ended(len(wave))
    left = pace_ended() if len(found) < len(readable) else ""
    unread = {target.key for target in readable} - found.keys()
    with Step(context.progress, "compare", None):
        return [
            Verified(key=target.key, left=target.left or left, refusal=target.refusal)
            if target.is_unread or target.key in unread
            else _verified(target, found.get(target.key, _Found()))
            for target in targets
        ]


def _targets(context: RunContext, settings: Settings, scope: Scope) -> list[VerifyTarget]:
    """What to read of each partition in scope."""
    with context.progress.survey(), ThreadPoolExecutor(READERS) as pool:
        known = known_partitions(context, scope)
        rules = settings.rules_by_topic(partition.key.topic for partition in known)
        of_known = [rules[partition.key.topic] for partition in known]
        targets = pool.map(partial(target_of, context), known, of_known)
        return list(context.progress.inspected(targets))


def _of_wave(
    executor: StageExecutor[Any],
    context: RunContext,
    wave: Sequence[VerifyTarget],
    extent: Extent,
) -> dict[PartitionKey, _Found]:
    """Verify the partitions of a wave."""
    found = list(zip(wave, _read(executor, context, wave), strict=True))
    if extent.second_opinion:
        found = _with_second_opinions(context, found)
    return {
        target.key: one
        if target.look is None
        else replace(one, by_brokers=found_by_brokers(context, target.look))
        for target, one in found
    }


def _with_second_opinions(
    context: RunContext, found: Sequence[tuple[VerifyTarget, _Found]]
) -> list[tuple[VerifyTarget, _Found]]:
    """Add the second opinions, or why a partition gets none."""
    unfit = _unfit_for_second(found)
    fit = [target for target, _ in found if target.key not in unfit]
    changed = "a commit changed it while it was read"
    opinions: dict[PartitionKey, SecondOpinion] = {}
    if fit:  # PySpark is imported only if it is needed.
        from tierfold.jobs.verbs.second_opinion import opinions_of_spark

        opinions = opinions_of_spark(context, fit)
    seconds = dict.fromkeys((target.key for target in fit), changed) | unfit | opinions
    return [(target, replace(one, second=seconds[target.key])) for target, one in found]


def _unfit_for_second(found: Sequence[tuple[VerifyTarget, _Found]]) -> dict[PartitionKey, str]:
    """Why a partition gets no second opinion: no comparison, or Spark would read other records."""
    named = Counter((target.key.topic, target.key.partition) for target, _ in found)
    unfit = {}
    for target, one in found:
        if not isinstance(_compared(target, one), KeysCompared):
            unfit[target.key] = "the keys are not compared"
        elif one.is_doubtful:
            unfit[target.key] = "Spark would read aborted records that no index lists as committed"
        elif named[target.key.topic, target.key.partition] > 1:
            unfit[target.key] = "the tier has several topics of that name"
    return unfit


def _is_doubtful(target: VerifyTarget, found: _Found) -> bool:
    """Whether keys are compared and an unindexed abort affects them."""
    if target.before is None or found.failed:
        return False
    both = (target.now, target.before)
    return any(found.transaction_status(segment_set).unindexed for segment_set in both)


def _with_unindexed_aborts(target: VerifyTarget, found: _Found) -> VerifyTarget:
    def known(segments: SegmentSet) -> SegmentSet:
        aborted = with_unindexed(segments.aborted, found.transaction_status(segments))
        return replace(segments, aborted=aborted)

    before = target.before
    return replace(target, now=known(target.now), before=before and known(before))


def _verified(target: VerifyTarget, found: _Found) -> Verified:
    live = target.now.segments
    checked = [found.checked[one.segment_id] for one in live if one.segment_id in found.checked]
    comparison, second = _compared(target, found), found.second
    compared = comparison if isinstance(comparison, KeysCompared) else None
    counts = ("batches", "records", "markers", "index_entries")
    return Verified(
        key=target.key,
        segments=len(live),
        bytes_read=sum(segment.bytes_read for segment in found.checked.values()),
        segments_near=sum(segment.is_near for segment in found.checked.values()),
        keys_compared=compared.keys if compared else None,
        compared_by=target.strategy if compared else None,
        second_opinion=second if isinstance(second, SecondOpinion) else None,
        keys_deleted=compared.deleted if compared else 0,
        corruptions=tuple(_corruptions(target, found, checked, compared)),
        notes=tuple(_notes(target, found, checked, comparison)),
        **{name: sum(getattr(segment, name) for segment in checked) for name in counts},
    )


def _compared(target: VerifyTarget, found: _Found) -> KeysCompared | str | None:
    """The comparison of the keys, or why it is impossible; None: it was not tried."""
    if target.before is None:
        return None
    if not found.could_read(target.now):
        return "a live segment could not be read"
    if not found.could_read(target.before):
        lost = sorted(target.before.ids & found.failed.keys())
        return f"an original could not be read: {found.failed[lost[0]].sentence}"
    return sum_of(found.compared)


def _corruptions(
    target: VerifyTarget,
    found: _Found,
    checked: Sequence[CheckedSegment],
    compared: KeysCompared | None,
) -> Iterator[str]:
    yield from target.corruptions
    ids = (segment.segment_id for segment in target.now.segments)
    yield from (found.failed[one].sentence for one in ids if one in found.failed)
    for segment in checked:
        yield from segment.corruptions
    if target.is_listed_known and found.could_read(target.now):
        unindexed = found.transaction_status(target.now).unindexed
        if unindexed:
            shown = ", ".join(
                f"producer {one.producer_id}, offsets {one.first_offset} to {one.last_offset}"
                for one in unindexed[:UNINDEXED_SHOWN]
            )
            dots = ", …" if len(unindexed) > UNINDEXED_SHOWN else ""
            yield (
                f"aborted transactions that no transaction index lists: {len(unindexed)}"
                f" ({shown}{dots}); brokers serve their records as committed"
            )
    if compared is not None and compared.differing:
        shown = "; ".join(map(str, compared.examples))
        dots = "; …" if compared.differing > len(compared.examples) else ""
        yield (
            f"{compared.differing} of {compared.keys} keys have another latest value than in the"
            f" segments that brokers wrote: {shown}{dots}"
        )
    yield from found.by_brokers.corruptions
    second = found.second
    if isinstance(second, SecondOpinion) and second.differing:
        yield (
            f"second opinion: {second.differing} of {second.keys} keys have another latest record"
            f" than in the segments that brokers wrote: {second.example}"
        )


def _notes(
    target: VerifyTarget,
    found: _Found,
    checked: Sequence[CheckedSegment],
    comparison: KeysCompared | str | None,
) -> Iterator[str]:
    """`comparison`: as `_compared` returns it."""
    yield from target.notes
    yield from found.by_brokers.notes
    others = sum(
        not segment.has_indexes_as_built and not segment.corruptions for segment in checked
    )
    if others:
        yield (
            f"the indexes of {others} of {len(target.now.segments)} segments are correct, but not"
            " those that tierfold would build with"
            f" index.interval.bytes={target.index_interval_bytes}"
        )
    if any(segment.is_near for segment in found.checked.values()):
        yield (
            "logs were read from log directories: their .log objects in the tier were listed, not"
            " read, so they are not proven to be sound"
        )
    if isinstance(comparison, str):
        yield f"not compared: {comparison}"
    elif comparison is not None and comparison.late:
        yield (
            f"{comparison.late} of {comparison.keys} keys are back: a record older than their"
            " tombstone arrived after the tombstone was gone; delete.retention.ms must exceed the"
            " lateness"
        )
    if isinstance(found.second, str):
        yield f"no second opinion: {found.second}"
