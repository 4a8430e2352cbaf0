"""`local-retention`: which segments of a log directory may go; it only reports."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import pytest

import tierfold
from tests.jobs.commands import ALWAYS
from tests.jobs.commands import tierfold as command
from tests.jobs.log_dirs import WrittenLogDir, seen
from tests.jobs.tiers import key_of
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.compaction.uploading.local_retention import LocalRetentionReason

ORDERS, OTHERS = key_of("orders"), key_of("others")
ELECTED: Final = (LeaderEpoch(epoch=3, start_offset=0), LeaderEpoch(epoch=5, start_offset=20))


@pytest.fixture
def logs(tmp_path: Path) -> WrittenLogDir:
    """Five segments: three are compacted in the tier, the fourth is only uploaded."""
    return WrittenLogDir(tmp_path / "data").filled(ORDERS, 3)


@pytest.fixture
def tier(logs: WrittenLogDir, tmp_path: Path) -> Path:
    (folder := tmp_path / "tier").mkdir()
    assert tierfold.upload(logs.path, folder).outcome == "uploaded"
    assert command("compact", folder, *ALWAYS).code == 0
    logs.roll_ten(ORDERS, 30)
    assert tierfold.upload(logs.path, folder).outcome == "uploaded"
    logs.roll_ten(ORDERS, 40)
    return folder


def decisions(entry: dict[str, Any]) -> list[str]:
    return [one["decision"] for one in entry["local_segments"]]


def test_on_the_command_line_nothing_of_either_place_changes(
    logs: WrittenLogDir, tier: Path
) -> None:
    words = ("local-retention", logs.path, tier)
    before = seen(logs.path), seen(tier)
    ran = command(*words, *ALWAYS, "--json")
    assert (ran.code, ran.document["outcome"], ran.document["run"]) == (0, "ok", None)
    assert decisions(ran.entry) == [
        *[LocalRetentionReason.OLD] * 3,
        LocalRetentionReason.NOT_COMPACTED,
        LocalRetentionReason.BEHIND_ANOTHER,
    ]
    sizes = [logs.file(ORDERS, start, "log").stat().st_size for start in range(0, 50, 10)]
    counted = ("rolled_segments", "rolled_bytes", "deletable_segments", "deletable_bytes")
    assert [ran.entry[name] for name in counted] == [5, sum(sizes), 3, sum(sizes[:3])]
    assert (ran.entry["tier_next_offset"], ran.entry["cleaner_offset"]) == (40, 30)
    assert ran.entry["reason"] == "from offset 30 on, it is not compacted yet"
    both = command(*words, "--set", "cleanup.policy=compact,delete", "--json").entry
    assert decisions(both) == [*[LocalRetentionReason.OLD] * 4, LocalRetentionReason.NOT_IN_TIER]
    other = "local.retention.compacted.only=false"
    assert decisions(command(*words, *ALWAYS, "--set", other, "--json").entry) == decisions(both)
    kept = command(*words, *ALWAYS, "--set", "local.retention.ms=-1", "--set", "retention.ms=-1")
    assert "1 partition: ok. 0 segments may go" in kept.stdout
    assert "1 segment stays: local retention keeps it" in kept.stdout
    assert command(*words, "--sort", "frees", "-o", "csv").code == 0
    assert (seen(logs.path), seen(tier)) == before


def test_a_partition_that_the_tier_does_not_have_stays(logs: WrittenLogDir, tier: Path) -> None:
    logs.filled(OTHERS, 1)
    found = command("local-retention", logs.path, tier, "--topic", "others", "--json").partitions
    assert decisions(found["others", 0]) == [LocalRetentionReason.NOT_IN_TIER]
    assert found["others", 0]["tier_next_offset"] == 0


def test_what_lies_below_the_tiers_start_and_has_not_expired_stays(
    logs: WrittenLogDir, tmp_path: Path
) -> None:
    """Another replica began the tier, whose log begins later; or a wrong retention did."""
    kept = {"cleanup.policy": "compact,delete", "retention.ms": "-1"}
    later = WrittenLogDir(tmp_path / "later").filled(ORDERS, 1, start=20)
    (begun := tmp_path / "begun").mkdir()
    assert tierfold.upload(later.path, begun, settings=kept).outcome == "uploaded"
    found = tierfold.local_retention(logs.path, begun, settings={**kept, "local.retention.ms": "0"})
    assert [one.deletable for one in found.partitions] == [()]
    assert found.partitions[0].reason == "from offset 0 on, it is not in the tier"


def test_a_segment_that_the_tier_lost_with_its_catalog_stays(
    logs: WrittenLogDir, tmp_path: Path
) -> None:
    """The gap counts as a hole, as between two uploads."""
    (lost := tmp_path / "lost").mkdir()
    assert tierfold.upload(logs.path, lost).outcome == "uploaded"
    shutil.rmtree(lost / "_tierfold")
    for file in [*lost.rglob(f"{10:020d}-*")]:
        file.unlink()
    (found,) = tierfold.local_retention(logs.path, lost).partitions
    assert found.reason == "from offset 10 on, it is not in the tier"


def test_a_log_of_another_history_is_refused(
    logs: WrittenLogDir, tier: Path, tmp_path: Path
) -> None:
    newer = WrittenLogDir(tmp_path / "newer")
    newer.begin(ORDERS, ELECTED)
    newer.roll_ten(ORDERS, 0)
    ran = command("local-retention", newer.path, tier, "--json")
    assert (ran.code, ran.entry["local_segments"]) == (3, [])
    assert [one["code"] for one in ran.entry["refusals"]] == ["lineage_diverged"]
    assert "refused, see below" in command("local-retention", newer.path, tier).stdout


def test_a_log_of_which_nothing_says_who_led_it_is_refused(
    logs: WrittenLogDir, tier: Path
) -> None:
    (logs.folder(ORDERS) / "leader-epoch-checkpoint").write_text("0\n0\n")
    ran = command("local-retention", logs.path, tier, "--json")
    assert (ran.code, [one["code"] for one in ran.entry["refusals"]]) == (3, ["lineage_unclear"])
    assert command("upload", logs.path, tier, "--dry-run").code == 3


def test_wrong_settings_are_refused_and_what_is_no_log_directory_is_an_error(
    logs: WrittenLogDir, tier: Path
) -> None:
    (found,) = tierfold.local_retention(
        logs.path, tier, settings={"local.retention.ms": "2", "retention.ms": "1"}
    ).partitions
    assert "is above retention.ms = 1 (--set retention.ms)" in found.reason
    with pytest.raises(BadSettings, match="no log directory of a broker"):
        tierfold.local_retention(tier, tier)
