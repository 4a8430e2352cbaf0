"""`tierfold status`: each partition's live segments, how dirty they are, and what was replaced."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.compaction.planning.eligibility import DirtyRatio, dirty_ratio
from tierfold.compaction.planning.regions import Regions, last_stable_of, regions_of
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.survey import (
    READERS,
    KnownPartition,
    inspected,
    known_partitions,
    refusal_of,
)
from tierfold.jobs.settings.resolution import Settings
from tierfold.storage.segments.segment_metadata import read_snapshot
from tierfold.storage.tiers.remote_tier import Part, address_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One partition as the tier and the catalog show it."""

    key: PartitionKey
    row: PartitionState | None
    """The catalog's row, also of a refused partition; None: no row."""
    view: PartitionView | None
    regions: Regions | None
    ratio: DirtyRatio | None
    logs: tuple[str, ...] = ()
    """Path of each live segment's `.log`, in the order of `segments`."""
    refusal: str = ""
    """Why the partition is refused; empty: it is not."""

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

    Raises BadSettings if the tier does not exist.
    """
    known = known_partitions(context, scope)
    rules = settings.rules_for

    def read(partition: KnownPartition) -> PartitionStatus:
        return _status(context, partition, rules(partition.key.topic), scope.first_dirty)

    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(read, known))


def _status(
    context: RunContext, known: KnownPartition, rules: Rules, first_dirty: int | None
) -> PartitionStatus:
    view = inspected(context, known)
    if isinstance(view, Refusal):
        return _refused(context, known, view)
    try:
        return _read(context, known, view, rules, first_dirty)
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        return _refused(context, known, refusal_of(error, str(known.key)))


def _read(
    context: RunContext,
    known: KnownPartition,
    view: PartitionView,
    rules: Rules,
    first_dirty: int | None,
) -> PartitionStatus:
    key = known.key
    newest = view.segments[-1:]
    producers = [entry for segment in newest for entry in read_snapshot(context.tier, key, segment)]
    regions = regions_of(
        view, last_stable_of(producers), rules, context.now_ms, forced_first_dirty=first_dirty
    )
    if isinstance(regions, Refusal):
        return _refused(context, known, regions)
    return PartitionStatus(
        key=key,
        row=known.state,
        view=view,
        regions=regions,
        ratio=dirty_ratio(view, regions, rules, context.now_ms),
        logs=_logs(context, key, view.segments),
    )


def _refused(context: RunContext, known: KnownPartition, refusal: Refusal) -> PartitionStatus:
    return PartitionStatus(
        key=known.key,
        row=known.state,
        view=None,
        regions=None,
        ratio=None,
        logs=_logs(context, known.key, known.state.segments if known.state is not None else ()),
        refusal=refusal.sentence,
    )


def _logs(context: RunContext, key: PartitionKey, segments: Sequence[Segment]) -> tuple[str, ...]:
    return tuple(context.tier.uri(address_of(key, segment), Part.LOG) for segment in segments)
