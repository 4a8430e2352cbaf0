"""Remedies of lost and unfinished objects, carried out as the message says."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.jobs.commands import ALWAYS, CLOCK, Ran, status_of, tierfold
from tests.jobs.tiers import (
    folder_of,
    key_of,
    latest_updates,
    live_values,
    put_updates,
    updated_tier,
)

KEY = key_of("orders")
SEGMENTS = 2
A_DAY_LATER = (CLOCK, str(int((time.time() + 30 * 3600) * 1000)))


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "tier", [KEY], SEGMENTS)


def compacted(tier: Path, *options: str) -> Ran:
    return tierfold("compact", tier, *ALWAYS, "--json", *options)


def moved(paths: Sequence[Path], kept: Path) -> None:
    kept.mkdir()
    for path in paths:
        path.rename(kept / path.name)


def objects_of(log: Path) -> list[Path]:
    return sorted(log.parent.glob(f"{log.stem}.*"))


def is_sound(tier: Path, segments: int) -> None:
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(segments)
    assert tierfold("verify", tier, "--json").code == 0


@pytest.mark.parametrize("is_dead", [False, True])
def test_an_upload_ends_or_is_moved_out(tier: Path, tmp_path: Path, is_dead: bool) -> None:
    log = max(folder_of(tier, KEY).glob("*.log"))
    moved([log.with_suffix(".snapshot")], tmp_path / "later")
    refused = compacted(tier).ends(3, "refused", f"{log.stem[21:]} (start 11) lacks .snapshot")
    said = "Run again once the upload is complete. If an object was lost, bring it back from a"
    assert f"{said} backup. Only if the upload died, move its objects out" in refused["reason"]
    if is_dead:
        moved(objects_of(log), tmp_path / "kept")
    else:
        (tmp_path / "later" / f"{log.stem}.snapshot").rename(log.with_suffix(".snapshot"))
    compacted(tier).ends(0, "compacted")
    is_sound(tier, SEGMENTS - is_dead)


@pytest.mark.parametrize("is_uploaded_again", [False, True])
def test_a_missing_segment_is_brought_back_or_uploaded_again(
    tier: Path, tmp_path: Path, is_uploaded_again: bool
) -> None:
    compacted(tier).ends(0, "compacted")
    missing = put_updates(tier, KEY, SEGMENTS)
    moved(objects_of(missing), tmp_path / "copy")
    put_updates(tier, KEY, SEGMENTS + 1)
    compacted(tier).ends(0, "nothing_to_do")
    said = "Bring the missing segment back from a copy, or let the broker upload it again."
    compacted(tier, *A_DAY_LATER).ends(3, "refused", "offset 22 is missing", said)
    if is_uploaded_again:
        put_updates(tier, KEY, SEGMENTS)
    else:
        for path in (tmp_path / "copy").iterdir():
            path.rename(missing.parent / path.name)
    compacted(tier, *A_DAY_LATER).ends(0, "compacted")
    is_sound(tier, SEGMENTS + 2)


@pytest.mark.parametrize("has_backup", [False, True])
def test_lost_objects_are_brought_back_or_an_earlier_state_is_restored(
    tier: Path, tmp_path: Path, has_backup: bool
) -> None:
    compacted(tier).ends(0, "compacted")
    (live,) = status_of(tier)["orders", 0]["segments"]
    log = Path(live["log"])
    moved([log], tmp_path / "backup")
    reason = compacted(tier).ends(3, "refused", log.stem[21:], "Bring the objects back")["reason"]
    if has_backup:
        (tmp_path / "backup" / log.name).rename(log)
        compacted(tier).ends(0, "nothing_to_do")
    else:
        history = re.search(r"`tierfold (history \S+ \S+)` lists them", reason)
        assert history is not None
        now, earlier = tierfold(*history[1].split(), "--json").entries[0]["history"]
        assert now["committed_at_ms"] > earlier["committed_at_ms"]
        assert earlier["is_restorable"]
        to = str(earlier["committed_at_ms"])
        assert tierfold("restore", tier, "orders-0", "--to", to).code == 0
        compacted(tier).ends(0, "compacted")
    is_sound(tier, SEGMENTS)
