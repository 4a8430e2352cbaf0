"""`--engine local` refuses an input above `--local-max`, before anything is claimed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.jobs.commands import ALWAYS, tierfold, told
from tests.jobs.tiers import files_below, key_of, made_tier, put_updates

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
@pytest.mark.parametrize("verb", ["compact", "verify"])
def test_the_bound_is_the_input_of_the_whole_run(
    tier: Path, verb: str, spare_bytes: int, code: int
) -> None:
    before = files_below(tier)
    limit = len(TOPICS) * segment_bytes(tier) + spare_bytes
    settings = ALWAYS if verb == "compact" else ()
    ran = tierfold(verb, tier, *settings, *LOCAL, "--local-max", str(limit), "--json")
    assert ran.code == code, ran.stderr
    if code:
        assert not told(ran.stderr, "--engine local", "--engine spark", "--local-max")
        assert "Traceback" not in ran.stderr
        assert files_below(tier) == before


@pytest.mark.parametrize(
    "narrower",
    [
        pytest.param(("--topic", "orders"), id="fewer topics"),
        pytest.param(("--max-partitions", "1"), id="fewer partitions"),
        pytest.param(("--max-bytes", "1"), id="a budget of bytes"),
    ],
)
def test_what_the_run_leaves_does_not_count(tier: Path, narrower: tuple[str, str]) -> None:
    limit = ("--local-max", str(segment_bytes(tier)))
    assert tierfold("compact", tier, *ALWAYS, *LOCAL, *limit).code == 2
    assert tierfold("compact", tier, *ALWAYS, *LOCAL, *limit, *narrower).code == 0


def test_a_first_segment_counts_although_it_exceeds_the_budget(tier: Path) -> None:
    limits = ("--max-bytes", "1", "--local-max", str(segment_bytes(tier) - 1))
    assert tierfold("compact", tier, *ALWAYS, *LOCAL, *limits).code == 2


def test_nothing_to_do_is_no_input(tier: Path) -> None:
    assert tierfold("compact", tier, *ALWAYS, *LOCAL).code == 0
    assert tierfold("compact", tier, *ALWAYS, *LOCAL, "--local-max", "1").code == 0
