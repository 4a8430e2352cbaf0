"""Tiers that a broker compacted before, or whose log start moved: each remedy leads out.

The tiers of `tests/data/real-logs`; `tests/oracle/test_compacted_before.py` compares the results
with those of Kafka's cleaner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tierfold as api
from tests.jobs.commands import ALWAYS, Ran, tierfold
from tests.jobs.real_logs import COMPACTED, EMPTIED, LOG_START_MOVED, in_aiven, unpacked
from tierfold.compaction.discovery.view import PartitionView
from tierfold.compaction.model.segments import Hole
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.pipeline.discovery import viewed

HOLES = ("--holes-are-holes", "ct-0")
DETACHED = ("--set", "tier.binding=detached")
MISSING = 12_628
"""The start of a segment that is taken away."""


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return unpacked(COMPACTED, tmp_path / "tier")


@pytest.fixture
def aiven(tmp_path: Path) -> Path:
    return in_aiven(unpacked(COMPACTED, tmp_path / "local"), tmp_path / "tier", 33_999)


def ran(verb: str, tier: Path, *options: str) -> Ran:
    always = ALWAYS if verb in {"plan", "compact"} else ()
    return tierfold(verb, tier, "--json", *always, *options)


def reason(found: Ran) -> str:
    (entry,) = found.entries
    assert (found.code, entry["outcome"] in {"refused", "failed"}) == (3, True), entry
    text: str = entry["reason"]
    return text


def outcome(found: Ran) -> str:
    (entry,) = found.entries
    assert found.code == 0, entry
    text: str = entry["outcome"]
    return text


def objects_at(tier: Path, keep: Callable[[int], bool]) -> list[Path]:
    """The objects of segments whose start does not pass."""
    paths = [path for path in tier.rglob("0000*") if path.is_file()]
    return [path for path in paths if not keep(int(path.name[:20]))]


def moved(paths: list[Path], aside: Path) -> Callable[[], None]:
    """Move objects out of the tier; return what brings them back."""
    aside.mkdir()
    for path in paths:
        path.rename(aside / path.name)

    def bring_back() -> None:
        for path in paths:
            (aside / path.name).rename(path)

    return bring_back


def state_of(tier: Path) -> Any:
    context = run_context(str(tier))
    ((_, state),) = context.catalog.look().by_key.items()
    return state


def test_a_compacted_topic_is_refused_with_both_explanations(tier: Path) -> None:
    for verb in ("plan", "compact", "status", "verify"):
        text = reason(ran(verb, tier))
        assert "offset 6317: a hole, or a missing segment, between segments" in text
        assert "and DUVBz6HHSQihggRnrPCBqw" in text
        assert "__remote_log_metadata" in text
        assert "run again with --holes-are-holes ct-0." in text


def test_consent_is_recorded_and_not_asked_for_again(tier: Path) -> None:
    assert outcome(ran("plan", tier, *HOLES)) == "planned"
    assert outcome(ran("status", tier, *HOLES)) == "ok"
    assert outcome(ran("compact", tier, *HOLES, *DETACHED)) == "compacted"
    holes = state_of(tier).holes
    assert (len(holes), holes[0]) == (8, Hole(start_offset=6317, end_offset=6317))
    assert outcome(ran("compact", tier)) == "nothing_to_do"
    assert outcome(ran("verify", tier)) == "sound"
    shown = tierfold("status", tier)
    assert shown.code == 0
    assert "8 gaps between segments taken for holes, the first at offset 6317" in " ".join(
        shown.stdout.replace("│", " ").split()
    )


@pytest.mark.parametrize("pattern", ["ct-*", "ct-0-o2ue-f3WSMOJi6d08ZHgyA", "*"])
def test_consent_may_be_a_pattern_or_the_folder(tier: Path, pattern: str) -> None:
    assert outcome(ran("plan", tier, "--holes-are-holes", pattern)) == "planned"


def test_consent_for_another_partition_changes_nothing(tier: Path) -> None:
    assert "6318" in reason(ran("plan", tier, "--holes-are-holes", "other-*"))
    refused = tierfold("plan", tier, *ALWAYS, "--holes-are-holes", "ct-1")
    refused.refuses("no partition has that name", "ct-1", "Did you mean ct-0")


def test_the_api_takes_the_consent(tier: Path) -> None:
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
    assert api.plan(tier, settings=settings).outcome == "refused"
    assert api.plan(tier, settings=settings, holes_are_holes="ct-0").outcome == "planned"
    found = api.compact(tier, settings=settings, engine="local", holes_are_holes=["ct-0"])
    assert found.outcome == "compacted"


def test_a_missing_segment_is_refused_and_both_ways_out_work(tier: Path, tmp_path: Path) -> None:
    lost = objects_at(tier, lambda start: start != MISSING)
    # Without the segment before it, so that the gap of the missing one comes first.
    bring_back = moved(lost, tmp_path / "lost")
    low = objects_at(tier, lambda start: start >= 6318)
    moved(low, tmp_path / "low")
    text = reason(ran("plan", tier))
    assert "to 18947: a hole, or a missing segment" in text
    assert "bring the missing segment back" in text
    assert "move the segments below offset 18948 out of the tier" in text
    bring_back()
    assert outcome(ran("plan", tier, *HOLES)) == "planned"
    below = objects_at(tier, lambda start: start >= 18_948)
    moved(below, tmp_path / "below")
    assert outcome(ran("plan", tier, *HOLES)) == "planned"


def test_with_manifests_nothing_is_asked(aiven: Path) -> None:
    assert outcome(ran("compact", aiven, *DETACHED)) == "compacted"
    assert state_of(aiven).holes == ()
    assert outcome(ran("verify", aiven)) == "sound"


def test_with_manifests_a_missing_segment_is_one_whatever_is_said(
    aiven: Path, tmp_path: Path
) -> None:
    bring_back = moved(objects_at(aiven, lambda start: start != MISSING), tmp_path / "lost")
    for consent in ((), HOLES):
        text = reason(ran("plan", aiven, *consent))
        assert "ends at offset 12627, segment r7pYCnKZTBSy08XbvJ4cMg starts at 18948" in text
        assert "Bring the missing segment back" in text
        assert "hole" not in text
    bring_back()
    assert outcome(ran("plan", aiven)) == "planned"
    moved(objects_at(aiven, lambda start: start >= 18_948), tmp_path / "below")
    assert outcome(ran("plan", aiven)) == "planned"


def test_the_manifest_corrects_an_end_that_an_older_row_has_from_the_last_batch(
    aiven: Path, tmp_path: Path
) -> None:
    bring_back = moved(objects_at(aiven, lambda start: start == 0), tmp_path / "later")
    assert outcome(ran("compact", aiven, *DETACHED)) == "compacted"
    state = state_of(aiven)
    assert state.next_offset == 6318
    bring_back()
    context = run_context(str(aiven))
    older = replace(state, segments=(replace(state.segments[0], end_offset=6316),))
    seen = viewed(context, state.key, older, context.tier.listing(state.key))
    assert isinstance(seen, PartitionView)
    assert seen.segments[0] == state.segments[0]
    assert (seen.next_offset, seen.waiting) == (34_000, ())
    assert seen.holes == (Hole(start_offset=6317, end_offset=6317),)


def test_segments_of_0_bytes_are_taken_with_consent(tmp_path: Path) -> None:
    tier = unpacked(EMPTIED, tmp_path / "tier")
    assert "mzINMVd5QayXI7OTj6U4WA (0 bytes)" in reason(ran("plan", tier))
    holes = ("--holes-are-holes", "ct-0")
    assert outcome(ran("compact", tier, *holes, *DETACHED)) == "compacted"
    assert all(segment.size_bytes for segment in state_of(tier).segments)
    assert outcome(ran("verify", tier)) == "sound"
    explained = tierfold("plan", tier, *ALWAYS, "--explain", "ct-0")
    assert explained.code == 0
    empty = next(path for path in tier.rglob("*.log") if not path.stat().st_size)
    dumped = tierfold("dump", empty)
    assert dumped.code == 0, dumped


def test_segments_of_0_bytes_can_be_drawn_and_stay_unless_they_are_due(tmp_path: Path) -> None:
    tier = unpacked(EMPTIED, tmp_path / "tier")
    moved(objects_at(tier, lambda start: start < 26_924), tmp_path / "rest")
    for path in tier.rglob("*"):
        path.touch()  # One that waits for longer than a day stops its partition.
    holes = ("--holes-are-holes", "ct-0")
    drawn = tierfold("plan", tier, *ALWAYS, *holes, "--explain", "ct-0")
    assert drawn.code == 0, drawn
    assert ran("compact", tier, *holes, *DETACHED).code == 0
    assert ran("verify", tier, *holes).code == 0


def test_a_log_start_that_moved_is_no_election(tmp_path: Path) -> None:
    tier = unpacked(LOG_START_MOVED, tmp_path / "tier")
    assert outcome(ran("plan", tier)) == "planned"
    forgotten = tierfold("forget", tier, "ar-0", "--dry-run", "--json")
    assert forgotten.entries[0]["outcome"] == "nothing_to_do"
    assert outcome(ran("compact", tier, *DETACHED)) == "compacted"
    assert [(epoch.epoch, epoch.start_offset) for epoch in state_of(tier).lineage] == [
        (0, 0),
        (2, 6000),
        (4, 12_000),
    ]
    assert ran("vacuum", tier, *DETACHED, "--diverged", "--dry-run").code == 0
    assert outcome(ran("verify", tier)) == "sound"
