"""Each verb that reads whole segments, once on Spark: it says and leaves what one process does."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from tests.jobs.commands import CLOCK, COMPACT, ON_SPARK, ROOT, TIMES, status_of, tierfold
from tests.jobs.log_dirs import WrittenLogDir
from tierfold.storage.tiers.tier_uris import open_tier

NOW: Final = (CLOCK, "1795305600000")
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
LOCAL: Final = ("--engine", "local")
VERBS: Final[dict[str, tuple[str, ...]]] = {
    "compact": (*COMPACT, "--set", "tier.binding=detached", *NOW),
    "verify": NOW,
}


@pytest.fixture(scope="module")
def told(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, dict[str, Any]]]:
    """The document of each verb on a copy of the sample, by engine.

    A broker's log directory has the same segments.
    """
    assert spark.range(1).count() == 1
    sample = open_tier(str(ROOT / "sample"))
    (key,) = sample.partitions()
    logs = WrittenLogDir(tmp_path_factory.mktemp("broker") / "data").hold(key, sample)
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for engine in (LOCAL, ON_SPARK):
        tier = tmp_path_factory.mktemp(engine[1])
        shutil.copytree(ROOT / "sample", tier, dirs_exist_ok=True)
        documents = {
            verb: ran(verb, tier, *how, *engine, "--log-dir", str(logs.path))
            for verb, how in VERBS.items()
        }
        found[engine[1]] = {**documents, "live": lived(tier)}
    return found


def ran(verb: str, tier: Path, *arguments: str) -> dict[str, Any]:
    done = tierfold(verb, tier, "--json", *arguments)
    assert done.code == 0, done.stderr
    document: dict[str, Any] = json.loads(TIME.sub("<time>", done.stdout))
    for name in ("run", "tier", *TIMES):
        document.pop(name)
    return document


def lived(tier: Path) -> dict[str, bytes]:
    """The live objects by the part of their names that is not a segment's id."""
    (status,) = status_of(tier).values()
    logs = [Path(segment["log"]) for segment in status["segments"]]
    files = [file for log in logs for file in log.parent.glob(f"{log.stem}.*")]
    return {f"{file.name[:20]}{file.suffix}": file.read_bytes() for file in files}


@pytest.mark.parametrize("what", [*VERBS, "live"])
def test_spark_and_one_process_say_and_leave_the_same(
    told: dict[str, dict[str, dict[str, Any]]], what: str
) -> None:
    assert told["spark"][what]
    assert told["spark"][what] == told["local"][what]


@pytest.mark.parametrize("verb", VERBS)
def test_executors_read_a_log_directory(
    told: dict[str, dict[str, dict[str, Any]]], verb: str
) -> None:
    assert told["spark"][verb]["log_dirs"]["reads"] >= 3
