"""`tierfold.read`, `register` and `read_segment` take the keywords that all verbs take."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

import tierfold
from tests.jobs.tiers import RECORDS_PER_SEGMENT, key_of, made_tier, put_updates, updated_tier
from tests.storage.emulators import IDENTITY, s3, uploaded
from tests.storage.tiers.aiven_samples import ENCRYPTED, KEY_FILE
from tierfold.jobs.sources.segment_options import FORMAT


def test_read_gives_the_formats_records_in_the_session_that_is_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    tier = updated_tier(tmp_path, (key_of("orders"), key_of("payments")), segments=2)
    found = tierfold.read(tier, topics=["orders"])
    assert found.sparkSession is spark
    tierfold.register(spark)
    plain = spark.read.format(FORMAT).option("topics", "orders").load(str(tier))
    order = ("topic", "partition", "offset")
    assert_df_equality(found.orderBy(*order), plain.orderBy(*order))
    assert found.count() == 2 * RECORDS_PER_SEGMENT
    assert tierfold.read(tier, ["key"], latest=True, spark=spark).columns == ["key"]
    assert spark.range(1).count() == 1


def test_read_says_which_keyword_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="read\\(\\) has no keyword 'colour'; it takes catalog"):
        tierfold.read(made_tier(tmp_path), colour="red")  # type: ignore[call-arg]
    with pytest.raises(tierfold.BadSettings, match="topic none: no topic has that name"):
        tierfold.read(tmp_path, topics=["none"])
    shown = inspect.signature(tierfold.read).parameters
    assert {"columns", "latest", "settings", "spark"} <= shown.keys()


def test_read_takes_the_store_from_the_settings_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Credentials never travel to Spark's workers: these have them from their own environment.
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    folder = made_tier(tmp_path / "tier")
    put_updates(folder, key_of("orders"), 0)
    uri, config = uploaded(folder, s3()), tmp_path / "tierfold.toml"
    config.write_text(f'[store]\nendpoint = "{s3()}"\n"path.style" = true\n')
    assert tierfold.read(uri, ["offset"], config=config).count() == RECORDS_PER_SEGMENT
    assert tierfold.read(uri, ["offset"], config=config, latest=True).count() == 6


def test_read_segment_takes_key_files(tmp_path: Path) -> None:
    first = ENCRYPTED.segments()[0]
    log = ENCRYPTED.bucket / f"{ENCRYPTED.key_prefix}{first.stem}.log"
    by_id = tierfold.read_segment(log, encryption_keys={"key-1": KEY_FILE})
    as_text = tierfold.read_segment(log, encryption_keys=[f"key-1={KEY_FILE}"])
    assert by_id.records == as_text.records
    with pytest.raises(tierfold.UnreadableObject, match="encryption-key key-1=FILE"):
        tierfold.read_segment(log)
