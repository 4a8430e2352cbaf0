"""`tierfold upload`, killed by SIGKILL before each of its changes of the tier in turn."""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.faults.kills.change_killer import killed_before
from tests.jobs.commands import CLOCK, tierfold
from tests.jobs.log_dirs import WrittenLogDir
from tests.jobs.tiers import files_below, key_of
from tierfold.compaction.model.segment_ids import is_uploaded_id
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.clock import now_ms
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER
from tierfold.storage.tiers.tier_uris import open_tier

ORDERS: Final = key_of("orders")
DAY_MS: Final = 86_400_000
CHANGES_LEAST: Final = 50
"""Two segments of five objects each, and three commits, are more changes than that."""


def live(tier: Path) -> dict[str, int]:
    """Return the last offset of each live segment by id; all must be whole."""
    catalog = Catalog(str(tier / CATALOG_FOLDER))
    row = catalog.read().get(ORDERS) if catalog.exists() else None
    segments = () if row is None else row.segments
    found = {one.segment_id: one.end_offset for one in segments}
    assert found.keys() <= whole(tier)
    return found


def whole(tier: Path) -> set[str]:
    """Return the ids of the complete segments in the tier, which may have just been begun."""
    if not any(tier.rglob("*.log")):
        return set()
    return {one.segment_id for one in open_tier(str(tier)).listing(ORDERS) if one.is_complete}


def must_recover(words: tuple[str | Path, ...], tier: Path, ends: list[int]) -> None:
    """Assert that the next run completes the upload, and that `vacuum` deletes what is left."""
    uploaded = whole(tier)
    ran = tierfold(*words, "--json")
    assert ran.code == 0, ran
    assert list(live(tier).values()) == ends
    # What was whole was adopted as it was.
    assert uploaded <= live(tier).keys()
    assert all(map(is_uploaded_id, live(tier)))
    assert tierfold("verify", tier).code == 0
    assert tierfold(*words, "--json").outcomes == {("orders", 0): "nothing_to_do"}
    later = (CLOCK, str(now_ms() + 30 * DAY_MS), "--orphan-age", "0s")
    assert tierfold("vacuum", tier, "--set", "tier.binding=detached", *later).code == 0
    objects = [name for name in files_below(tier) if not name.startswith(CATALOG_FOLDER)]
    assert len(objects) > len(live(tier))
    for name in objects:
        assert any(segment_id in name for segment_id in live(tier)), name


@pytest.mark.soak
@pytest.mark.parametrize(
    ("layout", "before"), [("local", 0), ("local", 1), ("aiven", 0)], ids=str
)
def test_an_upload_that_is_killed_before_any_change_is_completed_by_the_next(
    tmp_path: Path, layout: str, before: int
) -> None:
    ends = [9, 19, 29][: before + 2]
    for change in count(1):
        (tier := tmp_path / str(change) / "tier").mkdir(parents=True)
        logs = WrittenLogDir(tier.parent / "data").filled(ORDERS, before)
        # A person who has killed a run knows that it is dead.
        words = ("upload", logs.path, tier, "--layout", layout, "--if-held", "take-over")
        if before:
            assert tierfold(*words).code == 0
        for number in range(before, before + 2):
            logs.roll_ten(ORDERS, 10 * number)
        seen = files_below(logs.path)
        code = killed_before(change, tier, words)
        assert files_below(logs.path) == seen
        if code == 0:
            break
        assert code == -signal.SIGKILL, (tier.parent / "run").read_text()
        assert list(live(tier).values()) in (ends[:before], ends)
        must_recover(words, tier, ends)
    assert change > CHANGES_LEAST
