"""`tierfold verify`: reads all live segments again and checks them; writes nothing.

Per partition: every checksum and every record's format; offsets without gaps; indexes, snapshot,
checkpoint and leader epochs against the log; aborted transactions against their markers; and, while
the originals exist, the latest value of every key before and after. With `--second-opinion` a Spark
window finds the latest records too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rich.console import Console

from tierfold.compaction.cleaning.transactions import (
    TransactionStatus,
    joined_batches,
    transaction_status,
)
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.verification.comparison import KeysCompared, SecondOpinion, sum_of
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stopping import check
from tierfold.jobs.engines.engine_choice import Engine, on_spark
from tierfold.jobs.engines.rows import Row, RowKind, unpickled
from tierfold.jobs.engines.stage_executor import StageExecutor, WorkersDied
from tierfold.jobs.pipeline.survey import READERS, known_partitions
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.verify_targets import (
    SegmentSet,
    VerifyTarget,
    orders_of,
    target_of,
    with_unindexed,
)
from tierfold.storage.segments.segment_check import CheckedSegment

UNLISTED_SHOWN: Final = 3
"""Maximum number of transactions without an index entry that a message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result of `verify` for one partition."""

    key: PartitionKey
    segments: int = 0
    """Live ones."""
    batches: int = 0
    """Of the live segments, like the other counts."""
    records: int = 0
    """Transaction markers included."""
    markers: int = 0
    """How many of `records` are transaction markers."""
    bytes_read: int = 0
    """Bytes of all logs read, the originals' included."""
    keys_compared: int | None = None
    """Keys whose latest value was compared with the originals; None: `notes` gives the reason."""
    compared_by: str | None = None
    """The compaction strategy of the comparison, as the catalog names it."""
    second_opinion: SecondOpinion | None = None
    """The result of Spark's window; None: not requested, or `notes` gives the reason."""
    keys_deleted: int = 0
    """Of the keys compared, those whose latest record in the originals is a tombstone."""
    index_entries: int = 0
    corruptions: tuple[str, ...] = ()
    """One sentence per corruption; empty: the partition is sound."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The results of the workers for one partition."""

    checked: Mapping[str, CheckedSegment] = field(default_factory=dict)
    """By segment id."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why a segment could not be read, by its id."""
    compared: tuple[KeysCompared, ...] = ()
    is_doubtful: bool = False
    """Some aborts are unindexed: a reader returns their records as committed."""
    second: SecondOpinion | str | None = None
    """The second opinion, or why there is none; None: it was not requested."""

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

    Unindexed aborts are known only after everything was read; these partitions are then read again
    with the aborts known, because compaction also follows the markers.
    """
    found = _read_once(executor, context, targets)
    doubtful = [i for i, target in enumerate(targets) if _is_doubtful(target, found[i])]
    if not doubtful:
        return found
    again = [_with_unindexed_aborts(targets[i], found[i]) for i in doubtful]
    second = dict(zip(doubtful, _read_once(executor, context, again), strict=True))
    return [
        replace(
            one,
            is_doubtful=True,
            compared=second[i].compared,
            failed=one.failed | second[i].failed,
        )
        if i in second
        else one
        for i, one in enumerate(found)
    ]


def _read_once(
    executor: StageExecutor[Any], context: RunContext, targets: Sequence[VerifyTarget]
) -> list[_Found]:
    passes = {i: target.passes for i, target in enumerate(targets) if target.passes}
    try:
        rows = executor.verify([orders_of(target) for target in targets], passes)
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
    console: Console,
    *,
    second_opinion: bool = False,
    engine: Engine = on_spark,
) -> list[Verified]:
    """Verify every partition in scope, by topic and number, of any policy.

    `console` shows the progress. `second_opinion`: a Spark window compares the keys too.

    Raises UnreadableObject if Spark's workers die, BadSettings if the tier does not exist or a
    topic's settings conflict; an error in one partition is in its result.
    """
    known = known_partitions(context, scope)
    rules = settings.rules_by_topic(partition.key.topic for partition in known)
    with ThreadPoolExecutor(READERS) as pool:
        targets = list(
            pool.map(
                lambda partition: target_of(
                    context, partition, rules[partition.key.topic].index_interval_bytes
                ),
                known,
            )
        )
    readable = [target for target in targets if target.read]
    if not readable:
        return [_verified(target, _Found()) for target in targets]
    executor = engine(context, console, sum(target.read_bytes for target in readable))
    found = list(zip(readable, _read(executor, context, readable), strict=True))
    if second_opinion:
        found = _with_second_opinions(context, found, console)
    by_key = {target.key: one for target, one in found}
    return [_verified(target, by_key.get(target.key, _Found())) for target in targets]


def _with_second_opinions(
    context: RunContext, found: Sequence[tuple[VerifyTarget, _Found]], console: Console
) -> list[tuple[VerifyTarget, _Found]]:
    """Ask Spark's window about the partitions that it reads alike; the others get a reason."""
    unfit = _unfit_for_second(found)
    fit = [target for target, _ in found if target.key not in unfit]
    changed = "a commit changed it while it was read"
    opinions: dict[PartitionKey, SecondOpinion] = {}
    if fit:  # Only Spark has that window, so nothing of it is imported without need.
        from tierfold.jobs.verbs.second_opinion import opinions_of_spark

        opinions = opinions_of_spark(context, fit, console)
    return [
        (
            target,
            replace(one, second=unfit.get(target.key) or opinions.get(target.key, changed)),
        )
        for target, one in found
    ]


def _unfit_for_second(
    found: Sequence[tuple[VerifyTarget, _Found]],
) -> dict[PartitionKey, str]:
    """Why a partition gets no second opinion: nothing to compare, or other records are read."""
    named = Counter((target.key.topic, target.key.partition) for target, _ in found)
    unfit = {}
    for target, one in found:
        if not isinstance(_compared(target, one), KeysCompared):
            unfit[target.key] = "the keys are not compared"
        elif one.is_doubtful:
            unfit[target.key] = "the reader takes aborted records that no index lists for committed"
        elif named[target.key.topic, target.key.partition] > 1:
            unfit[target.key] = "the tier has several topics of that name"
    return unfit


def _is_doubtful(target: VerifyTarget, found: _Found) -> bool:
    """Whether keys are compared and an unindexed abort affects them."""
    segment_sets = (target.now, target.before)
    return (
        target.before is not None
        and not found.failed
        and any(
            found.transaction_status(segment_set).unindexed
            for segment_set in segment_sets
            if segment_set is not None
        )
    )


def _with_unindexed_aborts(target: VerifyTarget, found: _Found) -> VerifyTarget:
    now, before = target.now, target.before
    return replace(
        target,
        now=with_unindexed(now, found.transaction_status(now)),
        before=None if before is None else with_unindexed(before, found.transaction_status(before)),
    )


def _verified(target: VerifyTarget, found: _Found) -> Verified:
    live = target.now.segments
    checked = [
        found.checked[segment.segment_id] for segment in live if segment.segment_id in found.checked
    ]
    compared = _compared(target, found)
    return Verified(
        key=target.key,
        segments=len(live),
        batches=sum(segment.batches for segment in checked),
        records=sum(segment.records for segment in checked),
        markers=sum(segment.markers for segment in checked),
        bytes_read=sum(segment.bytes_read for segment in found.checked.values()),
        keys_compared=compared.keys if isinstance(compared, KeysCompared) else None,
        compared_by=target.strategy if isinstance(compared, KeysCompared) else None,
        second_opinion=found.second if isinstance(found.second, SecondOpinion) else None,
        keys_deleted=compared.deleted if isinstance(compared, KeysCompared) else 0,
        index_entries=sum(segment.index_entries for segment in checked),
        corruptions=(
            *target.corruptions,
            *(
                found.failed[segment.segment_id]
                for segment in live
                if segment.segment_id in found.failed
            ),
            *(corruption for segment in checked for corruption in segment.corruptions),
            *_unlisted(target, found),
            *_differences(compared),
            *_second_differences(found.second),
        ),
        notes=(
            *target.notes,
            *_index_notes(target, live, checked),
            *_why_not(compared),
            *_late(compared),
            *((f"no second opinion: {found.second}",) if isinstance(found.second, str) else ()),
        ),
    )


def _compared(target: VerifyTarget, found: _Found) -> KeysCompared | str | None:
    """The comparison of the keys, or why it is impossible; None: it was not tried."""
    if target.before is None:
        return None
    if not found.could_read(target.now):
        return "a live segment could not be read"
    if not found.could_read(target.before):
        lost = sorted(target.before.ids & found.failed.keys())
        return f"an original could not be read: {found.failed[lost[0]]}"
    return sum_of(found.compared)


def _why_not(compared: KeysCompared | str | None) -> tuple[str, ...]:
    return (f"not compared: {compared}",) if isinstance(compared, str) else ()


def _late(compared: KeysCompared | str | None) -> tuple[str, ...]:
    if not isinstance(compared, KeysCompared) or not compared.late:
        return ()
    return (
        f"{compared.late} of {compared.keys} keys are back: a record arrived that is older than "
        "their tombstone, after that was gone; delete.retention.ms must exceed the lateness",
    )


def _differences(compared: KeysCompared | str | None) -> tuple[str, ...]:
    if not isinstance(compared, KeysCompared) or not compared.differing:
        return ()
    shown = "; ".join(str(example) for example in compared.examples)
    dots = "; …" if compared.differing > len(compared.examples) else ""
    return (
        f"{compared.differing} of {compared.keys} keys have another latest value than in the "
        f"segments that brokers wrote: {shown}{dots}",
    )


def _second_differences(second: SecondOpinion | str | None) -> tuple[str, ...]:
    if not isinstance(second, SecondOpinion) or not second.differing:
        return ()
    return (
        f"second opinion: {second.differing} of {second.keys} keys have another latest record than "
        f"in the segments that brokers wrote: {second.example}",
    )


def _unlisted(target: VerifyTarget, found: _Found) -> tuple[str, ...]:
    """ABORT markers whose transaction still has batches here, and that no index lists."""
    if not target.is_listed_known or not found.could_read(target.now):
        return ()
    unindexed = found.transaction_status(target.now).unindexed
    if not unindexed:
        return ()
    shown = ", ".join(
        f"producer {aborted.producer_id}, offsets {aborted.first_offset} to {aborted.last_offset}"
        for aborted in unindexed[:UNLISTED_SHOWN]
    )
    dots = ", …" if len(unindexed) > UNLISTED_SHOWN else ""
    return (
        f"aborted transactions that no transaction index lists: {len(unindexed)} ({shown}{dots}); "
        "brokers serve their records as committed",
    )


def _index_notes(
    target: VerifyTarget, live: Sequence[Segment], checked: Sequence[CheckedSegment]
) -> tuple[str, ...]:
    """Notes on correct indexes that differ from those the log gives under the setting."""
    others = sum(
        not segment.has_indexes_as_built and not segment.corruptions for segment in checked
    )
    if not others:
        return ()
    return (
        f"the indexes of {others} of {len(live)} segments are right, but not those that the log "
        f"gives under index.interval.bytes={target.index_interval_bytes}",
    )
