"""Both engines, Spark and one process, write the same objects of every live segment.

`TIERFOLD_SPARK_SEEDS=0:40` runs these seeds instead of six, as `make soak` does.
"""

from __future__ import annotations

import filecmp

import pytest
from pyspark.sql import SparkSession

from tests.jobs.commands import ON_SPARK
from tests.oracle.fuzz_run import FuzzedTopic, Pass, result_of, run_passes, spark_seeds
from tests.oracle.oracles import Oracles


@pytest.fixture(scope="module")
def topics(
    oracles: Oracles, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, tuple[FuzzedTopic, FuzzedTopic]]:
    """Each seed's log after four passes in this process and after four on Spark."""
    assert spark.range(1).count() == 1  # `ON_SPARK` uses this session.
    folders = (tmp_path_factory.mktemp("local"), tmp_path_factory.mktemp("spark"))
    local = run_passes(oracles, folders[0], spark_seeds())
    on_spark = run_passes(oracles, folders[1], spark_seeds(), ON_SPARK)
    return {seed: (local[seed], on_spark[seed]) for seed in local}


@pytest.mark.parametrize("seed", spark_seeds())
def test_both_engines_write_the_same(
    topics: dict[int, tuple[FuzzedTopic, FuzzedTopic]], seed: int
) -> None:
    local, on_spark = topics[seed]
    assert len(local.passes) == len(on_spark.passes) > 1
    for here, there in zip(local.passes, on_spark.passes, strict=True):
        assert result_of(here.report) == result_of(there.report)
        assert _files(here) == _files(there)
        names = sorted(_files(here))
        _, different, unread = filecmp.cmpfiles(here.view, there.view, names, shallow=False)
        assert (different, unread) == ([], [])


def _files(done: Pass) -> set[str]:
    return {path.name for path in done.view.iterdir()}
