"""The outcome of each partition as one value, for tables and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tierfold.compaction.cleaning.counts import Counts
from tierfold.compaction.commits.holders import Holder
from tierfold.compaction.commits.receipts import STAYING, GroupResult, VerifiedParts
from tierfold.compaction.deletion.dropped import dropped_by_brokers
from tierfold.compaction.deletion.superseded import (
    SupersededBytes,
    all_gone_at_ms,
    joined,
    superseded_bytes,
)
from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.estimation.estimate import Estimate, NotEstimated
from tierfold.compaction.model.bindings import Detached
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Outcome, Unknown
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.segments import PartitionKey, RetiredSegment
from tierfold.compaction.planning.eligibility import DirtyRatio
from tierfold.compaction.planning.outlook import Outlook
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Compact, CompactReason, Rest
from tierfold.compaction.planning.storage_fees import SegmentFees
from tierfold.compaction.skipping.probe_counts import NO_PROBES, ProbeCounts
from tierfold.jobs.context.timestamps import timestamp_text

if TYPE_CHECKING:
    from tierfold.jobs.pipeline.round_execution import RoundResult

OK: Final = "ok"
"""`status` and `history`: the partition can be read."""
SOUND: Final = "sound"
"""`verify` found no corruption."""
PLANNED: Final = "planned"
"""A dry run: the partition would be compacted."""
COMPACTED: Final = "compacted"
PUBLISHED: Final = "published"
"""What was compacted before, brokers have by now."""
RESTORED: Final = "restored"
"""An earlier state is live again."""
FORGOTTEN: Final = "forgotten"
"""The row is empty; it only fences earlier runs."""
UPLOADED: Final = "uploaded"
"""What was due of a log directory is in the tier, and live."""
LEFT: Final = "left"
"""Due, but left for the next run: the budget is spent, or another run holds the partition."""
VACUUMED: Final = "vacuumed"
"""Everything due is deleted or retired."""
NOTHING_TO_DO: Final = "nothing_to_do"
REFUSED: Final = "refused"
"""A person must act first; nothing was tried."""
FAILED: Final = "failed"
"""It was tried and stopped; the live segments are unchanged."""
FENCED: Final = "fenced"
"""Another run took the partition over."""
LOST_RACE: Final = "lost_race"
"""Another run changed the partition first; plan again."""
UNKNOWN: Final = "unknown"
"""The catalog gave no answer during the run; the next run resolves it."""

NOT_BEGUN: Final = frozenset({LEFT, NOTHING_TO_DO, REFUSED})
"""Outcomes of partitions that were not tried."""

_REASON_SHOWN: Final = frozenset(
    {CompactReason.MUST_CLEAN, CompactReason.HORIZON_PASSED, CompactReason.PRODUCER_EXPIRED}
)
"""The reasons that a report shows: rounds that the dirty ratio alone would not start."""

OF_BROKERS: Final = ("events_planned", "events_sent", "publishing")
"""The fields that a document has only beside brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """One partition's outcome."""

    key: PartitionKey
    outcome: str
    """One of the constants of this module."""
    reason: str = ""
    """Why, as a sentence; empty if the outcome needs no reason."""
    epoch: int = 0
    """The compaction epoch that the run opened, else the one it found; 0: never claimed."""
    first_dirty: int | None = None
    next_offset: int | None = None
    """The first offset beyond the round."""
    segments_in: int = 0
    segments_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    """Bytes of the live logs that replaced those of `bytes_in`; in a plan, an estimate."""
    objects_written: int = 0
    """Objects of the new segments: a log and the files beside it."""
    parts_verified: VerifiedParts = field(default_factory=VerifiedParts)
    """How the parts in them were verified before the commit."""
    segments_read_once: int = 0
    """Segments that lost nothing, as the scan showed, and were not read a second time."""
    segments_skipped: int = 0
    """Segments that lost nothing, as their key indexes showed, and were not read at all."""
    key_indexes: ProbeCounts = NO_PROBES
    """What the key indexes of clean segments said."""
    index_bytes_written: int = 0
    """Bytes of the Bloom filters and key indexes of new segments."""
    bytes_read: int = 0
    """Bytes of `.log`s that finished tasks read, each time they did."""
    bytes_written: int = 0
    """Bytes of all objects that they wrote, committed or not."""
    task_ms: int = field(default=0, compare=False)
    """How long these tasks took, in milliseconds, one after the other."""
    counts: Counts = field(default_factory=Counts)
    ratio: DirtyRatio | None = None
    """How dirty and how overdue it was; None if it was not inspected."""
    should_have_rolled_at_ms: int | None = None
    """The earliest time at which its active segment should have rolled; None: not due yet."""
    superseded: tuple[SupersededBytes, ...] | None = None
    """The replaced segments that the row lists, and when they will be gone; in a plan, also what
    the plan would replace. None: unknown, because the partition is refused."""
    spared_bytes: int = 0
    """An upper bound of the superseded bytes that `min.rewrite.gain` left in live segments."""
    early_deletion_usd: float = 0.0
    """What it costs to delete the replaced objects at once; in a plan, at most."""
    retrieval_usd: float = 0.0
    """Of a plan: the retrieval fee of reading once what it replaces."""
    held_by: Holder | None = None
    """The other run that has the partition, or was faster; None: there is none."""
    outlook: Outlook | None = None
    """What the plan means for brokers; None: none were asked, or nothing is planned."""
    events_planned: int = 0
    """How many events brokers must be sent until they have what is planned, also of earlier runs;
    0: none were asked."""
    events_sent: int = 0
    """How many events the run sent to brokers."""
    publishing: str = ""
    """What publishing did or waits for, a clause; empty: it did nothing."""
    estimate: Estimate | NotEstimated | None = None
    """What would probably go; None: it was not asked for, or nothing could go."""
    notes: tuple[str, ...] = ()
    refusals: tuple[RefusalPart, ...] = ()
    """Why it is refused or failed, each reason by itself; none: it is not, or `reason` is all."""

    def as_json(self) -> dict[str, Any]:
        """The partition's entry in the `--json` document."""
        entry = asdict(self)
        key = entry.pop("key")
        del entry["superseded"], entry["held_by"], entry["estimate"], entry["task_ms"]
        for name in OF_BROKERS:
            del entry[name]
        if self.ratio is not None and not self.ratio.local_bytes:
            del entry["ratio"]["local_bytes"]
        for name in ("outlook", "early_deletion_usd", "retrieval_usd"):
            if not entry[name]:
                del entry[name]
        if self.held_by is not None and self.held_by.run:
            entry["held_by"] = self.held_by.run
        parts = self.superseded or ()
        gone_at_ms, is_known = all_gone_at_ms(parts), self.superseded is not None
        size_bytes = sum(part.size_bytes for part in parts)
        entry["superseded_bytes"] = size_bytes if is_known else None
        entry["superseded_gone_at"] = None if gone_at_ms is None else timestamp_text(gone_at_ms)
        entry["superseded_note"] = "; ".join(map(superseded_sentence, parts))
        if self.outcome == PLANNED:
            entry["counts"] = None  # Not zeros: nothing has been scanned.
        return {"topic": key["topic"], "partition": key["partition"], **key, **entry}


class Reporting:
    """A value with the report of one partition."""

    __slots__ = ()

    report: PartitionReport

    @property
    def key(self) -> PartitionKey:
        """The partition."""
        return self.report.key

    @property
    def outcome(self) -> str:
        """Its outcome, one of the constants of this module."""
        return self.report.outcome

    @property
    def reason(self) -> str:
        """Why, as a sentence; empty if the outcome needs no reason."""
        return self.report.reason

    @property
    def refusals(self) -> tuple[RefusalPart, ...]:
        """Why it is refused, each reason by itself; none: it is not."""
        return self.report.refusals


def superseded_sentence(part: SupersededBytes) -> str:
    """Return what removes replaced segments and when, or why nothing does."""
    return part.sentence("" if part.gone_at_ms is None else timestamp_text(part.gone_at_ms))


def max_compaction_delay_secs(reports: Iterable[PartitionReport]) -> int:
    """Return Kafka's metric: how far the most overdue partition is past `max.compaction.lag.ms`."""
    delays_ms = (report.ratio.delay_ms for report in reports if report.ratio is not None)
    return max(delays_ms, default=0) // 1000


def planned_report(partition: PartitionPlan) -> PartitionReport:
    """Report the plan; the report is final unless the partition is then compacted."""
    is_refused = isinstance(partition.choice, Refusal)
    has_brokers = not isinstance(partition.binding, Detached)
    return replace(
        _planned(partition),
        epoch=partition.epoch,
        superseded=None if is_refused else _superseded(partition, partition.retired),
        ratio=partition.ratio,
        spared_bytes=partition.spared_bytes,
        events_planned=partition.events_planned,
        should_have_rolled_at_ms=partition.should_have_rolled_at_ms if has_brokers else None,
    )


def _planned(partition: PartitionPlan) -> PartitionReport:
    choice = partition.choice
    if isinstance(choice, Compact):
        shown = (choice.detail,) if choice.reason in _REASON_SHOWN else ()
        return PartitionReport(
            key=partition.key,
            outcome=PLANNED,
            reason="; ".join((*shown, *choice.held_back)),
            first_dirty=choice.first_dirty,
            next_offset=choice.next_offset,
            segments_in=len(choice.sources),
            segments_out=len(choice.groups),
            bytes_in=choice.bytes_in,
            bytes_out=choice.bytes_out_estimate,
            outlook=partition.outlook,
            early_deletion_usd=early_deletion_usd(partition.fees_of_sources),
            retrieval_usd=float(sum(one.retrieval_usd for one in partition.fees_of_sources)),
            notes=choice.notes,
        )
    if isinstance(choice, Rest):
        nothing = PartitionReport(key=partition.key, outcome=NOTHING_TO_DO, reason=choice.detail)
        return replace(nothing, notes=choice.notes)
    return PartitionReport(
        key=partition.key, outcome=REFUSED, reason=choice.sentence, refusals=choice.parts
    )


def with_sources_superseded(
    planned: PartitionReport, partition: PartitionPlan, now_ms: int
) -> PartitionReport:
    """Report a plan also with the segments that it would replace at `now_ms`, at most."""
    if not partition.is_due:
        return planned
    sources = (
        RetiredSegment(
            segment=source, retired_at_ms=now_ms, retired_by_epoch=0, retired_by_run=""
        )
        for source in partition.compact.sources
    )
    superseded = _superseded(partition, sources)
    return replace(planned, superseded=joined((*(planned.superseded or ()), *superseded)))


def _superseded(
    partition: PartitionPlan, retired: Iterable[RetiredSegment]
) -> tuple[SupersededBytes, ...]:
    view, binding = partition.view, partition.binding
    dropped = None if view is None else dropped_by_brokers(view, binding, publishes=True)
    return superseded_bytes(retired, partition.rules, binding, dropped)


def failure_report(
    planned: PartitionReport, reason: str, refusals: tuple[RefusalPart, ...] = ()
) -> PartitionReport:
    """Report a partition that stopped before the commit, without results."""
    unchanged = replace(planned, segments_out=planned.segments_in, bytes_out=0, refusals=refusals)
    return replace(unchanged, outcome=FAILED, reason=reason, early_deletion_usd=0.0)


def outcome_report(planned: PartitionReport, outcome: Outcome) -> PartitionReport:
    """Report the outcome of the commit of a planned round."""
    match outcome:
        case Committed(epoch=epoch):
            return replace(planned, outcome=COMPACTED, epoch=epoch)
        case Fenced():
            planned = replace(planned, held_by=Holder(run=outcome.by_run))
            name, reason = FENCED, f"{fenced_by(outcome)}; nothing was committed; run again"
        case LostRace():
            name, reason = LOST_RACE, "another run changed the partition first; run again"
        case _:
            name, reason = UNKNOWN, _unknown(outcome)
    return replace(planned, outcome=name, reason=reason, bytes_out=0, early_deletion_usd=0.0)


def fenced_by(outcome: Fenced) -> str:
    """Return which run took the partition over, as part of a sentence."""
    if outcome.by_run:
        return f"run {outcome.by_run} holds epoch {outcome.by_epoch}"
    return f"another run took the partition over with epoch {outcome.by_epoch} and has ended"


def _unknown(outcome: Unknown) -> str:
    since = "the catalog could not be read since"
    if outcome.is_untraced:
        since = "the row does not show it, but the write may still arrive"
    # The next run claims the row; after that the write can no longer arrive.
    return (
        f"commit {outcome.commit_id} got no answer ({outcome.cause}), and {since}; run again: the"
        " next run finds out, and prevents a late write"
    )


def result_report(planned: PartitionReport, result: RoundResult) -> PartitionReport:
    """Report the result of a round."""
    planned = replace(
        planned,
        epoch=result.round.state.epoch,
        bytes_read=result.bytes_read,
        bytes_written=result.bytes_written,
        task_ms=result.task_ms,
        retrieval_usd=0.0,  # It is in the price of the run's requests.
    )
    if result.failure is not None or result.outcome is None:
        why = result.failure or "the commit was not tried"
        return failure_report(planned, why, result.refusals)
    report = outcome_report(planned, result.outcome)
    if report.outcome != COMPACTED:
        return report
    written = [one for receipt in result.receipts for one in receipt.written]
    staying = [
        group
        for group, receipt in zip(result.round.groups, result.receipts, strict=True)
        if receipt.result in STAYING
    ]
    unchanged = sum(group.size_bytes for group in staying)
    stays = {segment.segment_id for group in staying for segment in group.segments}
    fees = [one for one in result.round.plan.fees_of_sources if one.segment_id not in stays]
    results = Counter(receipt.result for receipt in result.receipts)
    counts = sum(
        (receipt.counts for receipt in result.receipts),
        Counts(malformed_versions=result.scan.malformed_versions),
    )
    return replace(
        report,
        early_deletion_usd=early_deletion_usd(fees),
        segments_out=len(written) + sum(results[kind] for kind in STAYING),
        segments_read_once=results[GroupResult.NOT_READ],
        segments_skipped=results[GroupResult.SKIPPED],
        key_indexes=result.scan.probes,
        index_bytes_written=sum(one.index_bytes for one in written),
        bytes_out=unchanged + sum(one.segment.size_bytes for one in written),
        objects_written=sum(len(one.stored) for one in written),
        parts_verified=sum((one.verified for one in written), VerifiedParts()),
        counts=counts,
        notes=(*planned.notes, *_result_notes(result, counts)),
    )


def _result_notes(result: RoundResult, counts: Counts) -> Iterator[str]:
    if result.unindexed:
        yield (
            f"{result.unindexed} aborted transactions have only their marker, no index lists them:"
            " their records were dropped"
        )
    if counts.malformed_versions:
        header = result.round.rules.compaction_strategy_header
        yield (
            f"{counts.malformed_versions} of {counts.records_in} records have a {header} header"
            " that is not a version (8 bytes): they count as records without the header"
        )
    if counts.without_key:
        yield (
            f"{counts.without_key} of {counts.records_in} records have no key and were dropped: is"
            " this topic meant to be compacted?"
        )


def left_report(planned: PartitionReport, why: str) -> PartitionReport:
    """Report a partition that was not begun because the run's budget is spent."""
    return replace(
        planned,
        outcome=LEFT,
        reason=f"left for the next run: {why}",
        segments_out=planned.segments_in,
        bytes_out=planned.bytes_in,
        early_deletion_usd=0.0,
        retrieval_usd=0.0,
    )


def early_deletion_usd(fees: Iterable[SegmentFees]) -> float:
    """Return the fees for deleting these segments now, US dollars."""
    return float(sum(one.early_deletion_usd for one in fees))
