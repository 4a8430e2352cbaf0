"""The verbs handle uploads of two leaders that share offsets (SEMANTICS 1, "Overlaps").

    one leader    0 ────────── 10
    the next            8 ──[11 ──── 15]  16 ──── 23
"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.claims import row_of
from tests.jobs.commands import ALWAYS, CLOCK, Ran, status_of, tierfold, told
from tests.jobs.leaders import adopted, cleaned, upload
from tests.jobs.tiers import files_below, folder_of, made_tier
from tests.jobs.vacuum_tiers import HOUR_MS, ORDERS, THEN_MS, ids_in, vacuum
from tierfold.storage.tiers.remote_tier import Part

EPOCHS = ((3, 0), (4, 11))


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return made_tier(tmp_path / "tier")


def plan(tier: Path, *, hours: float = 72) -> Ran:
    now_ms = THEN_MS + int(hours * HOUR_MS)
    return tierfold("plan", tier, *ALWAYS, "--json", CLOCK, str(now_ms))


def spans(entry: dict[str, Any]) -> list[str]:
    """The effective ranges that `status` shows."""
    return [f"{segment['start_offset']}-{segment['end_offset']}" for segment in entry["segments"]]


CASES = {
    "chained": ([(0, 10), (8, 15), (16, 23)], ["0-10", "11-15", "16-23"]),
    "each over the one before": ([(0, 10), (8, 15), (12, 23)], ["0-10", "11-15", "16-23"]),
    "nested": ([(0, 10), (8, 23), (12, 15)], ["0-10", "11-23"]),
    "the same start": ([(0, 10), (0, 23)], ["0-23"]),
    "the same range": ([(0, 10), (0, 10), (11, 23)], ["0-10", "11-23"]),
}


@pytest.mark.parametrize("case", CASES)
def test_without_a_row_matching_uploads_are_taken_in_any_order_of_arrival(
    tmp_path: Path, case: str
) -> None:
    uploads, expected = CASES[case]
    for number, arrived in enumerate(permutations(uploads)):
        tier = made_tier(tmp_path / f"tier{number}")
        for first, last in arrived:
            upload(tier, first, last, *EPOCHS)
        ran = plan(tier)
        ran.ends(0, "planned")
        assert ran.entry["next_offset"] == 24
        assert spans(status_of(tier)["orders", 0]) == expected


@pytest.mark.parametrize(
    ("case", "beside"),
    [
        ("chained", ["0-10", "11-15", "16-23"]),
        ("each over the one before", ["0-10", "11-15", "16-23"]),
        ("nested", ["0-10", "11-23"]),
        ("the same start", ["0-10", "11-23"]),
        ("the same range", ["0-10", "11-23"]),
    ],
)
@pytest.mark.parametrize("is_clean", [False, True])
def test_beside_a_row_they_are_taken_from_an_effective_start_on(
    tier: Path, case: str, beside: list[str], is_clean: bool
) -> None:
    upload(tier, *CASES[case][0][0], *EPOCHS)
    adopted(tier)
    if is_clean:
        cleaned(tier)
    for first, last in reversed(CASES[case][0][1:]):
        upload(tier, first, last, *EPOCHS)
    plan(tier).ends(0, "planned")
    assert spans(status_of(tier)["orders", 0]) == beside
    # A claim names them so, and what they supersede is an orphan from then on.
    adopted(tier, run="later")
    live = {segment.segment_id for segment in row_of(tier).segments}
    assert [
        f"{segment.start_offset}-{segment.end_offset}" for segment in row_of(tier).segments
    ] == beside
    cut = [segment for segment in row_of(tier).segments if segment.skipped_offsets]
    assert all(segment.agrees_with and segment.skipped_bytes for segment in cut)
    entry = vacuum(tier, hours=72).entry
    assert {listed["segment_id"] for listed in entry["objects"]}.isdisjoint(live)
    assert ids_in(tier) == live
    assert plan(tier).code == 0


def test_an_effective_start_is_never_computed_again(tier: Path) -> None:
    upload(tier, 0, 10, *EPOCHS)
    upload(tier, 8, 15, *EPOCHS)
    adopted(tier)
    before = row_of(tier).segments
    # Had it come earlier, it would have been taken in the place of both.
    upload(tier, 0, 13, *EPOCHS)
    adopted(tier, run="later")
    assert row_of(tier).segments == before


def test_one_that_is_cut_short_is_taken_once_its_upload_is_complete(tier: Path) -> None:
    upload(tier, 0, 10, *EPOCHS)
    adopted(tier)
    cleaned(tier)
    cut_short = upload(tier, 8, 15, *EPOCHS, lacking=["index"])
    upload(tier, 16, 23, *EPOCHS)
    assert spans(status_of(tier)["orders", 0]) == ["0-10"]
    assert plan(tier).code == 3
    again = upload(tier, 8, 15, *EPOCHS)
    assert plan(tier).outcomes["orders", 0] == "planned"
    adopted(tier, run="later")
    assert again in ids_in(tier)
    vacuum(tier, hours=72)
    assert cut_short not in ids_in(tier)


def compacted_copy(tier: Path) -> tuple[str, str]:
    """An original, and its replacement; the ids of both."""
    original = upload(tier, 0, 10, *EPOCHS)
    return original, upload(tier, 0, 10, *EPOCHS, offsets=[8, 9, 10])


def test_a_compacted_copy_beside_its_originals_without_a_catalog_is_refused(tier: Path) -> None:
    both = compacted_copy(tier)
    upload(tier, 11, 15, *EPOCHS)
    before = files_below(tier)
    for ran in (plan(tier), tierfold("compact", tier, *ALWAYS, "--json")):
        ran.ends(3, "refused", *both, "share offsets 0 to 10", "_tierfold", "--catalog")
    status = tierfold("status", tier, "--json", "--segments")
    assert (status.code, status.entry["segments"]) == (3, [])
    assert vacuum(tier, hours=72).code == 3
    assert files_below(tier) == before


def test_an_upload_that_disagrees_with_a_live_one_refuses_the_partition(tier: Path) -> None:
    live = upload(tier, 0, 10, *EPOCHS)
    adopted(tier)
    other = upload(tier, 8, 15, *EPOCHS, value=b"w")
    upload(tier, 0, 4, *EPOCHS, lacking=["index"])  # An orphan, were it not for the refusal.
    before = files_below(tier)
    ran = plan(tier)
    assert ran.code == 3
    reason = ran.entry["reason"]
    assert not told(reason, live, other, "share offsets 8 to 10", "tierfold dump")
    assert vacuum(tier, hours=72).code == 3
    assert files_below(tier) == before


def test_an_overlap_whose_bytes_are_damaged_is_not_adopted(tier: Path) -> None:
    upload(tier, 0, 10, *EPOCHS)
    adopted(tier)
    bad = upload(tier, 8, 15, *EPOCHS)
    (log,) = folder_of(tier, ORDERS).glob(f"*-{bad}.{Part.LOG.value}")
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    ran = plan(tier)
    assert ran.code == 3
    assert not told(ran.entry["reason"], bad, "CRC")
