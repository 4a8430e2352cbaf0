"""`upload`: a broker's log directory becomes a tier, and nothing of the directory changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tierfold
from tests.jobs.commands import tierfold as tierfold_command
from tests.jobs.log_dirs import WrittenLogDir, seen
from tests.jobs.tiers import flip_last_byte, key_of, made_tier, put_updates
from tests.storage.live_segments import data
from tierfold.compaction.model.errors import BadSettings, CorruptLog
from tierfold.compaction.model.segment_ids import is_uploaded_id
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.compaction.uploading.copy_lag import UploadReason
from tierfold.jobs.reports.upload_report import UploadResult
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.log_dirs.offset_checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
)
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER, Part, address_of
from tierfold.storage.tiers.tier_uris import open_tier

ORDERS = key_of("orders")
OTHERS = key_of("others")
ELECTED = (LeaderEpoch(epoch=3, start_offset=0), LeaderEpoch(epoch=5, start_offset=20))
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


@pytest.fixture
def logs(tmp_path: Path) -> WrittenLogDir:
    return WrittenLogDir(tmp_path / "data").filled(ORDERS, 3)


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    (folder := tmp_path / "tier").mkdir()
    return folder


def outcome(result: UploadResult) -> tuple[str, int]:
    (partition,) = result.partitions
    return partition.outcome, partition.report.segments_out


def live(tier: Path) -> list[tuple[int, int]]:
    row = Catalog(str(tier / CATALOG_FOLDER)).read()[ORDERS]
    assert all(is_uploaded_id(one.segment_id) for one in row.segments)
    return [(one.start_offset, one.end_offset) for one in row.segments]


@pytest.mark.parametrize("layout", ["local", "aiven"])
def test_every_file_is_in_the_tier_as_it_is(
    logs: WrittenLogDir, tier: Path, layout: str
) -> None:
    result = tierfold.upload(logs.path, tier, layout=layout)
    assert outcome(result) == ("uploaded", 3)
    assert live(tier) == [(0, 9), (10, 19), (20, 29)]
    opened = open_tier(str(tier))
    for listed in opened.listing(ORDERS):
        address = address_of(ORDERS, listed)
        for part, suffix in {
            Part.LOG: "log",
            Part.OFFSET_INDEX: "index",
            Part.TIME_INDEX: "timeindex",
        }.items():
            file = logs.file(ORDERS, listed.start_offset, suffix)
            assert opened.read_part(address, part).tobytes() == file.read_bytes()
        snapshot = logs.file(ORDERS, listed.start_offset + 10, "snapshot").read_bytes()
        assert opened.read_part(address, Part.SNAPSHOT).tobytes() == snapshot
        epochs = opened.read_part(address, Part.LEADER_EPOCH_CHECKPOINT).tobytes()
        assert epochs == (logs.folder(ORDERS) / "leader-epoch-checkpoint").read_bytes()


def test_the_same_bytes_are_uploaded_once(logs: WrittenLogDir, tier: Path) -> None:
    tierfold.upload(logs.path, tier)
    again = tierfold.upload(logs.path, tier)
    assert outcome(again) == ("nothing_to_do", 0)
    assert again.partitions[0].reason == "the tier has all rolled segments"
    # Without its catalog, too: the ids come from the bytes and the catalog's fingerprint.
    logs.roll_ten(ORDERS, 30)
    assert outcome(tierfold.upload(logs.path, tier)) == ("uploaded", 1)
    assert live(tier) == [(0, 9), (10, 19), (20, 29), (30, 39)]


def test_nothing_of_the_directory_changes(logs: WrittenLogDir, tier: Path) -> None:
    before = seen(logs.path)
    tierfold.upload(logs.path, tier)
    assert seen(logs.path) == before


def test_a_dry_run_changes_nothing(logs: WrittenLogDir, tier: Path) -> None:
    result = tierfold.upload(logs.path, tier, dry_run=True)
    assert outcome(result) == ("planned", 3)
    assert "3 segments to upload: no copy lag is set" in str(result)
    assert list(tier.iterdir()) == []


def test_a_table_of_the_settings_file_may_name_a_topic_that_no_tier_has_yet(
    logs: WrittenLogDir, tier: Path
) -> None:
    config = tier.parent / "tierfold.toml"
    config.write_text('[topics.orders]\n"cleanup.policy" = "compact"\n')
    planned = tierfold.upload(logs.path, tier, config=config, dry_run=True)
    assert (outcome(planned), planned.warnings) == (("planned", 3), ())
    result = tierfold.upload(logs.path, tier, config=config)
    assert (outcome(result), result.warnings) == (("uploaded", 3), ())


def test_it_is_compacted_and_read_like_any_tier(logs: WrittenLogDir, tier: Path) -> None:
    tierfold.upload(logs.path, tier)
    compacted = tierfold.compact(tier, settings=COMPACTED, engine="local")
    assert compacted.partitions[0].outcome == "compacted"
    assert compacted.partitions[0].counts.kept == 10
    logs.roll_ten(ORDERS, 30)
    assert outcome(tierfold.upload(logs.path, tier)) == ("uploaded", 1)
    assert tierfold.verify(tier, engine="local").partitions[0].outcome == "sound"


def test_where_the_brokers_cleaner_removed_the_last_records_there_is_no_gap(
    tmp_path: Path, tier: Path
) -> None:
    logs = WrittenLogDir(tmp_path / "data")
    logs.begin(ORDERS)
    logs.roll(ORDERS, [data(0, (b"a", b"1"))], 9)
    logs.roll(ORDERS, [data(12, (b"b", b"2"))], 19)
    assert outcome(tierfold.upload(logs.path, tier)) == ("uploaded", 2)
    assert live(tier) == [(0, 9), (10, 19)]


def test_a_log_may_begin_anywhere(tmp_path: Path, tier: Path) -> None:
    logs = WrittenLogDir(tmp_path / "data").filled(ORDERS, 2, start=500)
    assert outcome(tierfold.upload(logs.path, tier)) == ("uploaded", 2)
    assert live(tier) == [(500, 509), (510, 519)]


def test_what_waits_is_uploaded_later(logs: WrittenLogDir, tier: Path) -> None:
    logs.note(HIGH_WATERMARKS, {ORDERS: 20})
    assert outcome(tierfold.upload(logs.path, tier)) == ("uploaded", 2)
    again = tierfold.upload(logs.path, tier)
    assert outcome(again) == ("nothing_to_do", 0)
    assert again.partitions[0].reason.startswith("from offset 20 on, a transaction is open")
    logs.note(HIGH_WATERMARKS)
    assert outcome(tierfold.upload(logs.path, tier)) == ("uploaded", 1)
    assert live(tier) == [(0, 9), (10, 19), (20, 29)]


def test_without_checkpoints_nothing_is_known_to_be_safe(
    logs: WrittenLogDir, tier: Path
) -> None:
    (logs.path / RECOVERY_POINTS).unlink()
    assert outcome(tierfold.upload(logs.path, tier)) == ("nothing_to_do", 0)


def test_a_damaged_batch_stops_its_partition_alone(logs: WrittenLogDir, tier: Path) -> None:
    logs.filled(OTHERS, 2)
    flip_last_byte(logs.file(ORDERS, 10, "log"))
    result = tierfold.upload(logs.path, tier)
    orders, others = result.partitions
    assert (orders.outcome, others.outcome) == ("failed", "uploaded")
    assert "bad CRC" in orders.reason
    assert "Another replica" not in orders.reason or "upload its log" in orders.reason
    # What lies below is sound, and its upload is not repeated.
    assert live(tier) == [(0, 9)]


@pytest.mark.parametrize("suffix", ["index", "timeindex", "snapshot"])
def test_a_damaged_file_beside_a_log_is_not_uploaded(
    logs: WrittenLogDir, tier: Path, suffix: str
) -> None:
    start = 20 if suffix == "snapshot" else 10
    file = logs.file(ORDERS, start, suffix)
    file.write_bytes(file.read_bytes() + b"\x01")
    (found,) = tierfold.upload(logs.path, tier).partitions
    assert found.outcome == "failed"
    assert "Another replica has the same records" in found.reason
    assert live(tier) == [(0, 9)]
    replica = WrittenLogDir(tier.parent / "replica").filled(ORDERS, 3)
    assert outcome(tierfold.upload(replica.path, tier)) == ("uploaded", 2)
    assert live(tier) == [(0, 9), (10, 19), (20, 29)]


def test_an_unfinished_upload_is_begun_again_under_another_id(
    logs: WrittenLogDir, tier: Path
) -> None:
    tierfold.upload(logs.path, tier)
    shutil.copytree(tier / CATALOG_FOLDER, before := tier.parent / "catalog before")
    logs.roll_ten(ORDERS, 30)
    tierfold.upload(logs.path, tier)
    opened = open_tier(str(tier))
    newest = opened.listing(ORDERS)[-1]
    # As if the run had died before its last object, and so before its second claim.
    Path(opened.uri(address_of(ORDERS, newest), Part.LEADER_EPOCH_CHECKPOINT)).unlink()
    shutil.rmtree(tier / CATALOG_FOLDER)
    before.rename(tier / CATALOG_FOLDER)
    assert outcome(tierfold.upload(logs.path, tier)) == ("uploaded", 1)
    assert live(tier) == [(0, 9), (10, 19), (20, 29), (30, 39)]
    row = Catalog(str(tier / CATALOG_FOLDER)).read()[ORDERS]
    assert row.segments[-1].segment_id != newest.segment_id
    gone = tierfold.vacuum(tier, orphan_age_ms=0, settings={"tier.binding": "detached"})
    assert gone.partitions[0].objects == 4


def test_the_log_of_a_leader_that_was_deposed_is_refused(
    logs: WrittenLogDir, tier: Path, tmp_path: Path
) -> None:
    newer = WrittenLogDir(tmp_path / "newer")
    newer.begin(ORDERS, ELECTED)
    for start in (0, 10, 20):
        newer.roll_ten(ORDERS, start)
    assert outcome(tierfold.upload(newer.path, tier)) == ("uploaded", 3)
    logs.roll_ten(ORDERS, 30)
    (found,) = tierfold.upload(logs.path, tier).partitions
    assert found.outcome == "refused"
    assert [part.code for part in found.refusals] == ["lineage_diverged"]
    assert "no longer leads the partition" in found.reason
    newer.roll_ten(ORDERS, 30)
    assert outcome(tierfold.upload(newer.path, tier)) == ("uploaded", 1)


def test_a_log_that_lacks_what_the_tier_has_is_refused(
    logs: WrittenLogDir, tier: Path, tmp_path: Path
) -> None:
    tierfold.upload(logs.path, tier)
    newer = WrittenLogDir(tmp_path / "newer")
    newer.begin(ORDERS, ELECTED)
    (found,) = tierfold.upload(newer.path, tier).partitions
    assert found.outcome == "refused"
    assert "An unclean leader election cut off records" in found.reason
    assert live(tier) == [(0, 9), (10, 19), (20, 29)]
    newer.roll_ten(ORDERS, 0)
    (another := tmp_path / "another").mkdir()
    assert outcome(tierfold.upload(newer.path, another)) == ("uploaded", 1)


def test_records_that_were_deleted_before_their_upload_are_a_gap(
    logs: WrittenLogDir, tier: Path, tmp_path: Path
) -> None:
    tierfold.upload(logs.path, tier)
    later = WrittenLogDir(tmp_path / "later").filled(ORDERS, 2, start=40)
    (found,) = tierfold.upload(later.path, tier).partitions
    assert [part.code for part in found.refusals] == ["gap"]
    assert "the tier ends at offset 29, the log directory begins at 40" in found.reason
    for start in (30, 40):
        logs.roll_ten(ORDERS, start)
    assert outcome(tierfold.upload(logs.path, tier)) == ("uploaded", 2)
    assert outcome(tierfold.upload(later.path, tier)) == ("uploaded", 1)
    assert live(tier)[-2:] == [(40, 49), (50, 59)]


def test_a_topic_that_its_brokers_tier_is_refused(
    logs: WrittenLogDir, tier: Path, tmp_path: Path
) -> None:
    put_updates(made_tier(tmp_path / "theirs"), ORDERS, 0)
    (found,) = tierfold.upload(logs.path, tmp_path / "theirs").partitions
    assert [part.code for part in found.refusals] == ["tiered"]
    logs.note(LOG_STARTS, {ORDERS: 0})
    logs.filled(OTHERS, 1)
    found = tierfold.upload(logs.path, tier).partitions[0]
    assert [part.code for part in found.refusals] == ["tiered"]
    assert outcome(tierfold.upload(logs.path, tier, topics=["others"])) == ("nothing_to_do", 0)


def test_a_rolled_segment_waits_for_its_copy_lag(logs: WrittenLogDir, tier: Path) -> None:
    lag = {"local.retention.ms": "1000", "remote.copy.lag.ms": "1000"}
    now_ms = 1_700_000_000_000 + 1019
    result = tierfold.upload(logs.path, tier, settings=lag, now_ms=now_ms, clock_is_right=True)
    assert outcome(result) == ("uploaded", 2)
    wrong = {**lag, "remote.copy.lag.ms": "1001"}
    (found,) = tierfold.upload(logs.path, tier, settings=wrong).partitions
    assert "remote.copy.lag.ms = 1001 (--set remote.copy.lag.ms) is above" in found.reason
    assert [part.code for part in found.refusals] == ["bad_settings"]
    raised = {**wrong, "local.retention.ms": "1001"}
    assert outcome(tierfold.upload(logs.path, tier, settings=raised)) == ("uploaded", 1)


def test_the_log_start_of_an_empty_row_moves_behind_what_would_expire_at_once(
    tmp_path: Path, tier: Path
) -> None:
    logs = WrittenLogDir(tmp_path / "data").filled(ORDERS, 2)
    deletes = {"cleanup.policy": "delete", "retention.ms": "1000", "remote.copy.lag.ms": "-1"}

    def expiring(*, dry_run: bool = False) -> UploadResult:
        return tierfold.upload(logs.path, tier, settings=deletes, dry_run=dry_run)

    def starts_at() -> int:
        return Catalog(str(tier / CATALOG_FOLDER)).read()[ORDERS].log_start_offset

    # Without a row there is nothing to move.
    assert outcome(expiring()) == ("nothing_to_do", 0)
    tierfold.upload(logs.path, tier)
    tierfold.vacuum(tier, settings={**deletes, "tier.binding": "detached"})
    assert (live(tier), starts_at()) == ([], 20)
    logs.roll_ten(ORDERS, 20)
    planned = expiring(dry_run=True)
    assert (outcome(planned), starts_at()) == (("planned", 0), 20)
    assert "the log begins at offset 30 from now on" in str(planned)
    assert outcome(expiring()) == ("uploaded", 0)
    assert (live(tier), starts_at()) == ([], 30)
    assert outcome(expiring()) == ("nothing_to_do", 0)
    logs.roll_ten(ORDERS, 30)
    assert outcome(tierfold.upload(logs.path, tier)) == ("uploaded", 1)
    assert (live(tier), starts_at()) == ([(30, 39)], 30)


def test_a_segment_that_begins_below_the_log_start_does_not_move_it_back(
    logs: WrittenLogDir, tier: Path, tmp_path: Path
) -> None:
    tierfold.upload(logs.path, tier)
    deletes = {"cleanup.policy": "delete", "retention.ms": "1000", "tier.binding": "detached"}
    tierfold.vacuum(tier, settings=deletes)
    merged = WrittenLogDir(tmp_path / "merged")  # As a broker's cleaner does it.
    merged.begin(ORDERS)
    merged.roll(ORDERS, [data(3, (b"a", b"1")), data(32, (b"b", b"2"))], 39)
    assert outcome(tierfold.upload(merged.path, tier)) == ("uploaded", 1)
    (row,) = tierfold.status(tier).to_dict()["partitions"]
    assert (row["log_start_offset"], row["next_offset"]) == (30, 40)
    compacted = tierfold.compact(tier, settings=COMPACTED, engine="local")
    assert compacted.partitions[0].outcome == "compacted"
    assert tierfold.verify(tier, engine="local").outcome == "sound"


@pytest.mark.parametrize("name", ["partition.metadata", "leader-epoch-checkpoint"])
def test_a_damaged_file_of_a_partition_is_copied_again(
    logs: WrittenLogDir, tier: Path, name: str
) -> None:
    file = logs.folder(ORDERS) / name
    before = file.read_bytes()
    file.write_bytes(b"damaged")
    logs.filled(OTHERS, 1)
    orders, others = tierfold.upload(logs.path, tier).partitions
    assert (orders.outcome, others.outcome) == ("refused", "uploaded")
    assert [part.code for part in orders.refusals] == ["corrupt"]
    file.write_bytes(before)
    assert outcome(tierfold.upload(logs.path, tier, topics=["orders"])) == ("uploaded", 3)


def test_a_damaged_checkpoint_of_the_directory_is_written_again(
    logs: WrittenLogDir, tier: Path
) -> None:
    (logs.path / HIGH_WATERMARKS).write_text("0\n2\norders 0 30\n")
    with pytest.raises(CorruptLog, match="Its broker writes it again every minute"):
        tierfold.upload(logs.path, tier)
    logs.note(HIGH_WATERMARKS)
    assert outcome(tierfold.upload(logs.path, tier)) == ("uploaded", 3)


def test_a_folder_without_a_segment_is_copied_again(logs: WrittenLogDir, tier: Path) -> None:
    logs.begin(OTHERS)
    logs.file(OTHERS, 0, "log").unlink()
    orders, others = tierfold.upload(logs.path, tier).partitions
    assert (orders.outcome, others.outcome) == ("uploaded", "refused")
    logs.file(OTHERS, 0, "log").touch()
    assert tierfold.upload(logs.path, tier).outcome == "nothing_to_do"


def test_on_the_command_line(logs: WrittenLogDir, tier: Path) -> None:
    logs.filled(OTHERS, 1).note(HIGH_WATERMARKS, {ORDERS: 30, OTHERS: 0})
    words = ("upload", logs.path, tier, "--partition", "0")
    dry = tierfold_command(*words, "--dry-run", "--json")
    assert dry.code == 0
    orders, others = dry.document["partitions"]
    assert [one["is_upload"] for one in orders["local_segments"]] == [True] * 3
    assert [one["decision"] for one in others["local_segments"]] == [UploadReason.UNSTABLE]
    ran = tierfold_command(*words, "-o", "csv")
    assert f"orders,0,{ORDERS.topic_id},uploaded,3,3," in ran.stdout
    flip_last_byte(logs.file(OTHERS, 0, "log"))
    logs.note(HIGH_WATERMARKS)
    assert tierfold_command(*words, "--json").code == 3
    assert "not uploaded: the tier has its offsets" not in tierfold_command(*words).stdout


def test_what_is_no_log_directory_is_one_clear_error(tmp_path: Path, tier: Path) -> None:
    with pytest.raises(BadSettings, match="no log directory of a broker"):
        tierfold.upload(tmp_path, tier)
    assert list(tier.iterdir()) == []


def test_a_folder_with_something_else_does_not_become_a_tier(
    logs: WrittenLogDir, tier: Path
) -> None:
    (tier / "photos").mkdir()
    with pytest.raises(BadSettings, match="no folder kafka-tiered-storage"):
        tierfold.upload(logs.path, tier)
    assert [one.name for one in tier.iterdir()] == ["photos"]
