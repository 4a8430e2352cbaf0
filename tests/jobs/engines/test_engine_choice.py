"""`--engine local` refuses an input above `--local-max`, before anything is claimed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.jobs.commands import ALWAYS, tierfold, told
from tests.jobs.tiers import (
    RECORDS_PER_SEGMENT,
    an_open_producer,
    files_below,
    key_of,
    made_tier,
    put_segment,
    put_updates,
    updated_tier,
)
from tests.storage.live_segments import data

LOCAL: Final = ("--engine", "local")
TOPICS: Final = ("orders", "payments")


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """Two partitions of one segment each, of the same size."""
    tier = made_tier(tmp_path / "tier")
    sizes = {put_updates(tier, key_of(topic), 0).stat().st_size for topic in TOPICS}
    assert len(sizes) == 1
    return tier


def segment_bytes(tier: Path) -> int:
    return next(tier.rglob("*.log")).stat().st_size


@pytest.mark.parametrize(
    ("spare_bytes", "code"),
    [pytest.param(0, 0, id="as large as allowed"), pytest.param(-1, 2, id="a byte larger")],
)
@pytest.mark.parametrize(
    ("verb", "options"),
    [("compact", ALWAYS), ("compact", (*ALWAYS, "--dry-run")), ("verify", ())],
    ids=["compact", "dry run", "verify"],
)
def test_the_limit_applies_to_the_input_of_the_whole_run(
    tier: Path, verb: str, options: tuple[str, ...], spare_bytes: int, code: int
) -> None:
    before = files_below(tier)
    limit = len(TOPICS) * segment_bytes(tier) + spare_bytes
    ran = tierfold(verb, tier, *options, *LOCAL, "--local-max", str(limit), "--json")
    assert ran.code == code, ran.stderr
    if code:
        assert not told(ran.stderr, "--engine local", "--engine spark", "--local-max")
        assert "Traceback" not in ran.stderr
        assert files_below(tier) == before


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(("--topic", "orders"), id="fewer topics"),
        pytest.param(("--max-partitions", "1"), id="fewer partitions"),
        pytest.param(("--max-bytes", "1"), id="a budget of bytes"),
    ],
)
def test_partitions_that_the_run_does_not_compact_do_not_count(
    tier: Path, limits: tuple[str, str]
) -> None:
    limit = ("--local-max", str(segment_bytes(tier)))
    assert tierfold("compact", tier, *ALWAYS, *LOCAL, *limit).code == 2
    assert tierfold("compact", tier, *ALWAYS, *LOCAL, *limit, *limits).code == 0


def test_a_first_segment_counts_even_if_it_exceeds_the_budget(tier: Path) -> None:
    limits = ("--max-bytes", "1", "--local-max", str(segment_bytes(tier) - 1))
    assert tierfold("compact", tier, *ALWAYS, *LOCAL, *limits).code == 2


def test_a_segment_that_is_read_only_for_its_markers_counts(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    source = put_updates(tier, key_of("orders"), 0).stat().st_size
    # A transaction that is open from its first offset holds the second segment back.
    held_back = put_segment(
        tier,
        key_of("orders"),
        [data(RECORDS_PER_SEGMENT, (b"k0", b"open"), producer_id=7)],
        start_offset=RECORDS_PER_SEGMENT,
        producers=[an_open_producer(7, RECORDS_PER_SEGMENT)],
    )
    read_bytes = source + held_back.stat().st_size
    for limit, code in ((read_bytes - 1, 2), (read_bytes, 0)):
        for dry_run in (("--dry-run",), ()):
            ran = tierfold("compact", tier, *ALWAYS, *LOCAL, "--local-max", str(limit), *dry_run)
            assert ran.code == code, ran.stderr


@pytest.mark.parametrize("max_bytes", [None, "1"])
def test_segments_beyond_the_chunk_do_not_count(tmp_path: Path, max_bytes: str | None) -> None:
    tier = updated_tier(tmp_path / "tier", (key_of("orders"),), segments=2)
    budget = () if max_bytes is None else ("--max-bytes", max_bytes)
    limit = ("--local-max", str(segment_bytes(tier)))
    ran = tierfold("compact", tier, *ALWAYS, *LOCAL, *limit, *budget)
    assert ran.code == (2 if max_bytes is None else 0), ran.stderr


def test_without_due_partitions_there_is_no_input(tier: Path) -> None:
    assert tierfold("compact", tier, *ALWAYS, *LOCAL).code == 0
    assert tierfold("compact", tier, *ALWAYS, *LOCAL, "--local-max", "1").code == 0
