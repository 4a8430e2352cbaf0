"""The same records stay, wherever a log is cut into chunks and a run is stopped."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.jobs.chunked_logs import DAY_MS, Upload, compacted, live_records, put_uploads, uploads
from tests.jobs.commands import status_of
from tests.jobs.tiers import key_of, made_tier
from tests.scratch import SCRATCH
from tests.storage.live_segments import NOW_MS
from tierfold.compaction.planning.chunks import Budget
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.partition_report import COMPACTED, LEFT, NOTHING_TO_DO
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.runs_table import RunsTable

PARTITIONS: Final = 10
"""In one example: the time of a run depends on its waves, not its partitions."""

EXAMPLES: Final = max(1, settings().max_examples // 60)
RUNS_MOST: Final = 200

logs = st.lists(st.tuples(uploads(), st.integers(1, 4)), min_size=PARTITIONS, max_size=PARTITIONS)
"""For each partition its segments, and about how many of them a chunk takes."""


def two_of_each(
    tier: Path, drawn: list[tuple[tuple[Upload, ...], int]]
) -> tuple[dict[str, int], int]:
    """Put each log twice; return `chunk.bytes` of the topics to cut, and the largest segment."""
    bounds: dict[str, int] = {}
    largest = 0
    for number, (segments, share) in enumerate(drawn):
        put_uploads(tier, key_of(f"whole{number}"), segments)
        sizes = put_uploads(tier, key_of(f"cut{number}"), segments)
        bounds[f"cut{number}"] = share * max(sizes)
        largest = max(largest, *sizes)
    return bounds, largest


def unlike(tier: Path) -> dict[str, object]:
    """Return the pairs of topics that differ in a record."""
    found = live_records(tier)
    return {
        topic: (records, found[topic.replace("cut", "whole")])
        for topic, records in found.items()
        if topic.startswith("cut") and records != found[topic.replace("cut", "whole")]
    }


@settings(max_examples=EXAMPLES)
@given(drawn=logs)
def test_chunks_end_in_the_same_records_as_the_whole(
    drawn: list[tuple[tuple[Upload, ...], int]]
) -> None:
    with TemporaryDirectory(dir=SCRATCH) as folder:
        tier = made_tier(Path(folder) / "tier")
        bounds, _ = two_of_each(tier, drawn)
        reports = compacted(tier, bounds)
        rows = RunsTable(str(tier / "_tierfold")).read()
        event(f"chunks of one partition: {max(row.chunk for row in rows) + 1}")
        assert unlike(tier) == {}
        for number in range(PARTITIONS):
            cut, whole = reports[f"cut{number}"], reports[f"whole{number}"]
            assert cut.outcome == whole.outcome
            assert cut.counts.adds_up
            assert cut.counts.records_in == whole.counts.records_in
            assert cut.counts.kept == whole.counts.kept
            assert (cut.bytes_in, cut.next_offset) == (whole.bytes_in, whole.next_offset)
            verified = sum(
                sum(row.verified.values()) for row in rows if row.topic == cut.key.topic
            )
            assert cut.objects_written == cut.parts_verified.total == verified
        # Tombstones and markers expire at different times; then the two are equal again.
        for days in (2, 4, 6):
            compacted(tier, now_ms=NOW_MS + days * DAY_MS, scope=Scope(first_dirty=0))
            assert days == 2 or unlike(tier) == {}


@settings(max_examples=EXAMPLES)
@given(drawn=logs, share=st.integers(1, 6))
def test_the_next_run_continues_a_stopped_run(
    drawn: list[tuple[tuple[Upload, ...], int]], share: int
) -> None:
    with TemporaryDirectory(dir=SCRATCH) as folder:
        tier = made_tier(Path(folder) / "tier")
        bounds, largest = two_of_each(tier, drawn)
        compacted(tier, scope=Scope(topics=("whole*",)))
        budget = Budget(max_bytes=share * PARTITIONS * largest)
        for _ in range(RUNS_MOST):
            before = offsets_of(tier)
            reports = compacted(tier, bounds, budget=budget, scope=Scope(topics=("cut*",)))
            assert {report.outcome for report in reports.values()} <= {
                COMPACTED,
                LEFT,
                NOTHING_TO_DO,
            }
            if {report.outcome for report in reports.values()} == {NOTHING_TO_DO}:
                break
            assert offsets_of(tier) != before
        assert unlike(tier) == {}
        rows = Catalog(str(tier / "_tierfold")).read().values()
        assert {row.owner_run for row in rows} == {""}


def offsets_of(tier: Path) -> dict[str, int | None]:
    """Each topic's cleaner offset."""
    return {topic: entry["cleaner_offset"] for (topic, _), entry in status_of(tier).items()}
