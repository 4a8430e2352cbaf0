"""A run with a key of an encrypted tier refuses a Spark session that writes plain text to disks."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.jobs.aiven import BOTH, ENCRYPTED_CASE, PREFIX, ZSTD, AivenCase, manifests
from tests.jobs.commands import ALWAYS, ON_SPARK, tierfold
from tests.jobs.tiers import key_of, latest_updates, updated_tier
from tests.storage.tiers.aiven_samples import KEY_FILE
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.jobs.sources.segment_options import FORMAT
from tierfold.jobs.sources.segment_source import register
from tierfold.jobs.spark.disk_encryption import IO_ENCRYPTION, encrypts_disk


@pytest.fixture
def uploads(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "local", (key_of("orders"),), segments=2)


@pytest.mark.parametrize("case", [ENCRYPTED_CASE, BOTH], ids=["encrypted", "both"])
@pytest.mark.parametrize("verb", ["compact", "verify"])
def test_an_existing_session_must_encrypt(
    spark: SparkSession, uploads: Path, tmp_path: Path, case: AivenCase, verb: str
) -> None:
    assert not encrypts_disk(spark)
    tier = aiven_tier(uploads, tmp_path / "tier", case.variant)
    arguments = (*ALWAYS, *ON_SPARK, *case.arguments)
    tierfold(verb, tier, *arguments).refuses(IO_ENCRYPTION, f"--conf {IO_ENCRYPTION}=true")
    assert len(manifests(tier)) == 2


def test_the_second_opinion_needs_an_encrypting_session(
    spark: SparkSession, uploads: Path, tmp_path: Path
) -> None:
    assert not encrypts_disk(spark)
    tier, say = aiven_tier(uploads, tmp_path / "tier", BOTH.variant), BOTH.arguments
    assert tierfold("compact", tier, *ALWAYS, *say).code == 0
    tierfold("verify", tier, *say, "--second-opinion").refuses(IO_ENCRYPTION)


def test_the_reader_needs_an_encrypting_session(
    spark: SparkSession, uploads: Path, tmp_path: Path
) -> None:
    tier = aiven_tier(uploads, tmp_path / "tier", BOTH.variant)
    register(spark)
    reader = spark.read.format(FORMAT).option("key.prefix", PREFIX)
    with pytest.raises(PySparkException, match=f"Start the session .* {IO_ENCRYPTION}=true"):
        reader.option("encryption.key", f"key-1={KEY_FILE}").load(str(tier)).count()


def test_a_tier_without_encryption_needs_no_encrypting_session(
    spark: SparkSession, uploads: Path, tmp_path: Path
) -> None:
    tier, say = aiven_tier(uploads, tmp_path / "tier", ZSTD.variant), ZSTD.arguments
    done = tierfold("compact", tier, *ALWAYS, *ON_SPARK, *say, "--json")
    assert (done.code, done.entry["outcome"]) == (0, "compacted"), done
    assert tierfold("verify", tier, *say, "--second-opinion").code == 0
    register(spark)
    rows = spark.read.format(FORMAT).option("key.prefix", PREFIX).load(str(tier)).collect()
    assert {row["key"]: row["value"] for row in rows} == latest_updates(2)
