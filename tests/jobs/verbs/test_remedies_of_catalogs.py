"""Remedies of a catalog that is lost, damaged or of another version, carried out as said."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake

from tests.jobs.claims import row_of
from tests.jobs.commands import ALWAYS, Ran, status_of, tierfold, told
from tests.jobs.leaders import upload
from tests.jobs.tiers import (
    files_below,
    folder_of,
    key_of,
    latest_updates,
    live_values,
    made_tier,
    put_updates,
    updated_tier,
)
from tierfold.storage.catalog import delta_tables, rows
from tierfold.storage.catalog.schema import FORMAT_VERSION, FORMATS_READ, PARTITIONS
from tierfold.storage.tiers.folder_handles import DEPTH_MAX
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

KEY = key_of("orders")
SEGMENTS = 2


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """A compacted tier with a backup of its catalog, and then one more segment."""
    tier = updated_tier(tmp_path / "tier", [KEY], SEGMENTS)
    assert compacted(tier).code == 0
    shutil.copytree(catalog(tier), tmp_path / "backup")
    put_updates(tier, KEY, SEGMENTS)
    return tier


def compacted(tier: Path, *options: str) -> Ran:
    return tierfold("compact", tier, *ALWAYS, "--json", *options)


def catalog(tier: Path) -> Path:
    return tier / CATALOG_FOLDER


def partitions(tier: Path) -> Path:
    return catalog(tier) / "partitions"


def newest_commit(tier: Path) -> Path:
    return max((partitions(tier) / "_delta_log").glob("*.json"))


def is_sound(tier: Path, *options: str) -> None:
    """Assert that all is live and compacted, and `verify` finds nothing wrong."""
    found = status_of(tier, *options)["orders", 0]
    assert live_values(found) == latest_updates(SEGMENTS + 1)
    assert tierfold("verify", tier, "--json", *options).code == 0


def goes_on(tier: Path, *options: str) -> None:
    """Assert that the next run compacts the segment that is new."""
    compacted(tier, *options).ends(0, "compacted")
    is_sound(tier, *options)


def refused(tier: Path, *words: str, code: int = 3) -> None:
    """Assert that every verb refuses the catalog with these words, and changes nothing."""
    before = files_below(tier)
    for verb in ("status", "plan", "compact"):
        options = () if verb == "status" else ALWAYS
        ran = tierfold(verb, tier, *options)
        assert ran.code == code, ran
        assert not told(ran.stderr, *words), ran.stderr
    assert files_below(tier) == before


# 1. A catalog that is not there.


@pytest.mark.parametrize("is_named", [False, True])
def test_a_catalog_is_brought_back_or_named(tier: Path, tmp_path: Path, is_named: bool) -> None:
    catalog(tier).rename(tmp_path / "elsewhere")
    said = "its catalog is missing: bring `_tierfold` back, or name it with --catalog."
    cause = "runs of another catalog made 1 segment"
    reason = compacted(tier).ends(3, "refused", f"Here {said}", "Move nothing")["reason"]
    assert reason.partition("share offsets")[0].count(cause) == 1
    assert not catalog(tier).exists()
    options = ("--catalog", str(tmp_path / "elsewhere")) if is_named else ()
    if not is_named:
        (tmp_path / "elsewhere").rename(catalog(tier))
    goes_on(tier, *options)


def test_in_a_tier_that_was_never_compacted_the_segment_of_no_broker_is_moved_out(
    tmp_path: Path,
) -> None:
    tier = made_tier(tmp_path / "tier")
    upload(tier, 0, 10, (3, 0))
    stray = upload(tier, 8, 15, (3, 0), value=b"other")
    upload(tier, 11, 15, (3, 0))
    reason = compacted(tier).ends(3, "refused", stray)["reason"]
    said = "Only if it never has, move the segment that the brokers do not list out of the tier."
    assert said in reason
    moved_out(tier, stray, tmp_path / "kept")
    compacted(tier).ends(0, "compacted")
    assert set(live_values(status_of(tier)["orders", 0]).values()) == {b"v13", b"v14", b"v15"}
    assert tierfold("verify", tier, "--json").code == 0


def moved_out(tier: Path, segment_id: str, kept: Path) -> None:
    kept.mkdir()
    for path in list(folder_of(tier, KEY).glob(f"*-{segment_id}.*")):
        path.rename(kept / path.name)


def test_a_mistyped_catalog_is_named(tier: Path, tmp_path: Path) -> None:
    wrong = ("--catalog", str(tmp_path / "wrong"))
    for verb in ("plan", "compact"):
        ran = tierfold(verb, tier, *ALWAYS, *wrong)
        assert not told(ran.stderr, f"there is no catalog in {wrong[1]} yet"), ran.stderr
    for words in (("history", tier, "orders-0"), ("restore", tier, "orders-0", "--to", "now")):
        tierfold(*words, *wrong).refuses(f"--catalog: there is no catalog in {wrong[1]}")
    assert not Path(wrong[1]).exists()
    assert tierfold("history", tier, "orders-0").code == 0


def test_the_catalog_of_another_tier_is_named_as_the_cause(tier: Path, tmp_path: Path) -> None:
    copy = updated_tier(tmp_path / "copy", [KEY], SEGMENTS)
    for verb in ("verify", "compact"):
        ran = tierfold(verb, copy, "--catalog", str(catalog(tier)), *(ALWAYS * (verb != "verify")))
        said = "the tier has none of the live segments that the catalog names", "another tier"
        assert not told(ran.stdout, *said), ran.stdout
        assert ran.code == 3


# 2. A catalog that is damaged.


def test_a_newest_commit_that_was_never_reported_is_removed(tier: Path) -> None:
    # A run that was cut off while it wrote its next commit.
    commit = newest_commit(tier)
    torn = commit.with_name(f"{int(commit.stem) + 1:020d}.json")
    torn.write_bytes(b"")
    refused(tier, torn.name, "See `After a power cut` in docs/operations.md: a newest commit that")
    torn.unlink()
    goes_on(tier)


def test_a_newest_commit_goes_if_its_data_file_is_not_there(tier: Path) -> None:
    table = DeltaTable(str(partitions(tier)))
    names = set(table.file_uris())
    table.update(updates={"live_bytes": "live_bytes + 1"})
    (written,) = map(Path, set(DeltaTable(table.table_uri).file_uris()) - names)
    written.unlink()
    refused(tier, str(written), "a newest commit that was never reported is removed")
    commit = newest_commit(tier)
    assert written.name in commit.read_text()
    commit.unlink()
    goes_on(tier)


def tear_an_older_commit(tier: Path) -> str:
    oldest = min((partitions(tier) / "_delta_log").glob("*.json"))
    oldest.write_bytes(b"")
    return "anything else is restored from a backup of the catalog"


def lose_the_log(tier: Path) -> str:
    shutil.rmtree(partitions(tier) / "_delta_log")
    return "anything else is restored from a backup of the catalog"


def lose_the_rows(tier: Path) -> str:
    for path in partitions(tier).rglob("*.parquet"):
        path.unlink()
    return "Run again: another run may have replaced it meanwhile. See `After a power cut` in docs/"


@pytest.mark.parametrize("damage", [tear_an_older_commit, lose_the_log, lose_the_rows])
def test_a_damaged_catalog_is_restored_from_its_backup(
    tier: Path, tmp_path: Path, damage: Callable[[Path], str]
) -> None:
    refused(tier, str(partitions(tier)), damage(tier))
    shutil.rmtree(catalog(tier))
    shutil.copytree(tmp_path / "backup", catalog(tier))
    goes_on(tier)


def test_a_row_of_another_program_goes_with_a_restore_of_the_last_good_version(
    tier: Path,
) -> None:
    table = DeltaTable(str(partitions(tier)))
    good, row = table.version(), row_of(tier)
    wrong = table.to_pyarrow_table().to_pylist()
    wrong[0]["live_bytes"] += 1
    write_deltalake(
        table, pa.Table.from_pylist(wrong, PARTITIONS), mode="overwrite", partition_by=["bucket"]
    )
    said = "Another program than tierfold wrote the table: restore its last good version."
    compacted(tier).ends(3, "refused", "live_bytes is", said)
    DeltaTable(str(partitions(tier))).restore(good)
    assert row_of(tier) == row
    goes_on(tier)


# 3. A catalog of another version.


def test_a_catalog_of_a_newer_format_needs_the_newer_version(
    tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = FORMAT_VERSION + 1
    table = DeltaTable(str(partitions(tier)))
    table.update(updates={"format_version": str(newer)})
    refused(tier, "a newer tierfold wrote it", "Install the newer version", code=2)
    # The newer version is this one, with one more format.
    monkeypatch.setattr(rows, "FORMATS_READ", (*FORMATS_READ, newer))
    goes_on(tier)


def test_a_table_of_a_newer_protocol_needs_the_version_that_wrote_it(
    tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = DeltaTable(str(partitions(tier)))
    table.alter.add_feature([TableFeatures.TimestampWithoutTimezone], True)
    refused(
        tier,
        "the table needs a newer Delta protocol",
        "Use the tierfold version that wrote it, or a newer one.",
        code=2,
    )
    monkeypatch.setattr(delta_tables, "_ensure_plain_protocol", lambda _: None)
    goes_on(tier)


def test_a_catalog_of_an_older_layout_that_compacted_nothing_is_moved_away(
    tmp_path: Path,
) -> None:
    tier = updated_tier(tmp_path / "tier", [KEY], SEGMENTS + 1)
    DeltaTable.create(
        str(partitions(tier)),
        schema=PARTITIONS.remove(PARTITIONS.get_field_index("bucket")),
        partition_by=["topic_id", "partition"],
    )
    said = "Use that version. If it has compacted nothing yet, move the catalog away instead."
    refused(tier, "another version of tierfold made the table", said, code=2)
    catalog(tier).rename(tmp_path / "away")
    goes_on(tier)


# 4. What lies in its folder, and who may write there.


def as_link(path: Path, aside: Path) -> str:
    path.rename(aside)
    path.symlink_to(aside)
    return "Put the folder or file itself there."


def test_the_file_itself_is_put_where_a_link_was(tier: Path, tmp_path: Path) -> None:
    commit = newest_commit(tier)
    refused(tier, str(commit), "symbolic link", as_link(commit, tmp_path / "commit"))
    commit.unlink()
    (tmp_path / "commit").rename(commit)
    goes_on(tier)


def test_what_is_no_regular_file_is_moved_away(tier: Path, tmp_path: Path) -> None:
    fifo = partitions(tier) / "_delta_log" / "fifo"
    os.mkfifo(fifo)
    refused(tier, str(fifo), "no regular file", "Move it away.")
    fifo.rename(tmp_path / "fifo")
    goes_on(tier)


def test_folders_that_are_nested_too_deeply_are_moved_away(tier: Path, tmp_path: Path) -> None:
    deep = partitions(tier).joinpath(*"a" * (DEPTH_MAX + 2))
    deep.mkdir(parents=True)
    refused(tier, "nested deeper than", "Move them away.")
    (partitions(tier) / "a").rename(tmp_path / "a")
    goes_on(tier)
