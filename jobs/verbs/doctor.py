"""`tierfold doctor`: what is wrong with a tier, its catalog and its cluster; nothing is changed.

It reads what `status` reads, and `compaction.diagnosis` decides. Without a tier it asks brokers
alone; without brokers it knows what a listing and the catalog can tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.compaction.deletion.deletion_plan import GRACE_MS
from tierfold.compaction.diagnosis.diagnosis import Diagnosis, diagnosis
from tierfold.compaction.diagnosis.examined import Examined
from tierfold.compaction.diagnosis.findings import Finding
from tierfold.compaction.discovery.identity import OfCluster, of_cluster
from tierfold.compaction.discovery.view import PLACE, PartitionView
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.open_step import step_of
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.run_progress import RunProgress
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.tier_identity import tier_identity
from tierfold.jobs.pipeline.asked_brokers import binding_of_run
from tierfold.jobs.pipeline.known_partition import KnownPartition, refusal_of
from tierfold.jobs.pipeline.partition_report import FAILED, OK
from tierfold.jobs.pipeline.survey import READERS, inspected, known_partitions, with_identity
from tierfold.jobs.settings.cluster_settings import rules_of, settings_beside
from tierfold.jobs.settings.resolution import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHealth:
    """One partition, and what is wrong with it."""

    key: PartitionKey
    findings: tuple[Finding, ...]
    """The worst first; none: it is healthy, as far as tier and brokers were asked."""

    @property
    def outcome(self) -> str:
        """`failed` if something of it loses data or leaks, or else `ok`."""
        return FAILED if any(found.needs_a_person for found in self.findings) else OK

    @property
    def reason(self) -> str:
        """The worst finding, as a sentence; empty if none needs a person."""
        return "" if self.outcome == OK else sentence_of(self.findings[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What `doctor` found."""

    partitions: tuple[PartitionHealth, ...]
    """In scope, by topic and number."""
    diagnosis: Diagnosis


def sentence_of(finding: Finding) -> str:
    """Return what is wrong and what to do, with the code."""
    return f"{finding.detail} [{finding.code}]. {finding.remedy}"


def doctor(context: RunContext, settings: Settings, scope: Scope) -> Examination:
    """Examine the partitions in scope, of any policy; nothing is changed.

    With a cluster, also those that its brokers have and the tier lacks. Raises as
    `known_partitions`.
    """
    if context.cluster is not None:
        context.cluster.others = scope
    with context.progress.survey():
        known = known_partitions(context, scope)
        topics = [partition.key.topic for partition in known]
        rules, wrong = rules_of(settings_beside(settings, context.cluster_view), topics)
        known = _identified(context, settings, known, wrong)

        fingerprint = context.catalog.fingerprint() if context.catalog.exists() else None

        def examine(partition: KnownPartition) -> Examined:
            found = _examined(context, partition, rules[partition.key.topic])
            return replace(found, fingerprint=fingerprint)

        with ThreadPoolExecutor(READERS) as pool:
            found = list(context.progress.inspected(pool.map(examine, known)))
    return _examination(context, found, context.cluster_view, settings)


def doctor_of_cluster(
    cluster: RunCluster, settings: Settings, scope: Scope, progress: RunProgress, now_ms: int
) -> Examination:
    """Examine what brokers have of the partitions in scope; raises as `cluster_view`."""
    look = cluster.look(progress, scope=scope)
    rules, _ = rules_of(
        settings_beside(settings, look), [key.topic for key in look.partitions]
    )
    found = [
        Examined(
            key=key,
            rules=rules[key.topic],
            now_ms=now_ms,
            brokers=brokers,
            whose=of_cluster(None, look.cluster_id, has_topic=brokers.has_topic),
        )
        for key, brokers in look.partitions.items()
    ]
    return _examination(None, found, look, settings)


def _identified(
    context: RunContext,
    settings: Settings,
    known: Iterable[KnownPartition],
    wrong: Mapping[str, BadSettings],
) -> list[KnownPartition]:
    """The partitions, refused as a run that changes them would be.

    Without brokers it is no illness that the row or the tier's note names some.
    """
    known = [
        replace(one, refusal=one.refusal or refusal_of(wrong[one.key.topic], one.key.topic))
        if one.key.topic in wrong
        else one
        for one in known
    ]
    if context.cluster is None:
        return known
    identity = tier_identity(context, binding_of_run(context, settings), deletes=True)
    return [one if one.is_left_alone else with_identity(one, identity) for one in known]


def _examined(context: RunContext, known: KnownPartition, rules: Rules) -> Examined:
    found = Examined(
        key=known.key,
        rules=rules,
        now_ms=context.now_ms,
        row=known.state,
        # A listing that failed is empty, and says nothing of what is missing.
        listed=known.listed if known.listed or known.refusal is None else None,
        brokers=known.brokers,
        whose=known.whose,
    )
    if known.whose is not OfCluster.ITS_OWN:  # Brokers have deleted objects that a row names.
        return found
    view = inspected(context, known)
    if not isinstance(view, PartitionView):
        return replace(found, refusal=view)
    return replace(found, view=view, step=step_of(view, rules, context.now_ms))


def _examination(
    context: RunContext | None,
    examined: list[Examined],
    look: ClusterView | None,
    settings: Settings,
) -> Examination:
    declared = settings.cluster.kafka_version
    found = diagnosis(examined, look, declared=declared, grace_ms=GRACE_MS)
    findings = tuple(_placed(context, one) for one in found.findings)
    return examination_of(examined, replace(found, findings=findings))


def examination_of(examined: Iterable[Examined], found: Diagnosis) -> Examination:
    """Return the diagnosis with the findings of each partition."""
    by_key: dict[PartitionKey, list[Finding]] = defaultdict(list)
    for one in found.findings:
        if one.key is not None:
            by_key[one.key].append(one)
    keys = sorted(one.key for one in examined)
    partitions = (PartitionHealth(key=key, findings=tuple(by_key[key])) for key in keys)
    return Examination(partitions=tuple(partitions), diagnosis=found)


def _placed(context: RunContext | None, finding: Finding) -> Finding:
    """The finding with tier and partition in its commands, as far as there is a tier."""
    if context is None or finding.key is None:
        return finding
    return replace(finding, remedy=finding.remedy.replace(PLACE, context.place(finding.key)))
