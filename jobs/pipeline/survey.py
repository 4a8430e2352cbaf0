"""Stages 1 and 2: gather the facts about the partitions, then plan them, from metadata alone.

A segment is opened when it is discovered, and only its ends are read. The catalog stores the
result: in the row once a claim has adopted the segment, before that beside it (`segment_memory`).
`inspected` gathers the facts that every verb needs. The survey also reads the newest producer
snapshot, and `compaction.planning.partition_plan` decides. Nothing is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from tierfold.compaction.commits.served_view import Serving, detached_view, served_view
from tierfold.compaction.discovery.broker_refusals import metadata_refusal
from tierfold.compaction.discovery.view import PartitionView, Refusal, RefusalReason
from tierfold.compaction.model.bindings import Detached
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.serving import Consent, ConsentKind
from tierfold.compaction.planning.early_deletion import with_fees
from tierfold.compaction.planning.open_step import step_of
from tierfold.compaction.planning.partition_plan import (
    PartitionPlan,
    needs_producers,
    partition_plan,
    with_row_notes,
)
from tierfold.compaction.planning.plan import Rest, RestReason, rest_by_policy
from tierfold.compaction.planning.storage_classes import refused_as_archived
from tierfold.compaction.publishing.steps import Done
from tierfold.jobs.context.log_dirs import local_bytes
from tierfold.jobs.context.request_prices import class_prices
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import EVERYTHING, Scope, check_hole_patterns, named
from tierfold.jobs.context.tier_identity import TierIdentity, serving_of, tier_identity
from tierfold.jobs.pipeline.asked_brokers import (
    beside_cluster,
    binding_of_run,
    refusals_of_rights,
    refusals_of_setup,
    rows_since,
    with_brokers,
)
from tierfold.jobs.pipeline.discovery import newest_producers, viewed
from tierfold.jobs.pipeline.known_partition import KnownPartition, left_alone, refusal_of
from tierfold.jobs.pipeline.replaced_classes import with_replaced_classes
from tierfold.jobs.settings.cluster_settings import rules_of, settings_beside
from tierfold.jobs.settings.resolution import Settings
from tierfold.storage.catalog.rows import RowsRead
from tierfold.storage.tiers.remote_tier import Listing

READERS: Final = 16
"""Threads that read metadata in parallel; they mostly wait for storage."""


def survey(context: RunContext, settings: Settings, scope: Scope) -> list[PartitionPlan]:
    """Survey every partition in scope, in order of topic and number.

    Raises BadSettings if the tier does not exist or a topic's settings conflict. An error in one
    partition becomes the `choice` of that partition.
    """
    with context.progress.survey():
        known = known_partitions(context, scope)
        return survey_of(context, settings, known, scope.first_dirty)


def survey_again(
    context: RunContext, settings: Settings, keys: Sequence[PartitionKey], scope: Scope
) -> list[PartitionPlan]:
    """Survey partitions once more that this run has surveyed; raises as `survey`."""
    with context.progress.survey():
        everywhere, rows = context.tier.partitions(), context.catalog.look(keys)
        known = known_among(context, everywhere, keys, rows, is_again=True)
        return survey_of(context, settings, known, scope.first_dirty)


def survey_of(
    context: RunContext,
    settings: Settings,
    known: Sequence[KnownPartition],
    first_dirty: int | None = None,
) -> list[PartitionPlan]:
    """Survey these partitions, in their order; `first_dirty` and errors as in `survey`."""
    settings = settings_beside(settings, context.cluster_view)
    rules, wrong = rules_of(settings, [partition.key.topic for partition in known])
    binding = binding_of_run(context, settings)
    identity = tier_identity(context, binding)
    refusals = refusals_of_setup(context, settings, [one.key for one in known], rules)
    without_rights = refusals_of_rights(context, rules)
    serving = serving_of(context)
    agreed = None
    if isinstance(binding, Detached):
        agreed = Consent(kind=ConsentKind.DETACHED, given_at_ms=context.dated_ms, run=context.run)

    def surveyed(partition: KnownPartition) -> PartitionPlan:
        if not partition.is_left_alone:
            partition = with_identity(partition, identity)
            denied = without_rights.get(partition.key.topic)
            partition = replace(partition, refusal=partition.refusal or denied)
        if partition.key.topic in wrong:
            conflict = refusal_of(wrong[partition.key.topic], partition.key.topic)
            partition = replace(partition, refusal=partition.refusal or conflict)
        of_topic = rules[partition.key.topic]
        published = serving if of_topic.publish and not partition.is_left_alone else None
        plan = _recalled(context, partition, of_topic, first_dirty, published or agreed)
        return replace(beside_cluster(context, plan, refusals), binding=binding)

    with ThreadPoolExecutor(READERS) as pool:
        return list(context.progress.inspected(pool.map(surveyed, known)))


def with_identity(known: KnownPartition, identity: TierIdentity) -> KnownPartition:
    """Return the partition, refused if its row or the tier's note does not allow a change.

    Refused, too, if records of the metadata topic cannot be followed: what brokers have is unknown.
    """
    found = known.refusal or identity.refusal(known.state) or metadata_refusal(known.brokers)
    return replace(known, refusal=found)


def known_partitions(context: RunContext, scope: Scope) -> list[KnownPartition]:
    """Return the partitions in scope, by topic and number, each with its row.

    Raises BadSettings if the tier does not exist or has no topic of a given name, TierfoldError if
    the catalog cannot be read.
    """
    everywhere = context.tier.partitions()
    keys = scope.chosen(everywhere)
    return known_among(context, everywhere, keys, context.catalog.look(keys))


def known_by_name(
    context: RunContext, name: str, *, where: str, scope: Scope = EVERYTHING
) -> KnownPartition:
    """Return the partition in scope with that name; raises as `named` and `known_partitions`."""
    everywhere = context.tier.partitions()
    key = named(scope.chosen(everywhere), name, where=where)
    (known,) = known_among(context, everywhere, [key], context.catalog.look([key]))
    return known


def known_among(
    context: RunContext,
    everywhere: Sequence[PartitionKey],
    keys: Sequence[PartitionKey],
    rows: RowsRead,
    *,
    is_again: bool = False,
) -> list[KnownPartition]:
    """Return each of `keys` with its row and listing; `everywhere`: the tier's partitions.

    Then those that the tier lacks, if the run's cluster shows others (`RunCluster.others`).

    All are listed at once, after the rows were read: an older listing would lack a live segment.

    The catalog identifies a topic by its id. A folder copied under another name would count as the
    same partition, so both are refused. A partition with an invalid row is refused, too.
    `is_again`: as of `with_brokers`. Raises BadSettings for a name in `context.holes_are_holes`
    that no partition has, and if the verb writes and the clocks disagree; and as `with_brokers` if
    the run has a cluster.
    """
    context.progress.found(len(keys))
    check_hole_patterns(context.holes_are_holes, everywhere)
    listings = context.progress.listing(lambda: context.tier.listings(keys))
    if not is_again:  # Then not all of the scope is listed.
        context.stored.listed(listings.values())
    found = _with_rows(context, everywhere, rows, listings)
    if context.cluster is None:
        return [found[key] for key in keys]
    seen = with_brokers(context, context.cluster, found, is_again=is_again)
    while newer := rows_since(context, seen.values()):
        listings = context.tier.listings([state.key for state in newer])
        changed = _with_rows(context, everywhere, RowsRead(states=newer, refused={}), listings)
        seen |= with_brokers(context, context.cluster, changed)
    return [*(seen[key] for key in keys), *(seen[key] for key in sorted(seen.keys() - set(keys)))]


def _with_rows(
    context: RunContext,
    everywhere: Sequence[PartitionKey],
    rows: RowsRead,
    listings: Mapping[PartitionKey, Listing | Exception],
) -> dict[PartitionKey, KnownPartition]:
    """Return each partition that was listed with its row; raises BadSettings as `known_among`."""
    if context.clocks is not None:
        context.clocks.check(rows.states)
    states = rows.by_key
    names: dict[tuple[str, int], set[str]] = defaultdict(set)
    for key in (*everywhere, *states):
        names[key.topic_id, key.partition].add(str(key))

    def known(key: PartitionKey) -> KnownPartition:
        listed = listings[key]
        refused = rows.refused.get((key.topic_id, key.partition))
        refusal = _shared_id(key, names[key.topic_id, key.partition])
        for error in (listed, refused):
            if isinstance(error, Exception):
                refusal = refusal_of(error, str(key))
        return KnownPartition(
            key=key,
            state=states.get(key),
            refusal=refusal,
            listed=() if isinstance(listed, Exception) else listed,
            kept=rows.sums.get(key),
        )

    return {key: known(key) for key in listings}


def _shared_id(key: PartitionKey, names: set[str]) -> Refusal | None:
    if len(names) == 1:
        return None
    return Refusal(
        reason=RefusalReason.OVERLAP,
        detail=f"the partitions {' and '.join(sorted(names))}, in the tier or in the catalog, have"
        f" the same topic id {key.topic_id}",
        remedy="Move the folder that no broker wrote out of the tier.",
    )


def inspected(context: RunContext, known: KnownPartition) -> PartitionView | Refusal:
    """Gather a partition's facts from the tier, the catalog and the brokers; raises nothing.

    An error in reading or decoding becomes the partition's refusal. Brokers that do not have the
    topic have no say.
    """
    brokers = None if known.is_left_alone else known.brokers
    try:
        found = known.refusal or viewed(context, known.key, known.state, known.listed, brokers)
        return replace(found, kept=known.kept) if isinstance(found, PartitionView) else found
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        return refusal_of(error, str(known.key))


def _recalled(
    context: RunContext,
    known: KnownPartition,
    rules: Rules,
    first_dirty: int | None,
    noted: Serving | Consent | None,
) -> PartitionPlan:
    """As `_surveyed`; what earlier runs read of segments may only show that nothing is to do."""
    memory, recalling = context.memory, replace(context, recalls=True)
    plan = _surveyed(recalling, known, rules, first_dirty, noted)
    if memory is None or is_at_rest(plan) or not memory.has_recalled(known.key):
        return plan
    memory.forget(known.key)
    return _surveyed(recalling, known, rules, first_dirty, noted)


def is_at_rest(plan: PartitionPlan) -> bool:
    """Whether nothing is done about the partition, and nothing is wrong with it."""
    return isinstance(plan.choice, Rest) and isinstance(plan.step, Done | None)


def _surveyed(
    context: RunContext,
    known: KnownPartition,
    rules: Rules,
    first_dirty: int | None,
    noted: Serving | Consent | None,
) -> PartitionPlan:
    """`noted`: what a run notes that publishes the partition, or a person says that none need."""
    epoch, retired = (0, ()) if known.state is None else (known.state.epoch, known.state.retired)
    archived = known.refusal or refused_as_archived(known.listed, known.state)
    found = _rest(known, rules) or archived or inspected(context, known)
    if isinstance(found, PartitionView):
        of_brokers = local_bytes(context.log_dirs, found.key, found.next_offset)
        found = replace(found, local_bytes=of_brokers)
        if isinstance(noted, Consent):
            found = detached_view(found, noted)
        elif noted is not None:
            found = served_view(found, noted)
    if not isinstance(found, PartitionView):
        plan = PartitionPlan(key=known.key, rules=rules, choice=found)
        return replace(plan, epoch=epoch, retired=retired)
    try:
        is_forced = first_dirty is not None
        is_needed = needs_producers(found, rules, context.now_ms, is_forced=is_forced)
        producers: tuple[ProducerEntry, ...] = ()
        if is_needed:
            producers = newest_producers(context, found.key, found.segments, known.listed)
        view = with_row_notes(found, known.state, rules)
        step = step_of(view, rules, context.now_ms)
        plan = partition_plan(
            view, producers, rules, context.now_ms, first_dirty=first_dirty, step=step
        )
        plan = with_replaced_classes(context, plan, known.listed)
        plan = with_fees(plan, class_prices(context.scheme), context.now_ms)
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        plan = PartitionPlan(key=known.key, rules=rules, choice=refusal_of(error, str(known.key)))
    return replace(plan, epoch=epoch, retired=retired)


def _rest(known: KnownPartition, rules: Rules) -> Rest | None:
    """Why nothing of the partition is read; None: it is inspected."""
    if known.is_left_alone:
        return Rest(reason=RestReason.NOT_OF_CLUSTER, detail=left_alone(known))
    return rest_by_policy(rules)
