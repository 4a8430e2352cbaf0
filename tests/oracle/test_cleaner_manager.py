"""Regions, cleanable bytes and delays equal those of Kafka's `LogCleanerManager` on fuzzed logs.

Kafka writes a log, and all of it is uploaded. `regions_of` divides what discovery finds in the
tier, Kafka divides its own log. The active segment is empty, so both see the same data. The last
two tests show where the rules differ deliberately.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.fuzz_run import seeds_of
from tests.oracle.kafka_lab import KafkaLab, Option, SelectionCase
from tests.oracle.recipes import TS_START_MS, recipe
from tests.oracle.remote_views import to_remote
from tierfold.compaction.discovery.view import PartitionView, state_with_new
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import CleanerOffset
from tierfold.compaction.planning.eligibility import dirty_ratio
from tierfold.compaction.planning.regions import LastStable, Regions, last_stable_of, regions_of
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.discovery import viewed
from tierfold.jobs.pipeline.survey import known_partitions
from tierfold.storage.segments.segment_metadata import read_snapshot

CASES = 12
LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedLog:
    """A seed's log as Kafka wrote it, and the view of its tier."""

    source: Path
    made: dict[str, Any]
    view: PartitionView
    last_stable: LastStable | None
    rng: random.Random

    @property
    def end(self) -> int:
        return self.view.next_offset

    def drawn_time_ms(self) -> int:
        """Draw a time near the log's records."""
        first_ms = self.made["firstTimestamp"]
        span_ms = self.made["lastTimestamp"] - first_ms
        return first_ms + self.rng.randint(-10, span_ms + 3000)

    def drawn_checkpoint(self) -> int:
        """Draw a checkpoint: none, within the log, at a segment's edge, or above the log's end."""
        edges = [segment.start_offset for segment in self.view.segments]
        within = self.rng.randint(0, self.end)
        return self.rng.choice([-1, within, self.rng.choice(edges), self.end, self.end + 1])


def uploaded_log(
    lab: KafkaLab, folder: Path, seed: int, options: dict[str, Option]
) -> UploadedLog:
    source = folder / f"t{seed}-0"
    made = lab.make(source, **options)
    to_remote(source, folder, seed)
    context = run_context(str(folder), None, TS_START_MS)
    (known,) = known_partitions(context, Scope())
    view = viewed(context, known.key, None, known.listed)
    assert isinstance(view, PartitionView)
    producers = read_snapshot(context.tier, known.key, view.segments[-1])
    return UploadedLog(
        source=source,
        made=made,
        view=view,
        last_stable=last_stable_of(producers),
        rng=random.Random(seed),
    )


def tierfold_selects(
    log: UploadedLog, case: SelectionCase, log_start_offset: int = 0
) -> tuple[PartitionView, Rules, Regions]:
    """A case for tierfold: the view with the cleaner offset, the rules, and the regions."""
    vector = () if case.checkpoint < 0 else (CleanerOffset(epoch=1, offset=case.checkpoint),)
    state = replace(state_with_new(log.view), cleaner_offsets=vector)
    view = replace(log.view, state=state, log_start_offset=log_start_offset)
    rules = Rules(
        min_compaction_lag_ms=case.min_compaction_lag_ms,
        max_compaction_lag_ms=case.max_compaction_lag_ms,
    )
    regions = regions_of(view, log.last_stable, rules, case.now_ms)
    assert isinstance(regions, Regions)
    return view, rules, regions


@pytest.mark.parametrize("seed", seeds_of("TIERFOLD_SELECTION_SEEDS", "0:40"))
def test_regions_bytes_and_delays_are_kafkas(lab: KafkaLab, tmp_path: Path, seed: int) -> None:
    log = uploaded_log(lab, tmp_path, seed, recipe(seed))
    log_start_offset = log.rng.choice([0, 0, log.rng.randint(0, log.end)])
    # Never both lags: then the rules differ, as the next test shows.
    lags = [(0, log.rng.randint(1, 4000)), (log.rng.randint(1, 4000), LONG_MAX), (0, LONG_MAX)]
    cases = [
        SelectionCase(log.drawn_checkpoint(), log.drawn_time_ms(), *lags[number % len(lags)])
        for number in range(CASES)
    ]
    kafkas = lab.select(log.source, cases, log_start_offset=log_start_offset)
    for case, theirs in zip(cases, kafkas, strict=True):
        view, rules, regions = tierfold_selects(log, case, log_start_offset)
        ratio = dirty_ratio(view, regions, rules, case.now_ms)
        assert theirs["activeSegmentBase"] == regions.next_offset
        ours = (
            regions.first_dirty,
            # If nothing is cleanable, Kafka returns the base of the first dirty segment.
            regions.dirty.is_empty or regions.first_uncleanable,
            regions.reset is not None,
            ratio.cleanable_bytes,
            ratio.clean_bytes,
            ratio.delay_ms,
        )
        is_empty = theirs["firstUncleanableOffset"] <= theirs["firstDirtyOffset"]
        assert ours == (
            theirs["firstDirtyOffset"],
            is_empty or theirs["firstUncleanableOffset"],
            theirs["forceUpdateCheckpoint"],
            theirs["cleanableBytes"],
            theirs["cleanBytes"],
            theirs["maxCompactionDelayMs"],
        ), case


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_minimum_lag_keeps_overdue_data_from_kafkas_cleaner_but_not_from_tierfold(
    lab: KafkaLab, tmp_path: Path, seed: int
) -> None:
    # KIP-354: the maximum lag overrides the minimum. In LogCleanerManager it overrides only the
    # dirty ratio.
    options: dict[str, Option] = {"records": 900, "ts_start": TS_START_MS, "segment_bytes": "8k"}
    log = uploaded_log(lab, tmp_path, seed, options | {"seed": seed, "ts_step": seed})
    now_ms = log.made["lastTimestamp"]
    oldest_allowed_ms = log.view.segments[2].first_timestamp_ms
    case = SelectionCase(-1, now_ms, 2**40, now_ms - oldest_allowed_ms)
    (theirs,) = lab.select(log.source, [case])
    _, _, regions = tierfold_selects(log, case)
    assert theirs["cleanableBytes"] == 0
    assert theirs["maxCompactionDelayMs"] > 0
    assert regions.first_uncleanable == log.view.segments[2].start_offset < regions.next_offset


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_a_transaction_whose_marker_is_not_uploaded_yet_is_undecided(
    lab: KafkaLab, tmp_path: Path, seed: int
) -> None:
    # The active segment has data. The tier ends below it, and so do the producer snapshots.
    options = recipe(seed) | {"roll_end": False, "txn": 3, "segment_bytes": "8k"}
    log = uploaded_log(lab, tmp_path, seed, options)
    case = SelectionCase(-1, log.made["lastTimestamp"], 0, LONG_MAX)
    (theirs,) = lab.select(log.source, [case])
    _, _, regions = tierfold_selects(log, case)
    assert theirs["activeSegmentBase"] == regions.next_offset
    assert regions.first_uncleanable <= theirs["firstUncleanableOffset"] <= regions.next_offset
