"""`tierfold status`: each partition's live segments, how dirty they are, and what was replaced.

Where a cluster is named, also what its brokers have of each partition; without a tier, only that.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tierfold.compaction.brokers.beside_catalog import BesideCatalog, beside_catalog
from tierfold.compaction.brokers.cluster_view import BrokerPartition
from tierfold.compaction.discovery.identity import OfCluster
from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.compaction.planning.eligibility import DirtyRatio, dirty_ratio
from tierfold.compaction.planning.local_segments import LocalSegments, local_segments
from tierfold.compaction.planning.open_step import step_of
from tierfold.compaction.planning.regions import regions_of
from tierfold.compaction.publishing.steps import Step
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.run_progress import RunProgress
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.discovery import last_stable_in
from tierfold.jobs.pipeline.known_partition import KnownPartition, left_alone, refusal_of
from tierfold.jobs.pipeline.partition_report import OK, REFUSED
from tierfold.jobs.pipeline.survey import READERS, inspected, known_partitions
from tierfold.jobs.settings.cluster_settings import rules_of, settings_beside
from tierfold.jobs.settings.resolution import Settings
from tierfold.storage.tiers.remote_tier import Part, address_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One partition as the tier and the catalog show it."""

    key: PartitionKey
    row: PartitionState | None
    """The catalog's row, also of a refused partition; None: no row."""
    view: PartitionView | None = None
    """None: the partition is refused, or its topic was deleted."""
    ratio: DirtyRatio | None = None
    logs: tuple[str, ...] = ()
    """Path of each live segment's `.log`, in the order of `segments`."""
    refusal: Refusal | None = None
    """Why the partition is refused; None: it is not."""
    brokers: BrokerPartition | None = None
    """What brokers have of it; None: none were asked."""
    beside: BesideCatalog | None = None
    """How that differs; None: no brokers were asked, or there is no listing."""
    local: LocalSegments | None = None
    """What brokers can have locally of it; None: they do not serve the row, or none were asked."""
    step: Step | None = None
    """What publishing does next; None: no broker serves the row, or none was asked."""
    absence: str = ""
    """Why nothing of it is read: its topic was deleted. Empty: that is not known."""

    @property
    def outcome(self) -> str:
        """`ok`, or `refused`."""
        return REFUSED if self.refusal else OK

    @property
    def reason(self) -> str:
        """Why the partition is refused or not read; empty: it is read."""
        return self.absence if self.refusal is None else self.refusal.sentence

    @property
    def refusals(self) -> tuple[RefusalPart, ...]:
        """Why it is refused, each reason by itself; none: it is not."""
        return () if self.refusal is None else self.refusal.parts

    @property
    def epoch(self) -> int:
        """The compaction epoch; 0: never claimed."""
        return self.row.epoch if self.row is not None else 0

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The live segments in offset order; those in the row if the partition is refused."""
        if self.view is not None:
            return self.view.segments
        return self.row.segments if self.row is not None else ()

    @property
    def log_start_offset(self) -> int | None:
        """None: neither the tier nor the catalog has one."""
        source = self.view or self.row
        return None if source is None else source.log_start_offset

    @property
    def cleaner_offset(self) -> int | None:
        """That of the newest epoch; None before the first commit."""
        return None if self.row is None else self.row.cleaner_offset


def status(context: RunContext, settings: Settings, scope: Scope) -> list[PartitionStatus]:
    """Return the partitions in scope, by topic and number, of any policy; nothing is changed.

    If the run has a cluster, also with what its brokers have. Raises as `known_partitions`.
    """
    def read(partition: KnownPartition) -> PartitionStatus:
        found = _status(context, partition, rules[partition.key.topic], scope.first_dirty)
        if partition.brokers is None:
            return found
        # A listing that failed is empty, and says nothing of what is missing.
        is_listed = bool(partition.listed) or partition.refusal is None
        found = replace(found, local=_local(found, partition.brokers, context.now_ms))
        return _with_brokers(found, partition.brokers, is_listed=is_listed)

    with context.progress.survey(), ThreadPoolExecutor(READERS) as pool:
        known = known_partitions(context, scope)
        topics = [partition.key.topic for partition in known]
        rules, _ = rules_of(settings_beside(settings, context.cluster_view), topics)
        return list(context.progress.inspected(pool.map(read, known)))


def status_of_cluster(
    cluster: RunCluster, scope: Scope, progress: RunProgress
) -> list[PartitionStatus]:
    """Return what brokers have of the partitions in scope; raises as `cluster_view`."""
    looked = cluster.look(progress, scope=scope)
    return [
        PartitionStatus(key=key, row=None, brokers=brokers)
        for key, brokers in looked.partitions.items()
    ]


def _local(
    status: PartitionStatus, brokers: BrokerPartition, now_ms: int
) -> LocalSegments | None:
    row = status.row
    if row is None:
        return None
    lineage = row.lineage if status.view is None else status.view.lineage
    return local_segments(row, lineage, brokers, now_ms)


def _with_brokers(
    status: PartitionStatus, brokers: BrokerPartition, *, is_listed: bool
) -> PartitionStatus:
    if not is_listed:
        return replace(status, brokers=brokers)
    retired = () if status.row is None else status.row.retired
    beside = beside_catalog(
        brokers.view,
        brokers.naming,
        live=[segment.segment_id for segment in status.segments],
        retired=[entry.segment.segment_id for entry in retired],
    )
    return replace(status, brokers=brokers, beside=beside)


def _status(
    context: RunContext, known: KnownPartition, rules: Rules, first_dirty: int | None
) -> PartitionStatus:
    if known.whose is OfCluster.DELETED:  # Brokers have deleted objects that the row names.
        return PartitionStatus(key=known.key, row=known.state, absence=left_alone(known))
    read, key = _read(context, known, rules, first_dirty), known.key
    if isinstance(read, Refusal):
        found = PartitionStatus(key=key, row=known.state, refusal=read)
    else:
        step = step_of(read[0], rules, context.now_ms)
        found = PartitionStatus(
            key=key, row=known.state, view=read[0], ratio=read[1], step=step
        )
    logs = (context.tier.uri(address_of(key, one), Part.LOG) for one in found.segments)
    return replace(found, logs=tuple(logs))


def _read(
    context: RunContext, known: KnownPartition, rules: Rules, first_dirty: int | None
) -> tuple[PartitionView, DirtyRatio] | Refusal:
    view = inspected(context, known)
    if isinstance(view, Refusal):
        return view
    now_ms = context.now_ms
    try:
        last_stable = last_stable_in(context, known.key, view.segments)
        regions = regions_of(view, last_stable, rules, now_ms, forced_first_dirty=first_dirty)
        if isinstance(regions, Refusal):
            return regions
        return view, dirty_ratio(view, regions, rules, now_ms)
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        return refusal_of(error, str(known.key))
