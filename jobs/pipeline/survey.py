"""Stages 1 and 2: inspect the partitions and plan them, from metadata alone.

A segment is opened once, when it is discovered, and only its ends are read; the catalog stores the
result. The survey returns a value per partition and writes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.errors import TierfoldError, unexpected
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.compaction.model.strategies import strategy_change
from tierfold.compaction.planning.eligibility import (
    DirtyRatio,
    dirty_ratio,
    should_have_rolled_at_ms,
)
from tierfold.compaction.planning.plan import Choice, Compact, propose, rest_by_policy
from tierfold.compaction.planning.plan_check import violations
from tierfold.compaction.planning.regions import last_stable_of, regions_of
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import EVERYTHING, Scope, named
from tierfold.jobs.pipeline.discovery import viewed
from tierfold.jobs.settings.resolution import Settings
from tierfold.storage.catalog.rows import RowsRead
from tierfold.storage.segments.segment_metadata import read_snapshot

READERS: Final = 16
"""Threads that read metadata in parallel; they mostly wait for the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """One partition after the survey."""

    key: PartitionKey
    rules: Rules
    view: PartitionView | None
    """None if the partition was not inspected or could not be understood."""
    choice: Choice
    ratio: DirtyRatio | None = None
    """How dirty and how overdue it is; None if the partition was not inspected."""
    should_have_rolled_at_ms: int | None = None
    """The earliest time at which its active segment should have rolled; None: not due yet."""
    producers: tuple[ProducerEntry, ...] = ()
    """The newest producer snapshot in view; read only if something is dirty or due."""
    epoch: int = 0
    """The compaction epoch in the catalog's row; 0: no row."""


def survey(context: RunContext, settings: Settings, scope: Scope) -> list[Surveyed]:
    """Survey every partition in scope, in order of topic and number.

    Raises BadSettings if the tier does not exist or a topic's settings conflict. An error in one
    partition becomes the `choice` of that partition.
    """
    return survey_of(context, settings, known_partitions(context, scope), scope.first_dirty)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPartition:
    """A partition in scope, before it is inspected."""

    key: PartitionKey
    state: PartitionState | None
    """The catalog's row; None: no row."""
    refusal: Refusal | None
    """Why it must not be inspected."""


def survey_of(
    context: RunContext,
    settings: Settings,
    known: Sequence[KnownPartition],
    first_dirty: int | None = None,
) -> list[Surveyed]:
    """Survey these partitions, in their order; `first_dirty` and errors as in `survey`."""
    rules = settings.rules_by_topic(partition.key.topic for partition in known)
    with ThreadPoolExecutor(READERS) as pool:
        return list(
            pool.map(
                lambda partition: _surveyed(
                    context, partition, rules[partition.key.topic], first_dirty
                ),
                known,
            )
        )


def known_partitions(context: RunContext, scope: Scope) -> list[KnownPartition]:
    """Return the partitions in scope, by topic and number, each with its row.

    Raises BadSettings if the tier does not exist or has no topic of a given name, TierfoldError if
    the catalog cannot be read.
    """
    everywhere = context.tier.partitions()
    keys = scope.chosen(everywhere)
    return known_among(everywhere, keys, context.catalog.look(keys))


def known_by_name(
    context: RunContext, name: str, *, where: str, scope: Scope = EVERYTHING
) -> KnownPartition:
    """Return the partition in scope with that name; raises as `named` and `known_partitions`."""
    everywhere = context.tier.partitions()
    key = named(scope.chosen(everywhere), name, where=where)
    (known,) = known_among(everywhere, [key], context.catalog.look([key]))
    return known


def known_among(
    everywhere: Sequence[PartitionKey], keys: Sequence[PartitionKey], rows: RowsRead
) -> list[KnownPartition]:
    """Return each of `keys` with its row; `everywhere` are the partitions that the tier lists.

    The catalog identifies a topic by its id. A folder copied under another name would count as the
    same partition, so both are refused. A partition whose row is invalid is refused too.
    """
    states = rows.by_key
    names: dict[tuple[str, int], set[str]] = defaultdict(set)
    for key in (*everywhere, *states):
        names[key.topic_id, key.partition].add(str(key))
    return [
        KnownPartition(
            key=key,
            state=states.get(key),
            refusal=_refused_row(rows, key)
            or _shared_id(key, names[key.topic_id, key.partition]),
        )
        for key in keys
    ]


def _refused_row(rows: RowsRead, key: PartitionKey) -> Refusal | None:
    error = rows.refused.get((key.topic_id, key.partition))
    return None if error is None else refusal_of(error, str(key))


def _shared_id(key: PartitionKey, names: set[str]) -> Refusal | None:
    if len(names) == 1:
        return None
    return Refusal(
        reason=RefusalReason.OVERLAP,
        detail=f"topic id {key.topic_id} stands for {' and for '.join(sorted(names))}, in the tier"
        " or in the catalog: an id is one topic's",
        remedy="Move the folder that no broker wrote out of the tier.",
    )


def _surveyed(
    context: RunContext, known: KnownPartition, rules: Rules, first_dirty: int | None
) -> Surveyed:
    epoch = 0 if known.state is None else known.state.epoch
    left_alone = rest_by_policy(rules) or known.refusal
    if left_alone is not None:
        return Surveyed(key=known.key, rules=rules, view=None, choice=left_alone, epoch=epoch)
    try:
        return replace(_looked_at(context, known, rules, first_dirty), epoch=epoch)
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        refusal = refusal_of(error, str(known.key))
        return Surveyed(key=known.key, rules=rules, view=None, choice=refusal, epoch=epoch)


def _looked_at(
    context: RunContext, known: KnownPartition, rules: Rules, first_dirty: int | None
) -> Surveyed:
    key = known.key
    view = viewed(context, key, known.state)
    if isinstance(view, Refusal):
        return Surveyed(key=key, rules=rules, view=None, choice=view)
    now_ms = context.now_ms
    notes = (*_claimed(known.state), *strategy_change(known.state, rules), *view.notes)
    view = replace(view, notes=notes)
    producers = _producers(context, view, first_dirty)
    regions = regions_of(
        view, last_stable_of(producers), rules, now_ms, forced_first_dirty=first_dirty
    )
    if isinstance(regions, Refusal):
        return Surveyed(key=key, rules=rules, view=view, choice=regions)
    return Surveyed(
        key=key,
        rules=rules,
        view=view,
        choice=propose(view, rules, regions, now_ms),
        ratio=dirty_ratio(view, regions, rules, now_ms),
        should_have_rolled_at_ms=should_have_rolled_at_ms(view, rules, now_ms),
        producers=producers,
    )


def _claimed(state: PartitionState | None) -> tuple[str, ...]:
    """A note that another run holds the claim; a dead and a live run look the same from outside."""
    if state is None or not state.owner_run:
        return ()
    return (f"run {state.owner_run} has not given its claim back: it is taken over, and fenced",)


def in_order_of_work(surveyed: Sequence[Surveyed]) -> list[Surveyed]:
    """Return the partitions to compact: most overdue first, then dirtiest (KIP-354)."""
    due = [
        (partition.choice.ratio.precedence, partition)
        for partition in surveyed
        if isinstance(partition.choice, Compact)
    ]
    return [partition for _, partition in sorted(due, key=lambda pair: pair[0], reverse=True)]


def refusal_of(error: Exception, where: str) -> Refusal:
    """Turn an error in reading or decoding into the partition's refusal.

    `where` is the place of an error that names none itself.
    """
    if isinstance(error, TierfoldError):
        return Refusal(
            reason=RefusalReason.UNREADABLE,
            detail=f"{error.where}: {error.what}",
            remedy=error.remedy,
        )
    return Refusal(
        reason=RefusalReason.UNREADABLE,
        detail=f"{where}: {unexpected(error)}",
        remedy="This is a bug; please report it.",
    )


def _producers(
    context: RunContext, view: PartitionView, first_dirty: int | None
) -> tuple[ProducerEntry, ...]:
    """The newest snapshot in view; it is not read if nothing can be due."""
    is_clean = first_dirty is None and view.cleaner_offset == view.next_offset
    has_due = any(
        segment.earliest_due_ms is not None and segment.earliest_due_ms <= context.now_ms
        for segment in view.segments
    )
    if not view.segments or (is_clean and not has_due):
        return ()
    return read_snapshot(context.tier, view.key, view.segments[-1])


def plan_violations(partition: Surveyed, now_ms: int) -> tuple[str, ...]:
    """Check the plan with code that did not make it; empty: no violations."""
    if partition.view is None or not isinstance(partition.choice, Compact):
        return ()
    last_stable = last_stable_of(partition.producers)
    found = violations(partition.choice, partition.view, last_stable, partition.rules, now_ms)
    return tuple(violation.detail for violation in found)


