"""The storage classes of what a round replaces, where no listing shows them: Azure and Google."""

from __future__ import annotations

from dataclasses import replace

from tierfold.compaction.discovery.listing import with_classes
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.planning.plan import Compact
from tierfold.compaction.planning.storage_classes import (
    refused_as_archived,
    to_ask,
    with_asked_classes,
)
from tierfold.jobs.context.run_context import RunContext
from tierfold.storage.tiers.remote_tier import Listing


def with_replaced_classes(
    context: RunContext, plan: PartitionPlan, listing: Listing
) -> PartitionPlan:
    """Return the plan with the classes of what it replaces; a Refusal if they are archives.

    What could not be asked for stays as the listing has it.
    """
    if plan.view is None or not isinstance(plan.choice, Compact):
        return plan
    replaced = {source.segment_id for source in plan.choice.sources}
    sources = [one for one in listing if one.segment_id in replaced]
    wanted = {}
    for one, suffixes in to_ask(sources):
        for object_key, _ in context.tier.objects_of(plan.key, one):
            suffix = object_key.rpartition(".")[2]
            if suffix in suffixes:
                wanted[one.segment_id, suffix] = object_key
    classes = context.classes.of([*wanted.values()])
    found = {name: classes[key] for name, key in wanted.items() if key in classes}
    if not found:
        return plan
    asked = with_asked_classes(sources, found)
    refusal = refused_as_archived(asked, None)
    if refusal is not None:
        return replace(plan, choice=refusal)
    return replace(plan, view=replace(plan.view, stored=with_classes(asked)))
