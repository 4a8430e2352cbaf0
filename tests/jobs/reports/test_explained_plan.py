"""`plan --explain` shows one partition in characters, without relying on colour."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.commands import COMPACT, tierfold, told
from tests.jobs.tiers import files_below, key_of, put_updates, updated_tier
from tierfold.compaction.planning.explanation import Region
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.reports.explained_plan import _DRAWN, _columns, print_explained
from tierfold.jobs.reports.screen import Screen
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.plan import explain

ORDERS: Final = key_of("orders")


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "tier", [ORDERS], 3)


def drawn(tier: Path, width: int, *settings: str) -> list[str]:
    asked = resolve(("cleanup.policy=compact", *settings), None)
    found = explain(run_context(str(tier)), asked, Scope(), "orders-0")
    out = StringIO()
    print_explained(Screen(out, width=width), found)
    return out.getvalue().splitlines()


def test_a_partition_is_drawn_and_nothing_is_changed(tier: Path) -> None:
    before = files_below(tier)
    ran = tierfold("plan", tier, *COMPACT, "--explain", "orders-0")
    assert (ran.code, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[0].startswith("orders-0: 3 segments, offsets 0–32")
    blocks = lines[1].strip("│").split("│")
    assert [set(block) for block in blocks] == [{"D"}] * 3
    assert all(35 <= len(block) <= 42 for block in blocks)
    assert not told(ran.stdout, "11–21", "rewritten, group 1 (3 segments)", "dirty from offset 0")
    assert not told(ran.stdout, "Decision: compact up to offset 32", "Dirty ratio: 100.0 %")
    assert not told(ran.stdout, "Open transactions: none", "(no lag)")
    assert files_below(tier) == before


@pytest.mark.parametrize(
    ("sizes", "room", "expected"),
    [
        ([1, 1, 2], 11, [3, 3, 5]),
        ([0, 1000, 0], 10, [1, 8, 1]),
        ([1, 1, 2], 2, [0, 1, 1]),
        ([0], 5, [1]),
    ],
)
def test_blocks_are_as_wide_as_they_are_large(
    sizes: list[int], room: int, expected: list[int]
) -> None:
    assert _columns(sizes, room) == expected


@pytest.mark.parametrize("name", ["orders", "orders-1", "other-0"])
def test_an_unknown_partition_is_one_clear_error(tier: Path, name: str) -> None:
    ran = tierfold("plan", tier, *COMPACT, "--explain", name)
    assert (ran.code, ran.stdout, len(ran.stderr.splitlines())) == (2, "", 1)
    assert not told(ran.stderr, "--explain", f"no partition has the name {name!r}")


def test_a_name_used_again_asks_for_the_id(tier: Path) -> None:
    again = key_of("orders", incarnation=1)
    put_updates(tier, again, 0)
    ran = tierfold("plan", tier, *COMPACT, "--explain", "orders-0")
    ran.refuses(f"orders-0-{ORDERS.topic_id}", f"orders-0-{again.topic_id}")
    chosen = f"orders-0-{again.topic_id}"
    assert "1 segment," in tierfold("plan", tier, *COMPACT, "--explain", chosen).stdout


def test_resting_and_refused_partitions_say_why(tier: Path) -> None:
    assert "no policy" in tierfold("plan", tier, "--explain", "orders-0").stdout
    ran = tierfold("plan", tier, *COMPACT, "--explain", "orders-0", "--first-dirty", "99")
    assert ran.code == 3
    assert not told(ran.stdout, "│ddd", "refused, first dirty offset out of range", "left")
    next(tier.rglob("*.index")).unlink()
    lines = drawn(tier, 60)
    assert not told(" ".join(lines), "Decision: refused", "upload")
    gone = tierfold("plan", tier, *COMPACT, "--explain", "orders-0")
    assert gone.code == 3
    assert not told(gone.stdout, "refused, partial segment", "lacks .index")


def test_each_region_has_a_letter_and_a_colour_of_its_own() -> None:
    assert set(_DRAWN) == set(Region)
    letters, colours = zip(*_DRAWN.values(), strict=True)
    assert len(set(letters)) == len(set(colours)) == len(Region)
    # Upper case says that the segment is rewritten.
    assert all(letter.islower() for letter in letters)


def test_a_narrow_terminal_has_every_reason_below(tier: Path) -> None:
    lines = drawn(tier, 60, "min.compaction.lag.ms=1", "max.compaction.lag.ms=1000")
    assert max(map(len, lines)) <= 60
    assert any(line.startswith("3: ") for line in lines)
    assert any("first" in line for line in lines)


def test_many_segments_share_rows(tier: Path) -> None:
    for number in range(3, 45):
        put_updates(tier, ORDERS, number)
    lines = drawn(tier, 120)
    assert sum("45 segments rewritten" in line for line in lines) == 1
    assert len(lines) < 20
