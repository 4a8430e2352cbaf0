"""A power cut may leave a file of the tier empty, truncated or missing; every verb must notice.

A tier is compacted, then vacuumed. Then each file of the partition is damaged in turn. No verb may
report a damaged file as sound, or overwrite it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.commands import ALWAYS, CLOCK, Ran, status_of, tierfold
from tests.jobs.tiers import files_below, folder_of, key_of, put_updates, updated_tier

NOW_MS: Final = 1_800_000_000_000
DAY_MS: Final = 86_400_000
ORDERS: Final = key_of("orders")
DETACHED: Final = ("--set", "tier.binding=detached")
NOW: Final = (CLOCK, str(NOW_MS))
LATER: Final = (CLOCK, str(NOW_MS + 3 * DAY_MS))
REFUSED: Final = 3


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The tier after a commit, and after a vacuum of the replaced segments."""
    committed = updated_tier(tmp_path_factory.mktemp("cut") / "committed", [ORDERS], 3)
    assert tierfold("compact", committed, *ALWAYS, *NOW).code == 0
    vacuumed = committed.with_name("vacuumed")
    shutil.copytree(committed, vacuumed)
    assert tierfold("vacuum", vacuumed, *DETACHED, *LATER).code == 0
    return {"committed": committed, "vacuumed": vacuumed}


def damaged(path: Path) -> Iterator[str]:
    """Damage the file in every way a power cut can, then restore it."""
    whole = path.read_bytes()
    if whole:
        path.write_bytes(b"")
        yield "empty"
        path.write_bytes(whole[: len(whole) // 2])
        yield "truncated"
    path.unlink()
    yield "missing"
    path.write_bytes(whole)


def live_stem(tier: Path) -> str:
    (segment,) = status_of(tier)["orders", 0]["segments"]
    return Path(segment["log"]).stem


def is_one_sentence(ran: Ran) -> bool:
    (entry,) = ran.entries
    reason = entry["reason"]
    return bool(reason) and "Traceback" not in ran.stderr and "bug" not in reason


def verified(tier: Path, files: list[Path], suffixes: set[str]) -> set[str]:
    """Empty these side files; return the suffixes that `verify` reports as corrupt."""
    for file in files:
        if file.suffix in suffixes:
            file.write_bytes(b"")
    ran = tierfold("verify", tier, "--json")
    assert ran.code == REFUSED
    (entry,) = ran.entries
    return {suffix for suffix in suffixes if any(suffix in text for text in entry["corruptions"])}


@pytest.mark.parametrize("state", ["committed", "vacuumed"])
def test_a_damaged_file_of_a_live_segment_is_refused_unless_it_is_not_read(
    states: dict[str, Path], state: str, tmp_path: Path
) -> None:
    tier = shutil.copytree(states[state], tmp_path / "tier")
    stem = live_stem(tier)
    files = sorted(folder_of(tier, ORDERS).glob(f"{stem}.*"))
    assert len(files) == 5
    codes = {}
    for file in files:
        for kind in damaged(file):
            before = files_below(tier)
            ran = tierfold("plan", tier, *ALWAYS, *NOW, "--json")
            assert files_below(tier) == before
            codes[file.suffix, kind] = ran.code
            assert ran.code == 0 or is_one_sentence(ran)
    # `plan` reads side files only when it needs them, and a rewrite builds new indexes.
    unread = {".timeindex", ".snapshot", ".leader_epoch_checkpoint"}
    passed = {(suffix, kind) for (suffix, kind), code in codes.items() if code != REFUSED}
    assert passed == {(suffix, kind) for suffix in unread for kind in ("empty", "truncated")}
    assert verified(tier, files, unread) == unread


def test_an_empty_snapshot_is_refused_when_it_is_needed(
    states: dict[str, Path], tmp_path: Path
) -> None:
    tier = shutil.copytree(states["vacuumed"], tmp_path / "tier")
    side_file = folder_of(tier, ORDERS) / f"{live_stem(tier)}.snapshot"
    side_file.write_bytes(b"")
    before = files_below(folder_of(tier, ORDERS))
    ran = tierfold("compact", tier, *ALWAYS, *LATER, "--first-dirty", "0", "--json")
    assert ran.code == REFUSED
    assert is_one_sentence(ran)
    assert side_file.name in ran.entries[0]["reason"]
    left = files_below(folder_of(tier, ORDERS))
    assert {name: left[name] for name in before} == before


def test_a_damaged_file_of_a_replaced_segment_stops_only_a_restore(
    states: dict[str, Path], tmp_path: Path
) -> None:
    tier = shutil.copytree(states["committed"], tmp_path / "tier")
    stem = live_stem(tier)
    logs = [path for path in folder_of(tier, ORDERS).glob("*.log") if path.stem != stem]
    replaced = [*logs[0].parent.glob(f"{logs[0].stem}.*")]
    assert (len(logs), len(replaced)) == (3, 5)
    (_, claimed) = tierfold("history", tier, "orders-0", "--json").entries[0]["history"]
    first = str(claimed["committed_at_ms"])
    for file in replaced:
        for kind in damaged(file):
            assert tierfold("plan", tier, *ALWAYS, *NOW).code == 0
            ran = tierfold("restore", tier, "orders-0", "--to", first, *NOW, "--json")
            assert ran.code == REFUSED, (file.name, kind)
            assert is_one_sentence(ran)


def test_a_new_segment_is_compacted_once_the_damage_is_repaired(
    states: dict[str, Path], tmp_path: Path
) -> None:
    tier = shutil.copytree(states["vacuumed"], tmp_path / "tier")
    log = folder_of(tier, ORDERS) / f"{live_stem(tier)}.log"
    whole = log.read_bytes()
    log.write_bytes(whole[:-1])
    put_updates(tier, ORDERS, 3)
    refused = tierfold("compact", tier, *ALWAYS, *LATER, "--json")
    assert refused.code == REFUSED
    log.write_bytes(whole)
    repaired = tierfold("compact", tier, *ALWAYS, *LATER, "--json")
    assert repaired.outcomes["orders", 0] == "compacted"
