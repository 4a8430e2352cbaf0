"""Anyone who may write below a catalog leads tierfold neither out of it nor into a trap."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.compaction.builders import KEY
from tests.jobs.tiers import files_below
from tests.storage.aged_tables import HOUR_MS, superseded
from tests.storage.catalog_contract import A_RUN, claim, claims, fresh
from tests.storage.special_files import SPECIAL_FILES
from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    TierfoldError,
    UnreadableObject,
)
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.delta_tables import CHECKPOINT_INTERVAL, MEMORY_HOURS
from tierfold.storage.catalog.folder_files import FolderFiles
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.catalog.schema import bucket_of
from tierfold.storage.clock import now_ms
from tierfold.storage.tiers.folder_handles import DEPTH_MAX

BUCKET = f"bucket={bucket_of(KEY.topic_id)}"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog with both tables, and checkpoints."""
    place = tmp_path_factory.mktemp("made") / "catalog"
    claims(Catalog(str(place)), CHECKPOINT_INTERVAL + 2)
    for _ in range(3):
        RunsTable(str(place)).append([A_RUN])
    superseded(place / "partitions", hours=MEMORY_HOURS + 1)
    return place


@pytest.fixture
def place(made_once: Path, tmp_path: Path) -> Path:
    """A copy, for one test."""
    return shutil.copytree(made_once, tmp_path / "catalog")


def moved_away(path: Path, far: Path) -> None:
    """A link takes the place of the file or folder, which is elsewhere now."""
    path.rename(far)
    path.symlink_to(far)


def removed(table: Path, *names: str) -> None:
    """A commit that says these data files were superseded long ago."""
    commit = max((table / "_delta_log").glob("*.json"))
    at_ms = now_ms() - (MEMORY_HOURS + 1) * HOUR_MS
    actions = [
        {"commitInfo": {"timestamp": at_ms}},
        *(
            {"remove": {"path": name, "deletionTimestamp": at_ms, "dataChange": True, "size": 1}}
            for name in names
        ),
    ]
    later = commit.with_name(f"{int(commit.stem) + 1:020d}.json")
    later.write_text("\n".join(map(json.dumps, actions)))


def every_call(place: Path) -> list[Callable[[], object]]:
    """Each call that opens a table, with the catalog or the table of runs."""
    catalog, runs = Catalog(str(place)), RunsTable(str(place))
    return [
        catalog.exists,
        catalog.read,
        lambda: list(catalog.history(KEY)),
        lambda: catalog.claim([fresh()], "late", at_ms=1),
        catalog.clean_up,
        runs.read,
        lambda: runs.append([A_RUN]),
        runs.clean_up,
    ]


@pytest.mark.parametrize("table", ["partitions", "runs"])
@pytest.mark.parametrize(
    "link", ["{}", "{}/_delta_log", f"{{}}/{BUCKET}", "{}/_delta_log/*0.json", "{}/**/part-*"]
)
def test_no_table_with_a_link_in_it_is_opened(
    place: Path, tmp_path: Path, table: str, link: str
) -> None:
    if not (paths := sorted(place.glob(link.format(table)))):
        pytest.fail("nothing to link") if table == "partitions" else None
        return
    moved_away(paths[0], tmp_path / "far")
    before = files_below(tmp_path)
    for number, call in enumerate(every_call(place)):
        if (number < 5) is (table == "partitions"):
            with pytest.raises(UnreadableObject, match="this is a symbolic link") as error:
                call()
            assert error.value.where == str(paths[0])
    assert files_below(tmp_path) == before


def test_a_catalog_that_is_a_link_is_not_opened(place: Path, tmp_path: Path) -> None:
    moved_away(place, tmp_path / "far")
    before = files_below(tmp_path)
    for call in every_call(place):
        with pytest.raises(UnreadableObject, match="this is a symbolic link"):
            call()
    assert files_below(tmp_path) == before


def test_nothing_outside_is_deleted_through_a_link_made_after_the_check(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far").mkdir()
    victim = tmp_path / "far" / "part-victim.parquet"
    victim.write_bytes(b"not tierfold's")
    removed(place / "partitions", "bucket=x/part-victim.parquet")
    (place / "partitions" / "bucket=x").symlink_to(tmp_path / "far")
    monkeypatch.setattr(FolderFiles, "ensure_plain", lambda _: None)
    with pytest.raises(UnreadableObject, match="this is a symbolic link"):
        Catalog(str(place)).clean_up()
    assert victim.read_bytes() == b"not tierfold's"


def test_what_the_log_calls_removed_goes_only_if_it_is_a_data_file_that_no_row_needs(
    place: Path, tmp_path: Path
) -> None:
    table = place / "partitions"
    catalog = Catalog(str(place))
    rows = catalog.read()
    outside = tmp_path / "part-outside.parquet"
    others = [
        table / BUCKET / "notes.parquet",
        table / "_delta_log" / "part-a.parquet",
        place / "part-above.parquet",
        outside,
    ]
    for path in others:
        path.write_bytes(b"stays")
    names = [
        f"{BUCKET}/notes.parquet",
        "_delta_log/part-a.parquet",
        "_delta_log/00000000000000000000.json",
        "../part-above.parquet",
        f"{BUCKET}/../../part-above.parquet",
        str(outside),
        outside.as_uri(),
    ]
    removed(table, *names)
    before = catalog.clean_up(is_dry_run=True)
    assert catalog.clean_up() == before > 0
    assert {path.read_bytes() for path in others} == {b"stays"}
    assert catalog.read() == rows
    assert list(table.glob("_delta_log/*0.json"))


OUTSIDE = (
    *("../far.parquet", "/far.parquet", "part-0.parquet/../../part-1.parquet"),
    *("file:/far.parquet", "file:///part-0.parquet", "s3://bucket/part-0.parquet"),
    *("..\\part-0.parquet", "%2E%2E/part-0.parquet", f"{BUCKET}/%2e%2e%2fpart-0.parquet"),
    *(f"{BUCKET}//part-0.parquet", f"{BUCKET}/../part-0.parquet", f"{BUCKET}/notes.parquet"),
)
"""Names that delta-rs takes elsewhere, or that it never writes."""

VECTOR = {
    "storageType": "p",
    "pathOrInlineDv": "file:///far.bin",
    "offset": 1,
    "sizeInBytes": 36,
    "cardinality": 1,
}


def next_commit(place: Path, *actions: dict[str, object]) -> Path:
    newest = max((place / "partitions" / "_delta_log").glob("*.json"))
    later = newest.with_name(f"{int(newest.stem) + 1:020d}.json")
    later.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    return later


def test_a_commit_that_adds_a_file_outside_the_table_is_refused(place: Path) -> None:
    for name in OUTSIDE:
        added = {"path": name, "size": 1, "dataChange": True, "partitionValues": {}}
        commit = next_commit(place, {"add": added})
        with pytest.raises(CorruptLog, match="names no data file of the table"):
            Catalog(str(place)).read()
        commit.unlink()


def edited(path: Path, part: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Each action of a kind in a checkpoint is changed."""
    actions = pq.read_table(path)
    rows = actions.to_pylist()
    changed = [change(row[part]) for row in rows if row[part] is not None]
    assert changed
    pq.write_table(pa.Table.from_pylist(rows, schema=actions.schema), path)


def newest_checkpoint(place: Path) -> Path:
    return max((place / "partitions" / "_delta_log").glob("*.checkpoint.parquet"))


def test_a_checkpoint_that_names_a_file_outside_the_table_is_refused(place: Path) -> None:
    for name in OUTSIDE:
        edited(newest_checkpoint(place), "add", partial(dict.update, path=name))
        with pytest.raises(CorruptLog, match="names no data file of the table"):
            Catalog(str(place)).read()


def test_a_commit_with_a_deletion_vector_is_refused(place: Path) -> None:
    catalog = Catalog(str(place))
    newest = max((place / "partitions" / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    (add,) = (action["add"] for action in actions if "add" in action)
    next_commit(place, {"add": add | {"deletionVector": None}})
    assert catalog.read()
    next_commit(place, {"add": add | {"deletionVector": VECTOR}})
    with pytest.raises(CorruptLog, match="a deletion vector"):
        catalog.read()


@pytest.mark.parametrize(
    "protocol",
    [
        {"minReaderVersion": 2, "minWriterVersion": 5},
        {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["deletionVectors"],
            "writerFeatures": ["deletionVectors"],
        },
    ],
    ids=["mapped columns", "deletion vectors"],
)
def test_a_table_that_asks_more_of_its_readers_is_refused(
    place: Path, protocol: dict[str, object]
) -> None:
    next_commit(place, {"protocol": protocol})
    before = files_below(place)
    for call in every_call(place)[1:5]:
        with pytest.raises(BadSettings, match="needs a newer Delta protocol: readers must know"):
            call()
    assert files_below(place) == before


def test_a_catalog_whose_folders_are_nested_too_deeply_is_not_opened(place: Path) -> None:
    (place / "partitions").joinpath(*"a" * (DEPTH_MAX + 1)).mkdir(parents=True)
    for call in every_call(place)[:5]:
        with pytest.raises(UnreadableObject, match="folders are nested deeper than 16 levels"):
            call()


def test_folders_of_the_deepest_level_are_looked_into(place: Path) -> None:
    nested = (place / "partitions").joinpath(*"a" * DEPTH_MAX)
    nested.mkdir(parents=True)
    assert Catalog(str(place)).exists()
    (nested / "link").symlink_to(place)
    with pytest.raises(UnreadableObject, match="this is a symbolic link"):
        Catalog(str(place)).exists()


@pytest.mark.parametrize("kind", SPECIAL_FILES)
@pytest.mark.parametrize(
    "name",
    [
        "_delta_log/{newest:020d}.json",
        "_delta_log/{next:020d}.json",
        "_delta_log/_last_checkpoint",
        "_delta_log/{next:020d}.checkpoint.parquet",
        f"{BUCKET}/part-0.parquet",
        "_tierfold_log_boundary/00000000000000000001",
    ],
)
def test_what_is_no_regular_file_is_not_opened(place: Path, kind: str, name: str) -> None:
    table = place / "partitions"
    newest = int(max((table / "_delta_log").glob("*.json")).stem)
    path = table / name.format(newest=newest, next=newest + 1)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    SPECIAL_FILES[kind](path)
    for call in every_call(place)[:5]:
        with pytest.raises(UnreadableObject, match="this is no regular file") as error:
            call()
        assert error.value.where == str(path)


@pytest.mark.parametrize(
    "line",
    [
        *('{"commitInfo": []}', '{"commitInfo": "x"}', '{"commitInfo": null}', "[]", "7"),
        *('{"commitInfo": {"operationMetrics": null}}', '{"commitInfo": {"operationMetrics": 1}}'),
        *('{"add": null}', '{"add": 5}', '{"add": {}}', '{"add": {"path": 5}}'),
    ],
)
def test_a_commit_of_another_shape_is_refused(place: Path, line: str) -> None:
    newest = max((place / "partitions" / "_delta_log").glob("*.json"))
    newest.with_name(f"{int(newest.stem) + 1:020d}.json").write_text(f"{line}\n")
    for call in every_call(place)[1:5]:
        with pytest.raises(TierfoldError, match="is not a commit"):
            call()


def test_a_commit_nested_too_deeply_is_refused(place: Path) -> None:
    log = place / "partitions" / "_delta_log"
    newest = max(log.glob("*.json"))
    later = newest.with_name(f"{int(newest.stem) + 1:020d}.json")
    later.write_text('{"a":' * 100_000)
    with pytest.raises(TierfoldError, match="is not a commit"):
        Catalog(str(place)).read()


def test_a_plain_catalog_is_claimed_as_before(place: Path) -> None:
    catalog = Catalog(str(place))
    row = catalog.read()[KEY]
    assert claim(catalog, row, "next").row.epoch == row.epoch + 1
