"""Takes looks at claimed partitions: row, listing, metadata topic, offsets, in this order.

In any other order an upload or an expiry in between looks wrong (PUBLISHING 1.5). Each look goes
through discovery, as planning does: identity of cluster, catalog and tier, lineage, log start, and
segments that neither row nor brokers explain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias

from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.compaction.planning.open_step import look_of
from tierfold.compaction.publishing.batches import batch_bytes_max
from tierfold.compaction.publishing.look import PublishingLimits
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.tier_identity import TierIdentity, run_binding, tier_identity
from tierfold.jobs.pipeline.asked_brokers import with_brokers
from tierfold.jobs.pipeline.discovery import viewed
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.known_partition import KnownPartition, left_alone, refusal_of
from tierfold.jobs.pipeline.publication import Publication, PublicationState
from tierfold.jobs.pipeline.survey import READERS, with_identity
from tierfold.jobs.publishing.served_partition import ServedPartition
from tierfold.storage.brokers.event_door import LookTime
from tierfold.storage.clock import boot_s, now_ms
from tierfold.storage.tiers.remote_tier import Listing

Seen: TypeAlias = ServedPartition | Publication
"""A look at a partition; or how its publication ended, because nothing may be sent for it."""


LookAt: TypeAlias = Callable[
    [RunContext, KnownPartition, TierIdentity, Rules, PublishingLimits], Seen
]
"""Takes the look at one partition of which row, listing and brokers were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """Looks at some partitions, taken together."""

    taken: LookTime
    """When the first row was read."""
    seen: Mapping[PartitionKey, Seen]


def looks_at(
    held: HeldPartitions,
    cluster: RunCluster,
    rules: Mapping[PartitionKey, Rules],
    grace_ms: int,
    look_at: LookAt,
) -> Looks:
    """Take one look at each partition of `rules`, all of them claimed.

    `grace_ms`: how long segments stay that are listed for deletion; `look_at`: what the look is
    from. Raises as `with_brokers`.
    """
    context = held.context
    taken = LookTime(at_ms=now_ms(), at_boot_s=boot_s())
    seen: dict[PartitionKey, Seen] = {}
    unread = held.recheck(rules)
    rows: dict[PartitionKey, PartitionState] = {}
    for key in rules:
        now = held.by_key[key]
        if key in unread:
            seen[key] = Publication(state=PublicationState.FAILED, why=str(unread[key]))
        elif not isinstance(now.outcome, Committed):
            why = "another run took the partition over"
            seen[key] = Publication(state=PublicationState.FENCED, why=why)
        else:
            rows[key] = now.row
    if not rows:
        return Looks(taken=taken, seen=seen)
    known = with_brokers(context, cluster, _known(context, rows), is_again=True)
    identity = tier_identity(context, run_binding(context), deletes=True)
    limits = limits_of(context, grace_ms)

    def seen_now(one: KnownPartition) -> Seen:
        of_topic = rules[one.key]
        its_limits = replace(limits, upload_wait_ms=of_topic.upload_wait_ms)
        return look_at(context, one, identity, of_topic, its_limits)

    with ThreadPoolExecutor(READERS) as pool:
        seen |= dict(zip(known, pool.map(seen_now, known.values()), strict=True))
    return Looks(taken=taken, seen=seen)


def _known(
    context: RunContext, rows: Mapping[PartitionKey, PartitionState]
) -> dict[PartitionKey, KnownPartition]:
    listings = context.tier.listings([*rows])
    return {key: _with_listing(row, listings[key]) for key, row in rows.items()}


def _with_listing(row: PartitionState, listed: Listing | Exception) -> KnownPartition:
    if isinstance(listed, Exception):
        refusal = refusal_of(listed, str(row.key))
        return KnownPartition(key=row.key, state=row, refusal=refusal, listed=())
    return KnownPartition(key=row.key, state=row, refusal=None, listed=listed)


def limits_of(context: RunContext, grace_ms: int) -> PublishingLimits:
    """The limits, as the newest look has read the metadata topic's settings.

    Without a topic's wait for uploads. `grace_ms`: as of `looks_at`.
    """
    most = batch_bytes_max(context.metadata_configs)
    return PublishingLimits(grace_ms=grace_ms, upload_wait_ms=0, batch_bytes_max=most)


def by_discovery(
    context: RunContext,
    known: KnownPartition,
    identity: TierIdentity,
    rules: Rules,
    limits: PublishingLimits,
) -> Seen:
    """The look by discovery beside brokers; a refusal of it ends the publication."""
    known = with_identity(known, identity)
    if known.is_left_alone:
        return Publication(state=PublicationState.FAILED, why=left_alone(known))
    brokers, row = known.brokers, known.state
    try:
        view = known.refusal or viewed(context, known.key, row, known.listed, brokers)
    except TierfoldError as error:
        view = refusal_of(error, str(known.key))
    if isinstance(view, Refusal):
        return failed_by(view)
    look = look_of(view, limits, context.clock(), known.listed)
    if look is None:
        raise ValueError(f"{known.key}: discovery lets nothing pass without row and offsets")
    return ServedPartition(known=known, look=look, rules=rules)


def failed_by(refusal: Refusal) -> Publication:
    """The publication that a refusal ends."""
    return Publication(
        state=PublicationState.FAILED, why=refusal.sentence, refusals=refusal.parts
    )
