"""What needs a person, the most urgent first, in the words of the verbs' own reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tierfold.compaction.deletion.superseded import Removal, SupersededBytes
from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.errors import UNCHANGED
from tierfold.compaction.model.passes import is_unpublished
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.wording import counted, duration, spaced
from tierfold.compaction.planning.open_step import why_open
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.publishing.steps import Done, Refused
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.page.page_model import Problem, Urgency
from tierfold.jobs.page.recorded import Unfinished
from tierfold.jobs.pipeline.partition_report import superseded_sentence
from tierfold.jobs.reports.refusals_report import in_short
from tierfold.jobs.reports.tables import in_words

BEHIND_MS: Final = 86_400_000
"""A nightly `vacuum` deletes what may go within a day."""

_CODES: Final = (Removal.VACUUM, Removal.LISTED)
"""What `vacuum` deletes by itself."""

_LATE: Final = (
    "Raise `--max-duration` or `--max-bytes` of the nightly `compact` if partitions are left, or"
    " run it more often."
)


def problems(
    plans: Sequence[PartitionPlan],
    unfinished: Sequence[Unfinished],
    superseded: Sequence[tuple[PartitionKey, SupersededBytes]],
    now_ms: int,
) -> tuple[Problem, ...]:
    """Return all problems, in the order of `Urgency`; within one, those of most partitions first.

    `unfinished` counts only for partitions of `plans`. `superseded`: what stays of each partition.
    """
    order = [*Urgency]
    found = (
        *_failed(plans, unfinished),
        *_refused(plans),
        *_open(plans),
        *_staying(plans, superseded, now_ms),
        *_late(plans),
    )
    return tuple(sorted(found, key=lambda one: (order.index(one.urgency), -one.partitions)))


def _grouped(
    urgency: Urgency,
    found: Iterable[tuple[PartitionKey, str, str]],
    plans: Sequence[PartitionPlan],
) -> Iterator[Problem]:
    """One problem for each reason and remedy, with its partitions."""
    stopped: dict[tuple[str, str], list[PartitionKey]] = defaultdict(list)
    for key, why, remedy in found:
        stopped[why, remedy].append(key)
    for (why, remedy), keys in stopped.items():
        yield Problem(
            urgency=urgency,
            where=in_short(keys, len(plans)),
            partitions=len(keys),
            why=why,
            remedy=remedy,
        )


def _failed(
    plans: Sequence[PartitionPlan], unfinished: Sequence[Unfinished]
) -> Iterator[Problem]:
    keys = {(one.key.topic, one.key.topic_id, one.key.partition): one.key for one in plans}
    found = (
        (
            keys[one.topic, one.topic_id, one.partition],
            f"{one.command} {in_words(one.outcome)}: {one.reason}",
            "",
        )
        for one in unfinished
        if (one.topic, one.topic_id, one.partition) in keys
    )
    return _grouped(Urgency.FAILED, found, plans)


def _refused(plans: Sequence[PartitionPlan]) -> Iterator[Problem]:
    parts: Iterator[tuple[PartitionKey, RefusalPart]] = (
        (plan.key, part)
        for plan in plans
        if isinstance(plan.choice, Refusal)
        for part in plan.choice.parts
    )
    found = (
        (
            key,
            f"{part.detail.rstrip('.')} [{part.code}]",
            part.remedy.removeprefix(UNCHANGED).lstrip(),
        )
        for key, part in parts
    )
    return _grouped(Urgency.REFUSED, found, plans)


def _open(plans: Sequence[PartitionPlan]) -> Iterator[Problem]:
    found = (
        (plan.key, why, "The next `tierfold compact --publish` goes on.")
        for plan in plans
        if (why := _why_unpublished(plan))
    )
    return _grouped(Urgency.OPEN, found, plans)


def _why_unpublished(plan: PartitionPlan) -> str:
    """Why brokers do not have what the row says; empty: they have, or none serves it."""
    row = None if plan.view is None else plan.view.state
    if row is None or not row.is_served or isinstance(plan.choice, Refusal):
        return ""
    if plan.step is None:
        is_open = is_unpublished(row)
        return "the catalog does not note that brokers have the newest pass" if is_open else ""
    if isinstance(plan.step, Done):
        return ""
    is_refused = isinstance(plan.step, Refused)
    return why_open(row, plan.step) if is_refused else f"not wholly published: {plan.step.why}"


def _staying(
    plans: Sequence[PartitionPlan],
    parts: Sequence[tuple[PartitionKey, SupersededBytes]],
    now_ms: int,
) -> Iterator[Problem]:
    behind = [
        (key, part)
        for key, part in parts
        if part.removal in _CODES and (part.gone_at_ms or now_ms) + BEHIND_MS < now_ms
    ]
    if behind:
        since_ms = min(part.gone_at_ms or now_ms for _, part in behind)
        why = (
            f"{spaced(_bytes(behind))} bytes of replaced segments may go since"
            f" {timestamp_text(since_ms)}, and are still there"
        )
        remedy = "Run `tierfold vacuum`; its report says what it could not delete, and why."
        yield _of(Urgency.BEHIND, behind, plans, why, remedy)
    by_reason: dict[str, list[tuple[PartitionKey, SupersededBytes]]] = defaultdict(list)
    for key, part in parts:
        if part.removal is Removal.KEPT:
            by_reason[part.why_kept].append((key, part))
    for kept in by_reason.values():
        _, first = kept[0]
        whole = SupersededBytes(
            removal=Removal.KEPT,
            size_bytes=_bytes(kept),
            gone_at_ms=None,
            why_kept=first.why_kept,
        )
        why, _, remedy = superseded_sentence(whole).partition(". ")
        yield _of(Urgency.KEPT, kept, plans, why, f"{remedy}.")


def _bytes(parts: Sequence[tuple[PartitionKey, SupersededBytes]]) -> int:
    return sum(part.size_bytes for _, part in parts)


def _of(
    urgency: Urgency,
    parts: Sequence[tuple[PartitionKey, SupersededBytes]],
    plans: Sequence[PartitionPlan],
    why: str,
    remedy: str,
) -> Problem:
    keys = [*dict.fromkeys(key for key, _ in parts)]
    where = in_short(keys, len(plans))
    return Problem(urgency=urgency, where=where, partitions=len(keys), why=why, remedy=remedy)


def _late(plans: Sequence[PartitionPlan]) -> Iterator[Problem]:
    late = [plan for plan in plans if plan.ratio is not None and plan.ratio.must_clean]
    if late:
        most_ms = max(plan.ratio.delay_ms for plan in late if plan.ratio is not None)
        yield Problem(
            urgency=Urgency.LATE,
            where=in_short([plan.key for plan in late], len(plans)),
            partitions=len(late),
            why=f"{counted(len(late), 'partition')} past max.compaction.lag.ms, the most overdue by"
            f" {duration(most_ms)}",
            remedy=_LATE,
        )
