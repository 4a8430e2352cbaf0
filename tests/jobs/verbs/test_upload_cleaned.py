"""`upload` says which local segments lie below the tier's cleaner offset, by leader epoch."""

from __future__ import annotations

from pathlib import Path

import tierfold
from tests.jobs.commands import tierfold as tierfold_command
from tests.jobs.log_dirs import WrittenLogDir
from tests.jobs.tiers import key_of
from tierfold.compaction.model.segments import CleanerOffset, LeaderEpoch
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

ORDERS = key_of("orders")
ELECTED = (LeaderEpoch(epoch=3, start_offset=0), LeaderEpoch(epoch=5, start_offset=20))
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


def test_it_says_which_local_segments_lie_below_the_tiers_cleaner_offset(
    tmp_path: Path
) -> None:
    (tier := tmp_path / "tier").mkdir()
    logs = WrittenLogDir(tmp_path / "data")
    logs.begin(ORDERS, ELECTED)
    for start in (0, 10, 20):
        logs.roll_ten(ORDERS, start)
    tierfold.upload(logs.path, tier)
    tierfold.compact(tier, settings=COMPACTED, engine="local")
    logs.roll_ten(ORDERS, 30)
    dry = tierfold_command("upload", logs.path, tier, "--dry-run", "--json").entry
    assert (dry["cleaner_offset"], dry["cleaner_leader_epoch"]) == (30, 5)
    assert [one["is_cleaned"] for one in dry["local_segments"]] == [True] * 3 + [False]
    result = tierfold.upload(logs.path, tier)
    assert "3 local segments below the tier's cleaner offset" in str(result)
    row = Catalog(str(tier / CATALOG_FOLDER)).read()[ORDERS]
    vectors = [one.leader_cleaner_offsets for one in row.segments]
    assert vectors == [(CleanerOffset(epoch=5, offset=30),)] * 2
    # The log of a leader that was deposed before says nothing of epoch 5.
    old = WrittenLogDir(tmp_path / "old")
    old.begin(ORDERS, ELECTED[:1])
    old.roll_ten(ORDERS, 0)
    (found,) = tierfold.upload(old.path, tier).partitions
    assert found.facts is not None
    assert (found.facts.cleaner_offset, found.facts.cleaned) == (None, ())
