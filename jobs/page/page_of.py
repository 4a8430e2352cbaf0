"""The page's model, from what runs recorded, what a survey shows, and documents of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.planning.partition_plan import PartitionPlan
from tierfold.compaction.skipping.probe_counts import ProbeCounts
from tierfold.jobs.context.request_prices import StoragePrice
from tierfold.jobs.page.page_model import Page, SegmentMap, Skipped
from tierfold.jobs.page.recorded import Recorded
from tierfold.jobs.page.surveyed import (
    OwnerOf,
    is_compacted,
    oldest_horizon,
    owners_of,
    staying_of,
    topics_of,
)
from tierfold.jobs.page.urgent import problems
from tierfold.jobs.pipeline.partition_report import planned_report

TOP: Final = 15
"""How many topics, owners and problems the page has, so that it stays readable."""

MAPS: Final = 6
"""How many partitions have a segment map."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the page is about."""

    tier: str
    made_at_ms: int
    price: StoragePrice
    stored_bytes: int | None
    owner_of: OwnerOf


def page_of(
    about: About,
    plans: Sequence[PartitionPlan],
    runs: Recorded,
    *,
    maps: Iterable[SegmentMap] = (),
    documents: Mapping[str, Mapping[str, Any]] | None = None,
) -> Page:
    """Return the page of a survey; `documents`: those of runs, by where they were read.

    Raises BadSettings for a document that no run of `compact` wrote.
    """
    compacted = [plan for plan in plans if is_compacted(plan)]
    superseded = [
        (plan.key, part) for plan in compacted for part in planned_report(plan).superseded or ()
    ]
    found = problems(compacted, runs.unfinished, superseded, about.made_at_ms)
    topics = topics_of(compacted, about.owner_of)
    owners = owners_of(topics, runs, about.owner_of)
    return Page(
        tier=about.tier,
        made_at_ms=about.made_at_ms,
        price=about.price,
        partitions=len(compacted),
        stored_bytes=about.stored_bytes,
        problems=found[:TOP],
        problems_left_out=max(0, len(found) - TOP),
        last_runs=runs.last_runs,
        days=runs.days,
        topics=topics[:TOP],
        topics_in_all=len(topics),
        owners=owners[:TOP],
        owners_in_all=len(owners),
        staying=staying_of(part for _, part in superseded),
        oldest_horizon=oldest_horizon(compacted),
        slowest=runs.slowest,
        skipped=tuple(_skipped(documents or {})),
        maps=tuple(maps),
    )


def _skipped(documents: Mapping[str, Mapping[str, Any]]) -> Iterator[Skipped]:
    for where, document in documents.items():
        try:
            if document["verb"] != "compact":
                raise ValueError("it is of another verb")
            entries = document["partitions"]
            probes = [ProbeCounts(**entry["key_indexes"]) for entry in entries]
            yield Skipped(
                run=str(document["run"] or ""),
                asked=sum(one.asked for one in probes),
                skipped=sum(entry["segments_skipped"] for entry in entries),
                read_once=sum(entry["segments_read_once"] for entry in entries),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BadSettings(
                f"this is no document of `compact`: {error}",
                where=where,
                remedy="Name what `tierfold compact --document` or `--json` wrote.",
            ) from None
