"""No file of a table is read if it unpacks to far more than any catalog has."""

from __future__ import annotations

import io
import re
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.compaction.builders import KEY
from tests.storage.catalog_contract import claims
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.catalog import file_bounds
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.delta_log import LOG_FOLDER, POINTER
from tierfold.storage.catalog.delta_tables import CHECKPOINT_INTERVAL
from tierfold.storage.catalog.file_bounds import json_violation, parquet_violation
from tierfold.storage.catalog.opened_files import table_files
from tierfold.storage.catalog.schema import bucket_of
from tierfold.storage.tiers.locations import location_of, open_store
from tierfold.storage.tiers.store_options import ENVIRONMENT


def a_file(values: int = 10, codec: str = "snappy", columns: int = 1) -> bytes:
    """A Parquet file of equal values, which take no space."""
    column = pa.array([7] * values, pa.int64())
    sink = io.BytesIO()
    table = pa.table({f"c{number}": column for number in range(columns)})
    pq.write_table(table, sink, compression=codec, row_group_size=max(1, values // 2))
    return sink.getvalue()


def violation_of(data: bytes) -> str:
    return parquet_violation(len(data), lambda size: data[max(0, len(data) - size) :])


@pytest.mark.parametrize("codec", ["snappy", "none"])
def test_what_delta_rs_writes_is_read(codec: str) -> None:
    assert violation_of(a_file(codec=codec)) == ""


def test_a_footer_of_any_length_is_found() -> None:
    assert violation_of(data := a_file(columns=1500)) == ""
    assert len(data) > 128 << 10


@pytest.mark.parametrize("codec", ["zstd", "gzip", "brotli", "lz4"])
def test_another_codec_may_unpack_to_anything(codec: str) -> None:
    assert "is compressed by" in violation_of(a_file(codec=codec))


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 40, -1])
def test_a_file_that_is_cut_short_is_not_read(cut: int) -> None:
    data = a_file()
    assert "is cut short" in violation_of(data[:cut])
    assert "is cut short" in violation_of(data[:-8] + b"\xff\xff\xff\x7fPAR1")


def test_all_row_groups_and_columns_count(monkeypatch: pytest.MonkeyPatch) -> None:
    data = a_file(values=100, columns=2)
    monkeypatch.setattr(file_bounds, "VALUES_MAX", 200)
    assert violation_of(data) == ""
    monkeypatch.setattr(file_bounds, "VALUES_MAX", 199)
    assert violation_of(data) == "has 200 values, and at most 199 are read"


def test_what_it_unpacks_to_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = pa.table({"c": pa.array([b"0" * 100_000])})
    sink = io.BytesIO()
    pq.write_table(text, sink, use_dictionary=False)
    monkeypatch.setattr(file_bounds, "PARQUET_BYTES_MAX", 100_000)
    assert len(sink.getvalue()) < 10_000
    assert "unpacks to 1000" in violation_of(sink.getvalue())


def repeating(
    kind: Callable[[pa.Array], pa.Array], rows: int, rows_of_group: int | None = None
) -> bytes:
    """A Parquet file in which one text of 1 MiB is stored once in a row group, and repeated."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * 2**20])
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"c": kind(texts)}),
        sink,
        compression="none",
        dictionary_pagesize_limit=2**30,
        row_group_size=rows_of_group,
    )
    return sink.getvalue()


def without_dictionary_page(data: bytes) -> bytes:
    """The same file, in whose footer the dictionary is the first page of data, as it may be."""
    footer_bytes = struct.unpack("<I", data[-8:-4])[0]
    pages, footer = data[: -8 - footer_bytes], data[-8 - footer_bytes : -8]
    # Thrift's fields 9 and 11 of a column, the offsets of both pages, before 12, its statistics.
    offsets = re.compile(rb"\x26[\x80-\xff]*[\x00-\x7f]\x26\x08\x1c")
    left_out, found = offsets.subn(b"\x26\x08\x3c", footer)
    assert found == 1
    return pages + left_out + struct.pack("<I", len(left_out)) + data[-4:]


def in_structs(texts: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([texts], ["s"])


def in_lists(texts: pa.Array) -> pa.Array:
    ends = pa.array(range(len(texts) + 1), pa.int32())
    return pa.ListArray.from_arrays(ends, in_structs(texts))


@pytest.mark.parametrize("kind", [lambda texts: texts, in_structs, in_lists])
def test_a_text_counts_as_often_as_it_is_repeated(kind: Callable[[pa.Array], pa.Array]) -> None:
    data = repeating(kind, rows=10_000)
    assert len(data) < 2**21
    before = pa.total_allocated_bytes()
    assert violation_of(data) == "unpacks to 10485760000 bytes, and at most 1073741824 are read"
    assert pa.total_allocated_bytes() - before < 2**26
    assert violation_of(repeating(kind, rows=1000)) == ""


@pytest.mark.parametrize("kind", [lambda texts: texts, in_lists])
def test_a_text_that_is_repeated_in_many_row_groups_counts_in_all(
    kind: Callable[[pa.Array], pa.Array],
) -> None:
    data = repeating(kind, rows=10_000, rows_of_group=1000)
    assert pq.read_metadata(io.BytesIO(data)).num_row_groups == 10
    assert violation_of(data) == "unpacks to 10485760000 bytes, and at most 1073741824 are read"
    assert violation_of(repeating(kind, rows=1000, rows_of_group=100)) == ""


def test_a_dictionary_that_the_footer_leaves_out_counts() -> None:
    data = repeating(lambda texts: texts, rows=10_000)
    left_out = without_dictionary_page(data)
    assert not pq.read_metadata(io.BytesIO(left_out)).row_group(0).column(0).has_dictionary_page
    assert "at most 1073741824 are read" in violation_of(left_out)


def test_an_encoding_that_repeats_texts_by_itself_is_not_read() -> None:
    sink = io.BytesIO()
    texts = pa.table({"c": ["x" * 2**20] * 20})
    pq.write_table(texts, sink, use_dictionary=False, column_encoding={"c": "DELTA_BYTE_ARRAY"})
    assert len(sink.getvalue()) < 2**21
    assert "is encoded by DELTA_BYTE_ARRAY" in violation_of(sink.getvalue())


def test_short_texts_beside_a_long_one_are_read() -> None:
    texts = ["x" * 2**20, *("short" for _ in range(10_000))]
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": texts}), sink, dictionary_pagesize_limit=2**30)
    assert violation_of(sink.getvalue()) == ""


def test_texts_of_a_fixed_length_are_not_read() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": pa.array([b"x" * 9], pa.binary(9))}), sink)
    assert "of a fixed length" in violation_of(sink.getvalue())


@pytest.mark.parametrize(("part", "name"), [("sidecar", "path"), ("add", "deletionVector")])
def test_a_checkpoint_that_names_further_files_is_not_read(part: str, name: str) -> None:
    """delta-rs opens them unchecked; its own checkpoints have these columns, without a value."""

    def checkpoint(value: str | None, statistics: bool = True) -> bytes:
        found = {"path": value, "deletionVector": {"storageType": value}}
        table = pa.table({part: [{name: found[name]}, {name: found[name]}]})
        kind = pa.struct([("storageType", pa.string())]) if part == "add" else pa.string()
        sink = io.BytesIO()
        table = table.cast(pa.schema([(part, pa.struct([(name, kind)]))]))
        pq.write_table(table, sink, write_statistics=statistics)
        return sink.getvalue()

    assert violation_of(checkpoint(None)) == ""
    assert f"names files by `{part}.{name}" in violation_of(checkpoint("far"))
    assert f"names files by `{part}.{name}" in violation_of(checkpoint(None, statistics=False))


def test_a_file_that_is_too_large_is_not_even_opened() -> None:
    def read(_: int) -> bytes:
        raise AssertionError

    assert "at most" in parquet_violation(file_bounds.PARQUET_BYTES_MAX + 1, read)
    assert json_violation(file_bounds.JSON_BYTES_MAX) == ""
    assert "at most" in json_violation(file_bounds.JSON_BYTES_MAX + 1)


def too_large(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(file_bounds, name, 10)


@pytest.fixture(scope="module", params=[1])
def made_once(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog with a checkpoint, or as many as a test asks for."""
    place = tmp_path_factory.mktemp("made")
    claims(Catalog(str(place)), request.param * CHECKPOINT_INTERVAL + 1)
    return place


@pytest.fixture(params=["folder", "bucket"])
def uri(request: pytest.FixtureRequest, made_once: Path, tmp_path: Path) -> str:
    """A copy for one test, in a folder or a bucket."""
    if request.param == "folder":
        return str(shutil.copytree(made_once, tmp_path / "catalog"))
    place = f"{request.getfixturevalue('bucket_uri')}/catalog"
    store = open_store(location_of(place, of="catalog"), ENVIRONMENT)
    for path in filter(Path.is_file, made_once.rglob("*")):
        store.create(str(path.relative_to(made_once)), path.read_bytes())
    return place


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (partial(too_large, name="VALUES_MAX"), "has .* values, and at most 10 are read"),
        (partial(too_large, name="JSON_BYTES_MAX"), "the (commit file|file) has .* bytes"),
    ],
)
def test_a_catalog_with_such_a_file_is_refused(
    uri: str,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[pytest.MonkeyPatch], None],
    what: str,
) -> None:
    change(monkeypatch)
    with pytest.raises(CorruptLog, match=what):
        Catalog(uri).read()
    with pytest.raises(CorruptLog, match=what):
        list(Catalog(uri).history(KEY))


@pytest.mark.parametrize("kind", ["checkpoint", "data file"])
def test_each_parquet_file_of_a_table_is_looked_at(uri: str, kind: str) -> None:
    files = table_files(f"{uri}/partitions", ENVIRONMENT)
    folders = {"checkpoint": LOG_FOLDER, "data file": f"bucket={bucket_of(KEY.topic_id)}"}
    names = [entry.key for entry in files.entries(folders[kind]) if entry.key.endswith(".parquet")]
    for name in names:
        files.delete(name)
        _put(uri, name, a_file(codec="zstd"))
    with pytest.raises(CorruptLog, match=f"the {kind} is"):
        Catalog(uri).read()


def test_a_pointer_that_is_too_large_is_refused(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = table_files(f"{uri}/partitions", ENVIRONMENT)
    largest = max(entry.size_bytes for entry in files.entries(LOG_FOLDER))
    monkeypatch.setattr(file_bounds, "JSON_BYTES_MAX", largest)
    assert Catalog(uri).read()
    files.delete(f"{LOG_FOLDER}/{POINTER}")
    _put(uri, f"{LOG_FOLDER}/{POINTER}", b" " * (largest + 1))
    with pytest.raises(CorruptLog, match="the file has"):
        Catalog(uri).read()


@pytest.mark.parametrize("ending", [".crc", ".compacted.json", ".json.tmp"])
def test_every_other_file_of_a_log_is_bounded(
    uri: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = table_files(f"{uri}/partitions", ENVIRONMENT)
    entries = files.entries(LOG_FOLDER)
    largest = max(entry.size_bytes for entry in entries)
    monkeypatch.setattr(file_bounds, "JSON_BYTES_MAX", largest)
    newest = max(entry.key for entry in entries if entry.key.endswith(".json"))
    _put(uri, newest.replace(".json", ending), b" " * (largest + 1))
    with pytest.raises(CorruptLog, match="file has"):
        Catalog(uri).read()


@pytest.mark.parametrize(
    "name",
    ["{0:020d}.{1:020d}.compacted.json", "{1:020d}.checkpoint.a-b.json", "_sidecars/a.json"],
)
def test_what_names_files_unseen_is_refused(tmp_path: Path, name: str) -> None:
    place = str(tmp_path / "catalog")
    claims(Catalog(place), 2)
    _put(place, f"{LOG_FOLDER}/{name.format(0, 1)}", b"{}")
    with pytest.raises(CorruptLog, match="tierfold has nothing of that name in a log"):
        Catalog(place).read()


@pytest.mark.soak
@pytest.mark.parametrize("made_once", [3], indirect=True)
def test_the_history_ends_at_an_older_checkpoint_that_unpacks_to_too_much(
    made_once: Path, uri: str
) -> None:
    whole = len(list(Catalog(str(made_once)).history(KEY)))
    files = table_files(f"{uri}/partitions", ENVIRONMENT)
    checkpoints = sorted(
        entry.key for entry in files.entries(LOG_FOLDER) if entry.key.endswith(".parquet")
    )
    files.delete(checkpoints[-2])
    _put(uri, checkpoints[-2], a_file(codec="zstd"))
    catalog = Catalog(uri)
    assert catalog.read()
    assert 0 < len(list(catalog.history(KEY))) < whole


def test_checkpoints_of_other_names_are_looked_at(uri: str) -> None:
    files = table_files(f"{uri}/partitions", ENVIRONMENT)
    checkpoint = max(
        entry.key for entry in files.entries(LOG_FOLDER) if entry.key.endswith(".parquet")
    )
    in_parts = checkpoint.replace(".parquet", f".{1:010d}.{1:010d}.parquet")
    _put(uri, in_parts, a_file(codec="zstd"))
    with pytest.raises(CorruptLog, match="is compressed by"):
        Catalog(uri).read()


def _put(uri: str, name: str, data: bytes) -> None:
    place = location_of(f"{uri}/partitions", of="catalog")
    open_store(place, ENVIRONMENT).create(name, data)
