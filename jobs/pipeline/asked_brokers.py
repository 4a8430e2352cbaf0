"""Adds what brokers have to partitions whose rows and listings were read.

    rows → listings → the metadata topic to its end → missing objects listed again → offsets

In any other order, an upload or an expiry in between looks as if something were wrong. A segment
that was uploaded after the first listing is found by the second one; what expires after it is below
the log start. A run that publishes after the rows were read has changed its rows before: they are
read again, and all that follows (`rows_since`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from tierfold.compaction.brokers.broker_view import BrokerView
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.brokers.preconditions import topic_notes
from tierfold.compaction.brokers.topic_retention import retentions
from tierfold.compaction.deletion.deletion_plan import GRACE_MS
from tierfold.compaction.discovery.broker_refusals import rights_refusals, setup_refusals
from tierfold.compaction.discovery.identity import of_cluster
from tierfold.compaction.discovery.metadata_loss import NO_METADATA_TOPIC, topic_deleted
from tierfold.compaction.discovery.refused_by_brokers import unnamed_beside
from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.bindings import Binding
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.compaction.planning.outlook import outlook
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Compact
from tierfold.compaction.verification.canary import CanaryMode
from tierfold.jobs.context.beside_tier import BesideTier
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.tier_identity import served_binding
from tierfold.jobs.pipeline.known_partition import KnownPartition, refusal_of
from tierfold.jobs.settings.resolution import Settings
from tierfold.storage.tiers.remote_tier import Listing


def with_brokers(
    context: RunContext,
    cluster: RunCluster,
    known: Mapping[PartitionKey, KnownPartition],
    *,
    is_again: bool = False,
) -> dict[PartitionKey, KnownPartition]:
    """Return the partitions with what brokers have of them; raises as `cluster_view`.

    Raises UnreadableObject if the metadata topic was deleted since a row noted it.

    `is_again`: an earlier look of this run has shown all of them; only what is new is read.
    """
    asked_by = context.catalog.fingerprint() if context.catalog.exists() else None
    listed: dict[PartitionKey, Listing | Exception] = {}

    def list_again(views: Mapping[PartitionKey, BrokerView]) -> None:
        unlisted = [key for key in views if key not in known or _is_to_list(known[key], views[key])]
        listed.update(context.tier.listings(unlisted))

    ids = {key: _ids(one) for key, one in known.items()}
    beside = BesideTier(
        listed=ids, asked_by=asked_by, list_again=list_again, others=cluster.others
    )
    look_at = cluster.look_again if is_again else cluster.look
    try:
        look = look_at(context.progress, beside)
    except BadSettings as error:
        if error.code != NO_METADATA_TOPIC:
            raise
        rows = (one.state for one in known.values() if one.state is not None)
        connection = cluster.connection
        raise topic_deleted(rows, connection.cluster_id, connection.server) or error from None
    others = _without_folder(context, look.partitions.keys() - known.keys())
    return {
        key: _seen(one, look.partitions[key], look.cluster_id, listed.get(key))
        for key, one in {**known, **others}.items()
    }


def _is_to_list(known: KnownPartition, view: BrokerView) -> bool:
    return known.refusal is None and bool(_unlisted(known, view))


def _without_folder(
    context: RunContext, keys: Collection[PartitionKey]
) -> dict[PartitionKey, KnownPartition]:
    """Return partitions that brokers have and the tier had nothing of, each with its row."""
    if not keys:
        return {}
    rows = context.catalog.look(keys).by_key
    return {
        key: KnownPartition(key=key, state=rows.get(key), refusal=None, listed=())
        for key in sorted(keys)
    }


def rows_since(
    context: RunContext, seen: Iterable[KnownPartition]
) -> tuple[PartitionState, ...]:
    """Read the rows again of partitions with segments of runs that their rows do not name.

    Only those are returned that name them by now: another run changed the row, and then published.
    Raises TierfoldError if the catalog cannot be read.
    """
    strange = {
        one.key: one.brokers
        for one in seen
        if one.refusal is None
        and one.brokers is not None
        and unnamed_beside(one.state, one.brokers).contradict
    }
    states = context.catalog.look(strange).states if strange else ()
    return tuple(
        state for state in states if not unnamed_beside(state, strange[state.key]).contradict
    )


def _seen(
    known: KnownPartition,
    brokers: BrokerPartition,
    cluster_id: str,
    again: Listing | Exception | None,
) -> KnownPartition:
    """The partition with what brokers have of it, and with its second listing, if there is one."""
    whose = of_cluster(known.state, cluster_id, has_topic=brokers.has_topic)
    found = replace(known, brokers=brokers, whose=whose)
    if again is None:
        return found
    if isinstance(again, Exception):
        return replace(found, refusal=refusal_of(again, str(known.key)))
    # Whatever else was written since, the replay has not seen.
    late = _unlisted(known, brokers.view)
    kept = [listed for listed in known.listed if listed.segment_id not in late]
    new = [listed for listed in again if listed.segment_id in late]
    return replace(found, listed=(*kept, *new))


def binding_of_run(context: RunContext, settings: Settings) -> Binding:
    """Return who serves the tier, as the run knows it: the cluster that it asked, if any."""
    return served_binding(context) or settings.binding


def refusals_of_rights(context: RunContext, rules: Mapping[str, Rules]) -> dict[str, Refusal]:
    """Return the refusals for rights that are missing, by topic; none without a cluster.

    `rules`: by topic.
    """
    look, publishing = context.cluster_view, context.publishing
    if look is None:
        return {}
    if publishing is None or not publishing.is_on:
        return rights_refusals(look, rules)
    consumes = publishing.canary is not CanaryMode.OFF
    return rights_refusals(look, rules, publishes=True, consumes=consumes)


def refusals_of_setup(
    context: RunContext,
    settings: Settings,
    keys: Iterable[PartitionKey],
    rules: Mapping[str, Rules],
) -> dict[PartitionKey, Refusal]:
    """Return the refusals for how the cluster and topics are set up; none without a cluster.

    `rules`: by topic.
    """
    look = context.cluster_view
    if look is None:
        return {}
    declared = settings.cluster.kafka_version
    return setup_refusals(look, keys, rules, declared=declared, grace_ms=GRACE_MS)


def beside_cluster(
    context: RunContext, plan: PartitionPlan, refusals: Mapping[PartitionKey, Refusal]
) -> PartitionPlan:
    """Return a plan with what it means for brokers, or refused for how they are set up.

    The plan is unchanged if the run asked none, or nothing of the partition was inspected.
    `refusals`: of `refusals_of_setup`.
    """
    look = context.cluster_view
    if look is None or plan.view is None:
        return plan
    if plan.key in refusals:
        return replace(plan, choice=refusals[plan.key])
    topic, choice = look.topics[plan.key.topic], plan.choice
    if not isinstance(choice, Compact) or not isinstance(topic.configs, Mapping):
        return plan
    return replace(
        plan,
        choice=replace(choice, notes=(*choice.notes, *topic_notes(topic, look.setup, plan.rules))),
        outlook=outlook(choice, retentions(topic.configs, look.setup.brokers)),
    )


def _ids(known: KnownPartition) -> set[str]:
    """The ids of which it must be known whether the topic ever named them."""
    named = frozenset[str]() if known.state is None else known.state.named_ids
    return {listed.segment_id for listed in known.listed} | named


def _unlisted(known: KnownPartition, view: BrokerView) -> set[str]:
    """Ids of the segments that brokers have as whole, and the listing lacks or has in part."""
    finished = view.in_state(SegmentState.COPY_FINISHED)
    whole = {listed.segment_id for listed in known.listed if listed.is_complete}
    return {segment.added.segment_id for segment in finished} - whole
