"""Remarks that only a run's look at its cluster can show."""

from __future__ import annotations

from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.compaction.brokers.preconditions import cluster_notes, cluster_preconditions
from tierfold.compaction.deletion.deletion_plan import GRACE_MS
from tierfold.jobs.settings.cluster_settings import rules_of, settings_beside
from tierfold.jobs.settings.remarks import Remarks, advice, notes_on_cluster
from tierfold.jobs.settings.resolution import Settings


def setup_warnings(look: ClusterView | None, settings: Settings) -> tuple[str, ...]:
    """What is wrong with the cluster for every topic, for a verb that refuses no partition for it.

    A sentence for each.
    """
    if look is None:
        return ()
    declared = settings.cluster.kafka_version
    found = cluster_preconditions(look.setup, declared=declared, grace_ms=GRACE_MS)
    return tuple(f"{one.detail} [{one.code}]. {one.remedy}" for one in found)


def remarks_beside(
    settings: Settings, look: ClusterView | None, *, has_advice: bool
) -> Remarks:
    """What the look at a cluster shows about topics that are compacted; nothing without one.

    The right that publishing needs, if it is missing; settings that differ from the cluster's; with
    `has_advice` also those that work badly together. A topic whose settings conflict has no remark,
    as its partitions are refused for that.
    """
    if look is None:
        return Remarks()
    beside = settings_beside(settings, look)
    rules, wrong = rules_of(beside, look.topics)
    topics = [name for name, found in rules.items() if found.is_compacted and name not in wrong]
    return Remarks(
        warnings=advice(beside, topics) if has_advice else (),
        notes=(*(cluster_notes(look.setup) if topics else ()), *notes_on_cluster(beside, topics)),
    )
