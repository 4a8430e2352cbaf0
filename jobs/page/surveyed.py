"""What a survey of the tier says: topics, owners, what stays of replaced segments, segment maps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from tierfold.compaction.deletion.superseded import SupersededBytes, joined
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.explanation import SegmentRun, decision, folded
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Rest, RestReason
from tierfold.jobs.page.page_model import Block, Horizon, Owner, SegmentMap, Staying, Topic
from tierfold.jobs.page.recorded import Recorded
from tierfold.jobs.pipeline.partition_report import superseded_sentence
from tierfold.jobs.verbs.plan import Explained

BLOCKS_MAX: Final = 60
"""Maximum blocks of a segment map: beyond it, similar neighbours share one."""

OwnerOf = Callable[[str], str]
"""A topic's owner, by its name; empty: it has none."""

_NOT_COMPACTED: Final = frozenset(
    {RestReason.NO_POLICY, RestReason.POLICY_NOT_COMPACT, RestReason.NOT_OF_CLUSTER}
)


def is_compacted(plan: PartitionPlan) -> bool:
    """Whether the partition's topic is compacted, so that the page counts it."""
    return not (isinstance(plan.choice, Rest) and plan.choice.reason in _NOT_COMPACTED)


def topics_of(plans: Iterable[PartitionPlan], owner_of: OwnerOf) -> tuple[Topic, ...]:
    """Return the topics: the most overdue first, then those with the most dirty bytes."""
    by_topic: dict[str, list[PartitionPlan]] = defaultdict(list)
    for plan in plans:
        by_topic[plan.key.topic].append(plan)
    found = (_topic(name, owner_of(name), those) for name, those in by_topic.items())
    return tuple(
        sorted(found, key=lambda one: (-one.delay_ms, -one.cleanable_bytes, one.topic))
    )


def _topic(name: str, owner: str, plans: Sequence[PartitionPlan]) -> Topic:
    ratios = [plan.ratio for plan in plans if plan.ratio is not None]
    return Topic(
        topic=name,
        owner=owner,
        partitions=len(plans),
        live_bytes=sum(map(live_bytes, plans)),
        clean_bytes=sum(ratio.clean_bytes for ratio in ratios),
        cleanable_bytes=sum(ratio.cleanable_bytes for ratio in ratios),
        delay_ms=max((ratio.delay_ms for ratio in ratios), default=0),
        retired_bytes=sum(one.segment.log_bytes for plan in plans for one in plan.retired),
    )


def live_bytes(plan: PartitionPlan) -> int:
    """Return the bytes of its live logs; 0 of a partition that could not be inspected."""
    return 0 if plan.view is None else sum(one.size_bytes for one in plan.view.segments)


def owners_of(
    topics: Sequence[Topic], runs: Recorded, owner_of: OwnerOf
) -> tuple[Owner, ...]:
    """Return the owners, those with the most live bytes first; also of topics that are gone."""
    by_owner: dict[str, list[Topic]] = defaultdict(list)
    for topic in topics:
        by_owner[topic.owner].append(topic)
    saved, usd = _by_owner(runs.saved_by_topic, owner_of), runs.usd_by_topic
    spent = None if usd is None else _by_owner(usd, owner_of)
    found = (
        Owner(
            owner=name,
            topics=len(by_owner[name]),
            partitions=sum(one.partitions for one in by_owner[name]),
            live_bytes=sum(one.live_bytes for one in by_owner[name]),
            retired_bytes=sum(one.retired_bytes for one in by_owner[name]),
            saved_bytes=round(saved[name]),
            request_usd=None if spent is None else spent[name],
        )
        for name in by_owner.keys() | saved.keys()
    )
    return tuple(sorted(found, key=lambda one: (-one.live_bytes, one.owner)))


def _by_owner(of_topics: Mapping[str, float], owner_of: OwnerOf) -> Counter[str]:
    sums: Counter[str] = Counter()
    for topic, value in of_topics.items():
        sums[owner_of(topic)] += value  # type: ignore[assignment]
    return sums


def staying_of(superseded: Iterable[SupersededBytes]) -> tuple[Staying, ...]:
    """Return what stays of replaced segments, and what removes it."""
    return tuple(
        Staying(
            size_bytes=part.size_bytes,
            gone_at_ms=part.gone_at_ms,
            sentence=superseded_sentence(part),
        )
        for part in joined(superseded)
    )


def oldest_horizon(plans: Iterable[PartitionPlan]) -> Horizon | None:
    """Return the earliest delete horizon in a live segment; None: none has one."""
    dues = [
        (segment.earliest_due_ms, str(plan.key))
        for plan in plans
        if plan.view is not None
        for segment in plan.view.segments
        if segment.earliest_due_ms is not None
    ]
    if not dues:
        return None
    due_at_ms, partition = min(dues)
    return Horizon(partition=partition, due_at_ms=due_at_ms)


def most_dirty(plans: Iterable[PartitionPlan], count: int) -> list[PartitionPlan]:
    """Return the partitions whose segments are worth a look: the most overdue, then the dirtiest.

    Among equals the largest comes first.
    """
    seen = [plan for plan in plans if plan.view is not None and plan.view.segments]
    return sorted(seen, key=_dirt, reverse=True)[:count]


def _dirt(plan: PartitionPlan) -> tuple[int, int, int, PartitionKey]:
    ratio = plan.ratio
    dirt = (0, 0) if ratio is None else (ratio.delay_ms, ratio.cleanable_bytes)
    return *dirt, live_bytes(plan), plan.key


def segment_map(found: Explained) -> SegmentMap:
    """Return the picture of one partition, as `plan --explain` draws it."""
    blocks = tuple(map(_block, folded(found.segments, BLOCKS_MAX)))
    return SegmentMap(
        partition=str(found.plan.key),
        decision=decision(found.plan.choice),
        size_bytes=sum(block.size_bytes for block in blocks),
        blocks=blocks[:BLOCKS_MAX],
    )


def _block(run: SegmentRun) -> Block:
    first, last = run.segments[0], run.segments[-1]
    return Block(
        region=", ".join(first.regions),
        action=first.action,
        offsets=f"{first.segment.start_offset}–{last.segment.end_offset}",
        size_bytes=run.size_bytes,
        segments=len(run.segments),
        why=first.why,
    )
