"""Each verb's own script runs that verb, under python and under spark-submit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.spark_cluster import SPARK
from tests.jobs.commands import in_own_process
from tests.jobs.log_dirs import WrittenLogDir
from tests.jobs.tiers import SAMPLE, sample_copy
from tierfold.jobs.cli.commands import tierfold as verbs

PARTITION: Final = "tiered-0"
NO_POLICY: Final = "no cleanup.policy is set"

VERBS: Final[dict[str, tuple[tuple[str, ...], str, int]]] = {
    "plan": (("TIER",), NO_POLICY, 0),
    "compact": (("TIER",), NO_POLICY, 0),
    "status": (("TIER",), "0–12154", 0),
    "doctor": (("TIER",), "nothing is wrong", 0),
    "verify": (("TIER", "--topic", "nothing*"), "No partitions", 0),
    "history": (("TIER", PARTITION), "no run has touched it", 0),
    "runs": (("TIER",), "No run is recorded", 0),
    "report": (("TIER", "-o", "PAGE"), "report.html", 0),
    "restore": (("TIER", PARTITION, "--to", "now"), "no run has touched tiered-0", 2),
    "rebuild": (("TIER",), "no brokers are named", 2),
    "forget": (("TIER", PARTITION), "there is nothing to forget", 0),
    "vacuum": (("TIER",), "nothing is due", 0),
    "upload": (("LOGDIR", "TIER"), "No partitions", 0),
    "local-retention": (("LOGDIR", "TIER"), "No partitions", 0),
    "dump": (("SEGMENT",), '"baseOffset": 0', 0),
    "init": (("TIER", "-o", "-"), "[topics.", 0),
    "config": (("orders",), "settings of orders", 0),
}
"""The arguments of each, a part of its output, and its exit code; none starts a Spark session."""

WAYS: Final[dict[str, tuple[str | Path, ...]]] = {
    "python": (sys.executable,),
    "spark-submit": (SPARK / "bin" / "spark-submit", "--master", "local[1]"),
}


@pytest.fixture(
    scope="module", params=["python", pytest.param("spark-submit", marks=pytest.mark.soak)]
)
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """Each launcher's output and exit code, by verb; one process starts all of them, for speed."""
    folder = tmp_path_factory.mktemp("launched")
    places = {
        "TIER": str(sample_copy(folder / "tier")),
        "LOGDIR": str(WrittenLogDir(folder / "data").path),
        "PAGE": str(folder / "report.html"),
        "SEGMENT": str(next(SAMPLE.glob("kafka-tiered-storage/*/00000000000000000000-*.log"))),
    }
    command_lines = [
        [f"jobs/{verb.replace('-', '_')}_job.py", *(places.get(word, word) for word in words)]
        for verb, (words, _, _) in VERBS.items()
    ]
    commands, results = folder / "commands.json", folder / "results.json"
    commands.write_text(json.dumps(command_lines), encoding="utf-8")
    script = "tests/end_to_end/launch_each.py"
    ran = in_own_process(*WAYS[request.param], script, commands, results)
    assert ran.code == 0, ran.stdout + ran.stderr
    return dict(zip(VERBS, json.loads(results.read_text(encoding="utf-8")), strict=True))


def test_every_verb_of_the_command_line_has_a_launcher() -> None:
    assert set(VERBS) == set(verbs.commands)


@pytest.mark.parametrize("verb", VERBS)
def test_a_launcher_runs_its_verb(verb: str, found: dict[str, dict[str, Any]]) -> None:
    _, text, code = VERBS[verb]
    assert text in found[verb]["output"]
    assert found[verb]["code"] == code
