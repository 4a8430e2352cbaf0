"""The folder of key indexes: whatever happens to it, at worst a segment has no index."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tests.compaction.builders import KEY, a_segment
from tests.compaction.unread import some_facts
from tests.storage.call_scripts import Script, fails
from tests.storage.permissions import an_ordinary_user
from tests.storage.scripted_store import CORRUPTIONS, ScriptedStore
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.skipping.bloom_filter import bloom_filter
from tierfold.compaction.skipping.key_index import KeyIndex, entries_of, key_index
from tierfold.compaction.skipping.skip_decision import SkipReason
from tierfold.storage.key_indexes import index_folder
from tierfold.storage.key_indexes.index_files import IndexedSegment
from tierfold.storage.key_indexes.index_folder import KeyIndexes
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.locations import location_of, open_store
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions

SEGMENTS: Final = (a_segment(0, 9), a_segment(10, 19), a_segment(20, 29))
SEGMENT: Final = SEGMENTS[0]
HASHES: Final = np.arange(1, 11, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
FOLDER: Final = f"key_indexes/{KEY.topic_id}-{KEY.partition}"
OTHERS: Final = (
    replace(KEY, partition=4),
    replace(KEY, topic_id="U" * 21 + "A"),
)
"""Partitions beside that of `KEY`."""

PARTITION: Final = (KEY.topic_id, KEY.partition)


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """The folder of a catalog."""
    (tmp_path / "catalog").mkdir()
    return tmp_path / "catalog"


def put(
    indexes: KeyIndexes, at: int = 0, *, key: PartitionKey = KEY, hashes: np.ndarray = HASHES
) -> int:
    """Write the index of one of `SEGMENTS`, and return the bytes written."""
    segment = SEGMENTS[at]
    facts = some_facts(segment_id=segment.segment_id, start_offset=segment.start_offset)
    indexed = IndexedSegment(facts=facts, bloom=bloom_filter(hashes, 0.01))
    index = key_index(entries_of(hashes, np.full(len(hashes), 100)), 4)
    return indexes.write(key, indexed, index)


def reasons(indexes: KeyIndexes, at: int = 0) -> tuple[SkipReason | None, SkipReason | None]:
    """Why the filter and the index of a segment cannot be used; None: they can."""
    found, _ = indexes.filter_of(KEY, SEGMENTS[at])
    index, _ = indexes.index_of(KEY, SEGMENTS[at])
    return (
        found if isinstance(found, SkipReason) else None,
        index if isinstance(index, SkipReason) else None,
    )


def files_in(catalog: Path) -> list[str]:
    """All files, without those that are being written."""
    return sorted(str(path.relative_to(catalog)) for path in catalog.rglob("*") if path.is_file())


def names_of(*numbers: int) -> list[str]:
    """The files of these segments."""
    ids = [SEGMENTS[at].segment_id for at in numbers]
    return sorted(f"{FOLDER}/{one}{suffix}" for one in ids for suffix in (".bloom", ".keys"))


def test_what_is_written_is_found_and_its_bytes_are_counted(catalog: Path) -> None:
    indexes = KeyIndexes(LocalStore(catalog))
    written = put(indexes)
    assert files_in(catalog) == names_of(0)
    found, filter_bytes = indexes.filter_of(KEY, SEGMENT)
    assert isinstance(found, IndexedSegment)
    assert found.bloom.may_hold(HASHES).all()
    index, index_bytes = indexes.index_of(KEY, SEGMENT)
    assert isinstance(index, KeyIndex)
    assert index.matches(HASHES).records == len(HASHES)
    assert written == filter_bytes + index_bytes
    assert written == sum((catalog / name).stat().st_size for name in files_in(catalog))


def test_a_segment_without_files_has_no_index(catalog: Path) -> None:
    indexes = KeyIndexes(LocalStore(catalog))
    assert indexes.filter_of(KEY, SEGMENT) == (SkipReason.NO_INDEX, 0)
    assert indexes.index_of(KEY, SEGMENT) == (SkipReason.NO_INDEX, 0)
    put(indexes)
    assert reasons(indexes, 1) == (SkipReason.NO_INDEX, SkipReason.NO_INDEX)
    for key in OTHERS:
        assert indexes.filter_of(key, SEGMENT) == (SkipReason.NO_INDEX, 0)
        assert indexes.index_of(key, SEGMENT) == (SkipReason.NO_INDEX, 0)


@pytest.mark.parametrize("suffix", [".bloom", ".keys"])
@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_a_damaged_file_is_unsound_and_a_later_write_replaces_it(
    suffix: str, corruption: str, catalog: Path
) -> None:
    indexes = KeyIndexes(LocalStore(catalog))
    written = put(indexes)
    path = catalog / f"{FOLDER}/{SEGMENT.segment_id}{suffix}"
    CORRUPTIONS[corruption](path)
    why = SkipReason.NO_INDEX if corruption == "gone" else SkipReason.UNSOUND_INDEX
    expected = (why, None) if suffix == ".bloom" else (None, why)
    assert reasons(indexes) == expected
    left = path.stat().st_size if path.exists() else 0
    read = indexes.filter_of if suffix == ".bloom" else indexes.index_of
    assert read(KEY, SEGMENT)[1] == left
    assert put(indexes) == written
    assert reasons(indexes) == (None, None)


@pytest.mark.parametrize("suffix", [".bloom", ".keys"])
def test_no_file_is_read_whole_because_a_row_claims_a_huge_segment(
    suffix: str, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes = KeyIndexes(LocalStore(catalog))
    put(indexes)
    read = indexes.filter_of if suffix == ".bloom" else indexes.index_of
    size_bytes = read(KEY, SEGMENT)[1]
    monkeypatch.setattr(index_folder, "BYTES_MAX", size_bytes)
    assert not isinstance(read(KEY, SEGMENT)[0], SkipReason)
    with (catalog / f"{FOLDER}/{SEGMENT.segment_id}{suffix}").open("ab") as file:
        file.truncate(2**24)
    forged = replace(SEGMENT, size_bytes=2**60)
    assert read(KEY, forged) == (SkipReason.UNSOUND_INDEX, size_bytes + 1)


def test_the_files_of_another_segment_under_its_name_are_unsound(catalog: Path) -> None:
    indexes = KeyIndexes(LocalStore(catalog))
    put(indexes, 1)
    for suffix in (".bloom", ".keys"):
        path = catalog / f"{FOLDER}/{SEGMENTS[1].segment_id}{suffix}"
        path.rename(path.with_name(f"{SEGMENT.segment_id}{suffix}"))
    assert reasons(indexes) == (SkipReason.UNSOUND_INDEX, SkipReason.UNSOUND_INDEX)


def test_a_segment_of_another_effective_start_has_an_unsound_index(catalog: Path) -> None:
    indexes = KeyIndexes(LocalStore(catalog))
    put(indexes)
    cut = replace(SEGMENT, start_offset=3, skipped_offsets=3)
    assert indexes.filter_of(KEY, cut)[0] is SkipReason.UNSOUND_INDEX
    assert indexes.index_of(KEY, cut)[0] is SkipReason.UNSOUND_INDEX


def test_a_later_write_replaces_sound_files(catalog: Path) -> None:
    indexes = KeyIndexes(LocalStore(catalog))
    put(indexes, hashes=HASHES[:3])
    put(indexes)
    index, _ = indexes.index_of(KEY, SEGMENT)
    assert isinstance(index, KeyIndex)
    assert index.matches(HASHES).records == len(HASHES)
    assert files_in(catalog) == names_of(0)


@pytest.mark.parametrize("step", ["open_new 1", "open_new 2", "open_new"])
def test_a_store_that_refuses_writes_costs_the_index_alone(step: str, catalog: Path) -> None:
    refusing = ScriptedStore(catalog, Script(fails(step), fails("delete")))
    assert put(KeyIndexes(refusing)) == 0
    # The filter comes last, so that no filter is found whose index is missing.
    assert reasons(KeyIndexes(LocalStore(catalog)))[0] is SkipReason.NO_INDEX
    assert put(KeyIndexes(LocalStore(catalog))) > 0
    assert reasons(KeyIndexes(LocalStore(catalog))) == (None, None)


def test_a_write_whose_answer_is_lost_is_repeated(catalog: Path) -> None:
    store = ScriptedStore(catalog, Script(fails("open_new 1", is_done=True)))
    assert put(KeyIndexes(store)) > 0
    assert reasons(KeyIndexes(LocalStore(catalog))) == (None, None)


def test_a_store_that_refuses_reads_counts_as_one_without_indexes(catalog: Path) -> None:
    put(KeyIndexes(LocalStore(catalog)))
    refusing = KeyIndexes(ScriptedStore(catalog, Script(fails("read_range"))))
    assert reasons(refusing) == (SkipReason.NO_INDEX, SkipReason.NO_INDEX)


def test_a_forbidden_folder_counts_as_one_without_indexes() -> None:
    with tempfile.TemporaryDirectory() as name:
        catalog = Path(name)
        catalog.chmod(0o755)
        indexes = KeyIndexes(LocalStore(catalog))
        put(indexes)
        (catalog / FOLDER).chmod(0)
        with an_ordinary_user():
            assert reasons(indexes) == (SkipReason.NO_INDEX, SkipReason.NO_INDEX)
            assert put(indexes) == 0
            with pytest.raises(UnreadableObject, match="no permission"):
                indexes.forget({PARTITION: []})
        (catalog / FOLDER).chmod(0o755)
        assert reasons(indexes) == (None, None)


@pytest.mark.parametrize("parents", [0, 1])
def test_a_catalog_that_a_worker_lacks_is_not_created(parents: int, tmp_path: Path) -> None:
    root = tmp_path / "gone" / "catalog"
    if parents:
        root.parent.mkdir()
    indexes = KeyIndexes(open_store(location_of(str(root), of="catalog"), ENVIRONMENT))
    assert put(indexes) == 0
    assert reasons(indexes) == (SkipReason.NO_INDEX, SkipReason.NO_INDEX)
    assert not root.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["gone"] * parents


@pytest.mark.parametrize("kept", [(), (1,), (0, 1, 2)])
def test_forget_deletes_only_the_files_of_other_segments(
    kept: tuple[int, ...], catalog: Path
) -> None:
    indexes = KeyIndexes(LocalStore(catalog))
    for at in range(3):
        put(indexes, at)
    for key in OTHERS:
        put(indexes, key=key)
    before = files_in(catalog)
    ids = [SEGMENTS[at].segment_id for at in kept]
    gone = 2 * (3 - len(kept))
    assert indexes.forget({PARTITION: ids}, is_dry_run=True) == gone
    assert files_in(catalog) == before
    assert indexes.forget({PARTITION: ids}) == gone
    others = [name for name in before if not name.startswith(f"{FOLDER}/")]
    assert len(others) == 2 * len(OTHERS)
    assert files_in(catalog) == sorted(names_of(*kept) + others)
    assert indexes.forget({PARTITION: ids}) == 0


def test_forget_deletes_a_file_without_its_other_half(catalog: Path) -> None:
    indexes = KeyIndexes(LocalStore(catalog))
    put(indexes)
    (catalog / FOLDER / f"{SEGMENT.segment_id}.bloom").unlink()
    assert indexes.forget({PARTITION: [SEGMENT.segment_id]}) == 0
    assert indexes.forget({PARTITION: []}) == 1
    assert files_in(catalog) == []


def test_forget_deletes_nothing_of_partitions_it_was_not_given(catalog: Path) -> None:
    indexes = KeyIndexes(LocalStore(catalog))
    for key in (KEY, *OTHERS):
        put(indexes, key=key)
    given = {(key.topic_id, key.partition): () for key in OTHERS}
    assert indexes.forget(given) == 2 * len(OTHERS)
    assert files_in(catalog) == names_of(0)


def test_forget_lists_many_partitions_of_a_bucket_at_once() -> None:
    store = BucketStore("memory", "many-indexes", "catalog", StoreOptions())
    indexes = KeyIndexes(store)
    keys = [replace(KEY, partition=number) for number in range(30)]
    for key in keys:
        put(indexes, key=key)
    before = store.requests()
    assert indexes.forget({(key.topic_id, key.partition): () for key in keys}) == 60
    assert (store.requests() - before).lists <= 2
    assert indexes.partitions() == []


def test_forget_finds_nothing_where_no_index_was_ever_written(catalog: Path) -> None:
    assert KeyIndexes(LocalStore(catalog)).forget({PARTITION: []}) == 0
    assert files_in(catalog) == []


@pytest.mark.parametrize("step", ["list", "delete"])
def test_forget_reports_a_store_that_fails(step: str, catalog: Path) -> None:
    put(KeyIndexes(LocalStore(catalog)))
    forget: Callable[..., int] = KeyIndexes(ScriptedStore(catalog, Script(fails(step)))).forget
    with pytest.raises(UnreadableObject, match="no answer"):
        forget({PARTITION: []})


def test_forget_skips_a_folder_that_cannot_be_listed(catalog: Path) -> None:
    keys = (KEY, *OTHERS)
    for key in keys:
        put(KeyIndexes(LocalStore(catalog)), key=key)
    failing = KeyIndexes(ScriptedStore(catalog, Script(fails("list 1"))))
    kept: dict[tuple[str, int], tuple[str, ...]]
    kept = {(key.topic_id, key.partition): () for key in keys}
    with pytest.raises(UnreadableObject, match="no answer"):
        failing.forget(kept)
    assert len(files_in(catalog)) == 2
    assert KeyIndexes(LocalStore(catalog)).forget(kept) == 2
