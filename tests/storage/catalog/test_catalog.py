"""The Delta catalog keeps the catalog contract, also under disk faults and format changes."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake

from tests.compaction.builders import KEY
from tests.storage.call_scripts import Script
from tests.storage.catalog_contract import CatalogContract, claim, committed, fresh, keys, swap
from tests.storage.permissions import an_ordinary_user
from tests.storage.scripted_table import ScriptedTable
from tierfold.compaction.model.errors import BadSettings, CorruptLog, UnreadableObject
from tierfold.compaction.model.outcomes import Unknown
from tierfold.compaction.model.segments import PartitionState
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.delta_tables import CHECKPOINT_INTERVAL
from tierfold.storage.catalog.rows import table_of
from tierfold.storage.catalog.schema import BUCKETS, FORMAT_VERSION, PARTITIONS, bucket_of


class TestCatalogAtAPathOrUri(CatalogContract):
    @pytest.fixture(params=["{}", "file://{}/"])
    def catalog(self, uri: str, request: pytest.FixtureRequest) -> Catalog:
        return Catalog(request.param.format(uri))


class TestCatalogInABucket(CatalogContract):
    @pytest.fixture
    def catalog(self, bucket_uri: str) -> Catalog:
        return Catalog(f"{bucket_uri}/tier/_tierfold")


@contextmanager
def a_full_disk() -> Iterator[None]:
    """No file may grow beyond a few bytes, as on a disk without space."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_commits_say_nothing_of_the_values_of_columns(uri: str) -> None:
    claim(Catalog(uri), fresh(), "a")
    (found,) = pa.table(DeltaTable(f"{uri}/partitions").get_add_actions(flatten=True)).to_pylist()
    assert found["num_records"] == 1
    assert [name for name in found if name.startswith(("min.", "max.", "null_count."))] == []


class TestReading:
    def test_a_row_is_found_under_its_topics_new_name(self, uri: str) -> None:
        renamed = replace(KEY, topic="renamed")
        state = claim(Catalog(uri), fresh(), "a").row
        assert Catalog(uri).read([renamed]) == {KEY: state}

    def test_only_the_given_partitions_are_returned(self, uri: str) -> None:
        # Two topics in one predicate: it must not be read as their partitions' product.
        mine, sibling = keys(2)
        other = replace(sibling, topic="other", topic_id="O" * 21 + "A")
        others_sibling = replace(other, partition=0)
        Catalog(uri).claim([fresh(k) for k in (mine, sibling, other, others_sibling)], "a", at_ms=1)
        assert set(Catalog(uri).read([mine, other])) == {mine, other}

    def test_the_predicate_stays_short_for_any_number_of_topics(self, uri: str) -> None:
        # delta-rs takes half a minute to plan a predicate with thousands of topics.
        script = Script()
        catalog = Catalog(uri, open_table=partial(ScriptedTable, script))
        named = [
            replace(KEY, topic_id=f"{number:021d}A", partition=partition)
            for number in range(200)
            for partition in range(2)
        ]
        assert catalog.read(named) == {}
        assert catalog.read(named[:1]) == {}
        every = ", ".join(map(str, range(BUCKETS)))
        asked = [call.arguments for call in script.of("read")]
        one = bucket_of(named[0].topic_id)
        assert asked == [(f"bucket IN ({every})",), (f"bucket IN ({one})",)]


class TestFailures:
    def test_each_catalog_has_a_fingerprint_of_its_own(self, uri: str) -> None:
        prints = set()
        for name in ("a", "b"):
            made, again = Catalog(f"{uri}/{name}"), Catalog(f"{uri}/{name}")
            claim(made, fresh(KEY), "r")
            assert made.fingerprint() == again.fingerprint()
            prints.add(made.fingerprint())
        assert len(prints) == 2
        assert all(0 <= number < 2**40 for number in prints)

    def test_reading_creates_no_catalog(self, uri: str) -> None:
        Catalog(uri).read()
        assert not Path(uri).exists()

    def test_a_full_disk_leaves_the_row_as_it_was(self, uri: str) -> None:
        state = claim(Catalog(uri), fresh(), "a").row
        with a_full_disk():
            outcome = Catalog(uri).commit([swap(state, "merged")])[KEY]
        assert isinstance(outcome, Unknown)
        assert "permissions, and the free space" in outcome.cause
        assert Catalog(uri).read() == {KEY: state}

    def test_a_forbidden_folder_is_reported(self, uri: str) -> None:
        claim(Catalog(uri), fresh(), "a")
        Path(uri).chmod(0)
        try:
            with an_ordinary_user(), pytest.raises(UnreadableObject, match="ermission"):
                Catalog(uri).read()
        finally:
            Path(uri).chmod(0o755)

    @pytest.mark.parametrize("damage", ["torn", "garbage", "gap", "no log"])
    def test_a_corrupt_log_is_reported(self, uri: str, damage: str) -> None:
        for name in ("first", "second"):
            committed(Catalog(uri), KEY, name, name)
        log = sorted(Path(uri, "partitions", "_delta_log").glob("*.json"))
        match damage:
            case "torn":
                log[-1].write_bytes(log[-1].read_bytes()[:-40])
            case "garbage":
                log[-1].write_text("not json\n")
            case "gap":
                log[1].unlink()
            case "no log":
                for path in log[:-1]:
                    path.unlink()
        with pytest.raises(CorruptLog, match="After a power cut") as caught:
            Catalog(uri).read()
        assert "\n" not in str(caught.value)
        assert caught.value.where.startswith(f"{uri}/partitions/_delta_log/0000")

    def test_missing_data_is_reported(self, uri: str) -> None:
        claim(Catalog(uri), fresh(), "a")
        for file in Path(uri).rglob("*.parquet"):
            file.unlink()
        with pytest.raises(UnreadableObject, match="is not there, or no longer"):
            Catalog(uri).read()

    def test_rows_of_a_newer_tierfold_are_refused(self, uri: str) -> None:
        state: PartitionState = claim(Catalog(uri), fresh(), "a").row
        rows = table_of([replace(state, key=replace(KEY, partition=9))])
        at = rows.schema.get_field_index("format_version")
        version = pa.array([FORMAT_VERSION + 1], pa.int32())
        newer = rows.set_column(at, rows.schema.field(at), version)
        write_deltalake(f"{uri}/partitions", newer, mode="append")
        for use in (Catalog(uri).read, lambda: claim(Catalog(uri), state, "b")):
            with pytest.raises(BadSettings, match="a newer tierfold wrote it"):
                use()

    def test_columns_of_a_newer_tierfold_are_not_lost(self, uri: str) -> None:
        state = claim(Catalog(uri), fresh(), "a").row
        table = DeltaTable(f"{uri}/partitions")
        table.alter.add_columns([Field("colour", "string")])
        before = table.version()
        with pytest.raises(BadSettings, match="a newer tierfold wrote it: columns colour"):
            Catalog(uri).commit([swap(state, "merged")])
        assert DeltaTable(f"{uri}/partitions").version() == before

    def test_a_catalog_of_another_layout_is_refused_as_it_is(self, uri: str) -> None:
        # As tierfold laid it out before format version 2.
        DeltaTable.create(
            f"{uri}/partitions",
            schema=PARTITIONS.remove(PARTITIONS.get_field_index("bucket")),
            partition_by=["topic_id", "partition"],
        )
        for use in (
            lambda: Catalog(uri).read(),
            lambda: Catalog(uri).read([KEY]),
            lambda: claim(Catalog(uri), fresh(), "a"),
        ):
            with pytest.raises(BadSettings, match="topic_id, partition, here by bucket") as caught:
                use()
            assert caught.value.where == f"{uri}/partitions"
            assert "Use that version" in caught.value.remedy
        assert DeltaTable(f"{uri}/partitions").version() == 0

    def test_states_survive_checkpoints(self, uri: str) -> None:
        for count in range(CHECKPOINT_INTERVAL // 2 + 2):
            row = committed(Catalog(uri), KEY, f"run-{count}", f"merged-{count}")
        assert list(Path(uri, "partitions", "_delta_log").glob("*.checkpoint.parquet"))
        assert Catalog(uri).read() == {KEY: row}
        assert row.epoch == CHECKPOINT_INTERVAL // 2 + 2
