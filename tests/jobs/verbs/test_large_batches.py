"""A batch that takes more than is accepted by default, and `decompressed.batch.max.bytes`."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import tierfold as api
from tests.jobs.commands import (
    ALWAYS,
    ON_SPARK,
    Ran,
    in_own_process,
    script,
    status_of,
    tierfold,
    told,
)
from tests.jobs.tiers import (
    files_below,
    folder_of,
    key_of,
    made_tier,
    put_segment,
    put_updates,
    records_in,
)
from tests.storage.legacy_messages import message, wrapper
from tests.storage.live_segments import data
from tests.storage.stored_logs import small_windows
from tierfold.compaction.model.errors import BadSettings, CorruptLog
from tierfold.jobs.sources.segment_options import request_of
from tierfold.jobs.verbs.dump import dump_lines
from tierfold.storage.kafka.compression import PLAIN_BYTES_TRUSTED, Codec, PlainLimits
from tierfold.storage.segments.log_windows import WINDOW_BYTES
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.segments.segment_tables import segment_tables

LARGE, SMALL = key_of("large"), key_of("small")
SETTING = "decompressed.batch.max.bytes"
ALLOWED_BYTES = PLAIN_BYTES_TRUSTED + 2**10
TO_ALLOW = ("--set", f"{SETTING}={ALLOWED_BYTES}")
FORMAT = "kafka-segments"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topics; one has a batch of 128 MiB of one letter, in some kilobytes of zstd."""
    tier = made_tier(tmp_path_factory.mktemp("large batches"))
    large = b"v" * PLAIN_BYTES_TRUSTED
    first = replace(data(0, (b"a", b"old"), (b"b", large)), codec=Codec.ZSTD)
    put_segment(tier, LARGE, [first], start_offset=0)
    put_segment(tier, LARGE, [data(2, (b"a", b"new"))], start_offset=2)
    put_updates(tier, SMALL, 0)
    put_updates(tier, SMALL, 1)
    return tier


@pytest.fixture
def tier(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "tier"))


def verified(tier: Path, *options: str) -> Ran:
    return tierfold("verify", tier, "--topic", "large", *options, "--json")


def test_the_setting_that_the_message_names_lets_the_batch_in(tier: Path) -> None:
    before = files_below(folder_of(tier, LARGE))
    refused = tierfold("compact", tier, *ALWAYS, "--json")
    assert refused.code == 3
    assert refused.outcomes == {("large", 0): "failed", ("small", 0): "compacted"}
    reason = refused.partitions["large", 0]["reason"]
    assert not told(
        reason,
        ".log: the batch at byte 0 (base offset 0)",
        f"holds more than {PLAIN_BYTES_TRUSTED} when decompressed",
        "set decompressed.batch.max.bytes to the most that a batch may take",
    ), reason
    assert files_below(folder_of(tier, LARGE)) == before
    allowed = tierfold("compact", tier, *ALWAYS, *TO_ALLOW, "--json")
    assert (allowed.code, allowed.outcomes["large", 0]) == (0, "compacted")
    assert verified(tier, *TO_ALLOW).code == 0
    assert "decompressed.batch.max.bytes" in verified(tier).partitions["large", 0]["reason"]
    lines = tierfold("history", tier, "large-0", "--json").entries[0]["history"]
    (found,) = (line for line in lines if line["event"] == "found")
    restored = tierfold("restore", tier, "large-0", "--to", found["committed_at"], "--json")
    assert (restored.code, restored.outcomes["large", 0]) == (0, "restored")


def large_log(tier: Path) -> Path:
    return min(folder_of(tier, LARGE).glob("*.log"))


def keys_in(frame: DataFrame) -> list[tuple[str, bytes]]:
    return sorted((row["topic"], bytes(row["key"])) for row in frame.collect())


def test_read_honours_the_setting_of_each_topic(
    spark: SparkSession, tier: Path, tmp_path: Path
) -> None:
    config, columns = tmp_path / "tierfold.toml", ("topic", "key")
    config.write_text(f'[topics."small"]\n"{SETTING}" = {ALLOWED_BYTES}\n')
    with pytest.raises(PySparkException, match=f"set {SETTING} to the most"):
        api.read(tier, columns, spark=spark, config=config).collect()
    config.write_text(config.read_text().replace("small", "large"))
    for latest, times in ((False, 2), (True, 1)):
        found = keys_in(api.read(tier, columns, latest=latest, spark=spark, config=config))
        assert found.count(("large", b"a")) == times
        assert found.count(("large", b"b")) == 1
        assert ("small", b"k0") in found


def test_the_format_has_an_option_of_that_name(spark: SparkSession, tier: Path) -> None:
    api.register(spark)
    reader = spark.read.format(FORMAT).option("columns", "topic,key").option("topics", "large")
    with pytest.raises(PySparkException, match=f"set {SETTING} to the most"):
        reader.load(str(tier)).collect()
    allowed = reader.option(SETTING, ALLOWED_BYTES)
    assert [key for _, key in keys_in(allowed.load(str(tier)))] == [b"a", b"a", b"b"]


def test_a_second_opinion_honours_it(spark: SparkSession, tier: Path) -> None:
    assert spark.version
    assert tierfold("compact", tier, *ALWAYS, *TO_ALLOW, "--json").code == 0
    found = verified(tier, *TO_ALLOW, "--second-opinion", *ON_SPARK)
    assert (found.code, found.partitions["large", 0]["second_opinion"]["keys"]) == (0, 2)


@pytest.mark.soak
def test_dump_has_an_option_that_its_message_names(tier: Path) -> None:
    log = large_log(tier)
    refused = tierfold("dump", log)
    assert refused.code == 3
    assert not told(refused.stderr, "set --decompressed-batch-max-bytes to the most"), refused
    dump = (script("tierfold"), "dump", "--decompressed-batch-max-bytes", str(ALLOWED_BYTES))
    dumped = in_own_process(*dump, log)
    assert dumped.code == 0, dumped.stderr
    batch, first, second = dumped.stdout.splitlines()
    assert json.loads(batch)["count"] == 2
    assert json.loads(first)["value"] == "old"
    assert f'"valueSize": {PLAIN_BYTES_TRUSTED}' in second
    tierfold("dump", "--decompressed-batch-max-bytes", "0", log).refuses("range")


def test_read_segment_has_a_keyword_that_its_message_names(tier: Path) -> None:
    log = large_log(tier)
    with pytest.raises(CorruptLog, match="set decompressed_batch_max_bytes to the most"):
        api.read_segment(log)
    found = api.read_segment(log, decompressed_batch_max_bytes=ALLOWED_BYTES)
    assert found.records.column("key").to_pylist() == [b"a", b"b"]


@pytest.mark.soak
def test_large_wrappers_are_read_alike(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    large = wrapper(0, message(0, b"v" * PLAIN_BYTES_TRUSTED))
    log = put_segment(tier, LARGE, [large, message(1, b"v")], start_offset=0)
    with pytest.raises(CorruptLog, match="set decompressed_batch_max_bytes to the most"):
        api.read_segment(log)
    found = api.read_segment(log, decompressed_batch_max_bytes=ALLOWED_BYTES)
    assert found.records.column("offset").to_pylist() == [0, 1]
    with pytest.raises(CorruptLog, match="set --decompressed-batch-max-bytes to the most"):
        list(dump_lines(str(log)))
    _, record, *_ = dump_lines(str(log), batch_bytes_max=ALLOWED_BYTES)
    assert f'"valueSize": {PLAIN_BYTES_TRUSTED}' in record
    refused = tierfold("compact", tier, *ALWAYS, "--json").partitions["large", 0]["reason"]
    assert f"set {SETTING} to the most" in refused
    assert tierfold("compact", tier, *ALWAYS, *TO_ALLOW, "--json").code == 0
    (live,) = status_of(tier)["large", 0]["segments"]
    assert [offset for offset, _, _ in records_in([live["log"]])] == [1]


@pytest.mark.soak
def test_uploads_that_overlap_are_compared_by_it(spark: SparkSession, tmp_path: Path) -> None:
    """Only the messages in a wrapper say where it begins, so discovery reads them, too."""
    tier = made_tier(tmp_path / "tier")
    large = wrapper(2, message(0, b"v" * PLAIN_BYTES_TRUSTED))
    put_segment(tier, LARGE, [message(0, b"u"), message(1, b"u"), large], start_offset=0)
    put_segment(tier, LARGE, [large, message(3, b"w")], start_offset=2)
    for verb in ("compact", "verify", "status"):
        refused = tierfold(verb, tier, *ALWAYS, "--json")
        assert f"set {SETTING} to the most" in refused.stdout, verb
    api.register(spark)
    reader = spark.read.format(FORMAT).option("columns", "topic,key").option(SETTING, ALLOWED_BYTES)
    assert [key for _, key in keys_in(reader.load(str(tier)))] == [b"k"] * 4
    assert tierfold("compact", tier, *ALWAYS, *TO_ALLOW, "--json").code == 0
    (live,) = status_of(tier, *TO_ALLOW)["large", 0]["segments"]
    assert [offset for offset, _, _ in records_in([live["log"]])] == [3]
    assert verified(tier, *TO_ALLOW).code == 0
    last = wrapper(4, message(0, b"v" * PLAIN_BYTES_TRUSTED))
    put_segment(tier, LARGE, [last], start_offset=4).with_suffix(".timeindex").unlink()
    notes = [str(status_of(tier, *options)["large", 0]) for options in ((), TO_ALLOW)]
    assert [f"set {SETTING} to the most" in note for note in notes] == [True, False]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_batches_that_are_each_allowed_stop_no_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: Codec
) -> None:
    tier, value, batches = made_tier(tmp_path / "tier"), bytes(300_000), 20
    drafts = [data(i, (b"k%d" % (i % 7), value)) for i in range(batches)]
    log = put_segment(
        tier, LARGE, [replace(draft, codec=codec) for draft in drafts], start_offset=0
    )
    small_windows(monkeypatch, WINDOW_BYTES, limits=PlainLimits(together_bytes=10**6))
    content = read_segment(log)
    few = replace(content, limits=PlainLimits(together_bytes=10**6))
    assert list(few.batches()) == list(content.batches())
    tables = segment_tables(content.log, str(log), PlainLimits(together_bytes=10**6))
    assert tables.records == segment_tables(content.log, str(log)).records
    assert tierfold("compact", tier, *ALWAYS, "--json").outcomes == {("large", 0): "compacted"}
    assert verified(tier).code == 0
    kept = records_in([segment["log"] for segment in status_of(tier)["large", 0]["segments"]])
    assert [offset for offset, _, _ in kept] == [*range(batches - 7, batches)]


def test_a_reader_has_the_option_of_the_same_name() -> None:
    assert request_of({"path": "/tier"}).batch_bytes_max == 0
    given = request_of({"path": "/tier", "decompressed.batch.max.bytes": "7"})
    assert given.batch_bytes_max == 7
    for wrong in ("0", "x", str(2**31)):
        with pytest.raises(BadSettings, match=r"decompressed\.batch\.max\.bytes is") as caught:
            request_of({"path": "/tier", "decompressed.batch.max.bytes": wrong})
        assert caught.value.remedy == "Give a whole number from 1 to 2147483647."
