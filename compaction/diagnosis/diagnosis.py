"""All that is wrong with partitions, topics and their cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.brokers.broker_versions import KafkaVersion
from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.compaction.brokers.preconditions import cluster_preconditions
from tierfold.compaction.diagnosis import cluster, marks, objects, offsets, uploads
from tierfold.compaction.diagnosis.examined import Examined
from tierfold.compaction.diagnosis.findings import Finding, worst_first
from tierfold.compaction.discovery.identity import OfCluster
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.segment_ids import is_own_id

ILLNESSES: Final[Sequence[Callable[[Examined], Iterator[Finding]]]] = (
    offsets.gaps,  # First: what a tier alone would need takes segments from brokers.
    marks.refused,  # Its remedies know most.
    marks.metadata_records,
    marks.other_catalogs,
    objects.missing_objects,
    objects.never_named,
    objects.undeleted,
    objects.left_by_a_loss,
    objects.orphans,
    objects.vacuum_due,
    offsets.unfound_offsets,
    offsets.assumed_holes,
    offsets.overlapping_uploads,
    offsets.small_segments,
    uploads.stuck_uploads,
    uploads.stuck_deletions,
    uploads.unfinished_swaps,
)
"""Of a partition whose topic the cluster has. Of several findings with one code the first counts.
"""


_NOT_COMPARED: Final = frozenset(
    {
        RefusalReason.ANOTHER_CLUSTER,
        RefusalReason.ANOTHER_PLACE,
        RefusalReason.ANOTHER_METADATA_TOPIC,
        RefusalReason.METADATA_PARTITIONS,
        RefusalReason.METADATA_LOST,
    }
)
"""With these, what brokers have is not known or not of this tier, and every difference misleads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """What is in the tier of a topic, and whether tierfold could compact it."""

    topic: str
    partitions: int
    segments: int
    size_bytes: int
    """Bytes of the logs of its segments."""
    is_compacted: bool
    """Whether its policy in tierfold names compact."""
    in_the_way: tuple[str, ...]
    """Codes of what keeps it from being compacted; empty: nothing does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What is wrong, the worst first."""

    findings: tuple[Finding, ...]
    topics: tuple[TopicSummary, ...]
    """By name."""


def diagnosis(
    examined: Sequence[Examined],
    look: ClusterView | None,
    *,
    declared: KafkaVersion | None = None,
    grace_ms: int,
) -> Diagnosis:
    """Diagnose partitions and, if brokers were asked, their topics and the cluster.

    `declared` and `grace_ms`: as of `cluster_preconditions`.
    """
    found = [finding for one in examined for finding in findings_of(one)]
    found += marks.several_catalogs(examined)
    by_topic: dict[str, list[Examined]] = defaultdict(list)
    for one in examined:
        by_topic[one.key.topic].append(one)
    if look is not None:
        compacts = any(one.rules.is_compacted or _has_own(one) for one in examined)
        found += cluster.cluster_findings(
            look, declared=declared, grace_ms=grace_ms, compacts=compacts
        )
        for topic, partitions in by_topic.items():
            if _is_there(partitions):
                found += cluster.topic_findings(
                    look.topics[topic], look.setup, partitions[0].rules, declared
                )
    return Diagnosis(
        findings=worst_first(found),
        topics=tuple(_summaries(by_topic, look, declared, grace_ms)),
    )


def findings_of(one: Examined) -> tuple[Finding, ...]:
    """What is wrong with one partition, each code once."""
    is_absent = one.brokers is not None and not one.brokers.has_topic
    if is_absent or one.whose is not OfCluster.ITS_OWN:
        return tuple(objects.deleted_topic(one))
    if one.refusal is not None and one.refusal.reason in _NOT_COMPARED:
        return tuple(marks.refused(one))
    found: dict[str, Finding] = {}
    for illness in ILLNESSES:
        for finding in illness(one):
            found.setdefault(finding.code, finding)
    return tuple(found.values())


def _is_there(partitions: Iterable[Examined]) -> bool:
    """Whether the cluster has the topic."""
    return any(one.brokers is not None and one.brokers.has_topic for one in partitions)


def _has_own(one: Examined) -> bool:
    """Whether a tierfold has published to it."""
    return one.brokers is not None and any(map(is_own_id, one.brokers.view.segments))


def _summaries(
    by_topic: dict[str, list[Examined]],
    look: ClusterView | None,
    declared: KafkaVersion | None,
    grace_ms: int,
) -> Iterator[TopicSummary]:
    of_cluster = (
        ()
        if look is None
        else cluster_preconditions(look.setup, declared=declared, grace_ms=grace_ms)
    )
    for topic, partitions in sorted(by_topic.items()):
        there = [one for one in partitions if one.brokers is None or one.brokers.has_topic]
        if not there:
            continue
        codes: list[str] = []
        if look is not None:
            codes += cluster.in_the_way(
                look.topics[topic], look.setup, there[0].rules, of_cluster
            )
        for one in there:
            codes += [finding.code for finding in marks.refused(one)]
            codes += [finding.code for finding in marks.metadata_records(one)]
        sizes = [size for one in there for size in _sizes(one)]
        yield TopicSummary(
            topic=topic,
            partitions=len(there),
            segments=len(sizes),
            size_bytes=sum(sizes),
            is_compacted=there[0].rules.is_compacted,
            in_the_way=tuple(dict.fromkeys(codes)),
        )


def _sizes(one: Examined) -> list[int]:
    """Bytes of the log of each live segment."""
    if one.view is not None:
        return [segment.size_bytes for segment in one.view.segments]
    if one.brokers is not None:
        return [segment.added.size_bytes for segment in one.finished]
    return [] if one.row is None else [segment.size_bytes for segment in one.row.segments]
