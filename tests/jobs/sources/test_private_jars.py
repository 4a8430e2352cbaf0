"""The catalog's jars: which ones there are, and that others cannot exchange what Spark runs."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.sources.catalog_tables import HADOOP_AND_SDK, IVY, s3a_packages, with_delta


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir(mode=0o755)
    return tmp_path / "home"


def jars_of(**settings: str) -> Path:
    """The folder that Spark is given."""
    builder = SparkSession.Builder().config(map=dict(settings))
    return Path(with_delta(builder)._options[IVY])


def test_sparks_own_folder_is_used_and_made_private(home: Path) -> None:
    assert jars_of() == home / ".ivy2.5.2"
    assert stat.S_IMODE((home / ".ivy2.5.2").stat().st_mode) == 0o700


def test_a_folder_that_the_user_names_is_used(home: Path) -> None:
    assert jars_of(**{IVY: str(home / "jars")}) == home / "jars"
    assert list(home.iterdir()) == [home / "jars"]


@pytest.mark.parametrize("name", [".ivy2.5.2", "jars"])
def test_jars_that_others_could_exchange_are_fetched_again(
    home: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    (home / name).mkdir()
    (home / name).chmod(0o777)
    jars = jars_of() if name == ".ivy2.5.2" else jars_of(**{IVY: str(home / name)})
    assert home not in jars.parents
    assert stat.S_IMODE(jars.stat().st_mode) == 0o700
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.endswith(f"into a temporary folder: others may write to {home / name}")


def test_without_delta_one_sentence_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "delta", None)
    with pytest.raises(BadSettings, match=r"delta-spark is missing.*tierfold\[delta\]"):
        with_delta(SparkSession.Builder())


def test_a_spark_for_which_delta_has_no_jars_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    with pytest.raises(BadSettings, match=r"Spark 4\.3\.0: delta-spark .* has no jars"):
        with_delta(SparkSession.Builder())


def test_s3a_is_that_of_sparks_own_hadoop() -> None:
    spark = ".".join(pyspark.__version__.split(".")[:2])
    hadoop, _ = HADOOP_AND_SDK[spark]
    (jar,) = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    assert jar.name == f"hadoop-client-api-{hadoop}.jar"
    assert s3a_packages(spark)[0] == f"org.apache.hadoop:hadoop-aws:{hadoop}"
