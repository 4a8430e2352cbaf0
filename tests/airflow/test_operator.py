"""The outcome in a verb's document decides whether a task succeeds, fails or is retried."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dag_runs import ran
from pyspark.sql import SparkSession
from verb_dags import DAGS, FENCING

from tests.jobs.claims import catalog_of, row_of
from tests.jobs.tiers import flip_last_byte, key_of, updated_tier

NOW_MS = 1_790_000_000_000
SETTINGS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
SETTING_OPTIONS = [word for item in SETTINGS.items() for word in ("--set", "{}={}".format(*item))]
LOCAL = {"engine": "local"}
SUBMIT = {"conn_id": "spark_default"}


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "tier", [key_of("orders"), key_of("payments")], 3)


def corrupt(tier: Path, topic: str) -> None:
    flip_last_byte(next((tier / "kafka-tiered-storage").glob(f"{topic}-0-*/0*.log")))


def command_line(*words: str | Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tierfold", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def without_run_names(document: Any) -> Any:
    """The document without the names and times of runs."""
    match document:
        case dict():
            return {
                name: without_run_names(value)
                for name, value in document.items()
                if name not in {"run", "started_at_ms", "finished_at_ms", "duration_ms"}
            }
        case list():
            return [without_run_names(entry) for entry in document]
        case _:
            return document


def test_a_verb_succeeds_and_its_document_is_that_of_the_command_line(tier: Path) -> None:
    options = {"now_ms": NOW_MS, "topics": ["orders"]}
    run = ran(DAGS["plan"], tier=str(tier), settings=SETTINGS, options=options)
    assert (run.state, run.verb.state, run.verb.tries) == ("success", "success", 1)
    words = ("--topic", "orders", "--now", str(NOW_MS), *SETTING_OPTIONS)
    expected = without_run_names(command_line("plan", tier, *words))
    assert without_run_names(run.verb.document) == expected
    assert expected["outcome"] == "planned"


def test_a_run_has_the_document_of_the_command_line_except_its_name(tier: Path) -> None:
    copy = shutil.copytree(tier, tier.with_name("copy"))
    options = LOCAL | {"now_ms": NOW_MS}
    run = ran(DAGS["compact"], tier=str(tier), settings=SETTINGS, options=options)
    # The document has the tier's path.
    shutil.rmtree(tier)
    copy.rename(tier)
    words = ("--now", str(NOW_MS), "--engine", "local", *SETTING_OPTIONS)
    expected = without_run_names(command_line("compact", tier, *words))
    assert without_run_names(run.verb.document) == expected
    assert run.verb.of_document("outcome") == "compacted"


def test_a_wrong_setting_fails_for_good(tier: Path) -> None:
    run = ran(DAGS["compact twice"], tier=str(tier), settings={"cleanup.policy": "shrink"})
    assert (run.state, run.verb.state, run.verb.tries) == ("failed", "failed", 1)
    assert run.verb.of_document("outcome") == "bad_settings"
    assert "shrink" in run.verb.of_document("reason")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topic": "orders"}, "has no keyword 'topic'"),
        ({"tier": "x"}, "has no keyword 'tier'"),
        ({"partitions_from": None}, "partitions_from is null"),
    ],
)
def test_a_wrong_option_fails_for_good(tier: Path, options: dict[str, Any], words: str) -> None:
    run = ran(DAGS["compact twice"], tier=str(tier), options=options)
    assert (run.verb.state, run.verb.tries) == ("failed", 1)
    assert words in run.verb.of_document("reason")


def test_a_task_runs_after_the_one_whose_document_it_needs(tier: Path) -> None:
    run = ran(DAGS["before its plan"], tier=str(tier), settings=SETTINGS)
    assert run.verb.state == "failed"
    said = "Let this task run only after that one, and clear both."
    assert said in run.verb.of_document("reason")
    run = ran(DAGS["after its plan"], tier=str(tier), settings=SETTINGS)
    assert (run.state, run.verb.of_document("outcome")) == ("success", "compacted")


@pytest.mark.parametrize("name", ["memory", "application_args", "track_driver_via_k8s_api"])
def test_a_wrong_argument_of_spark_submit_fails_for_good(tier: Path, name: str) -> None:
    run = ran(DAGS["compact twice"], tier=str(tier), submit=SUBMIT | {name: True})
    assert (run.verb.state, run.verb.tries) == ("failed", 1)
    assert f"no argument '{name}'" in run.verb.of_document("reason")


def test_a_failed_partition_fails_the_task_without_the_retries_of_fenced_runs(tier: Path) -> None:
    corrupt(tier, "orders")
    run = ran(DAGS["compact"], tier=str(tier), settings=SETTINGS, options=LOCAL)
    assert (run.state, run.verb.state, run.verb.tries) == ("failed", "failed", 1)
    assert run.verb.of_document("outcome") == "failed"
    entries = run.verb.of_document("partitions")
    outcomes = {entry["topic"]: entry["outcome"] for entry in entries}
    assert outcomes == {"orders": "failed", "payments": "compacted"}


def test_a_failed_partition_has_the_retries_that_the_dag_gives(tier: Path) -> None:
    corrupt(tier, "orders")
    run = ran(DAGS["compact twice"], tier=str(tier), settings=SETTINGS, options=LOCAL)
    assert (run.verb.state, run.verb.tries) == ("failed", 2)


def test_a_missing_tier_fails_for_good(tmp_path: Path) -> None:
    run = ran(DAGS["status"], tier=str(tmp_path / "nothing"))
    assert (run.verb.state, run.verb.tries) == ("failed", 1)


def test_a_fenced_run_is_retried(tier: Path) -> None:
    FENCING.update(runs=1, tier=str(tier))
    run = ran(DAGS["fenced"], tier=str(tier), settings=SETTINGS)
    assert (run.state, run.verb.state, run.verb.tries) == ("success", "success", 2)
    assert run.verb.of_document("outcome") == "compacted"
    assert FENCING["runs"] == 0


def test_a_fenced_run_fails_once_its_retries_are_used_up(tier: Path) -> None:
    FENCING.update(runs=1, tier=str(tier))
    run = ran(DAGS["fenced, no retries"], tier=str(tier), settings=SETTINGS)
    assert (run.state, run.verb.state, run.verb.tries) == ("failed", "failed", 1)
    assert run.verb.of_document("outcome") == "fenced"


def test_a_task_that_is_stopped_releases_its_claims(tier: Path) -> None:
    run = ran(DAGS["stopped"], tier=str(tier), settings=SETTINGS)
    assert (run.state, run.verb.state, run.verb.document) == ("failed", "failed", None)
    assert row_of(tier).owner_run == ""


def test_a_run_that_leaves_partitions_to_the_next_one_succeeds(tier: Path) -> None:
    options = LOCAL | {"max_partitions": 1}
    for outcome in ("left", "compacted", "nothing_to_do"):
        run = ran(DAGS["compact"], tier=str(tier), settings=SETTINGS, options=options)
        assert (run.state, run.verb.of_document("outcome")) == ("success", outcome)


@pytest.mark.soak
def test_spark_runs_in_the_process_of_the_task(tier: Path) -> None:
    run = ran(DAGS["compact"], tier=str(tier), settings=SETTINGS)
    assert (run.state, run.verb.of_document("outcome")) == ("success", "compacted")
    session = SparkSession.getActiveSession()
    assert session is not None
    session.stop()


def test_spark_submit_runs_a_verb_and_its_document_arrives(tier: Path) -> None:
    run = ran(
        DAGS["compact"],
        tier=str(tier),
        settings=SETTINGS,
        options={"partitions_from": [{"topic": "orders", "partition": 0}]},
        submit=SUBMIT,
    )
    assert (run.state, run.verb.tries) == ("success", 1)
    assert run.verb.of_document("outcome") == "compacted"
    assert [entry["topic"] for entry in run.verb.of_document("partitions")] == ["orders"]
    assert set(catalog_of(tier).read([key_of("orders"), key_of("payments")])) == {key_of("orders")}


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"cleanup.policy": "shrink"}, {}),
        pytest.param(SETTINGS, {"engine": "fast"}, marks=pytest.mark.soak),
    ],
)
def test_under_spark_submit_the_document_decides_not_the_exit_code(
    tier: Path, settings: dict[str, Any], options: dict[str, Any]
) -> None:
    run = ran(
        DAGS["compact twice"], tier=str(tier), settings=settings, options=options, submit=SUBMIT
    )
    assert (run.verb.state, run.verb.tries) == ("failed", 1)
    assert run.verb.of_document("outcome") == "bad_settings"


@pytest.mark.soak
def test_documents_stay_in_the_document_folder(tier: Path, tmp_path: Path) -> None:
    corrupt(tier, "orders")
    folder = tmp_path / "documents"
    run = ran(
        DAGS["compact twice"],
        tier=str(tier),
        settings=SETTINGS,
        options=LOCAL,
        submit=SUBMIT | {"document_folder": str(folder)},
    )
    assert (run.verb.state, run.verb.tries) == ("failed", 2)
    files = sorted(folder.rglob("document.json"))
    assert [path.parent.name for path in files] == ["-1-1", "-1-2"]
    # A run's name has colons, which the path must not contain.
    assert ":" not in str(files[0].relative_to(folder))
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    assert [document["outcome"] for document in documents] == ["failed", "failed"]
    assert run.verb.document == documents[-1]


def test_a_launcher_that_leaves_no_document_fails_the_task(tier: Path, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("raise SystemExit(7)\n", encoding="utf-8")
    run = ran(DAGS["compact twice"], tier=str(tier), submit=SUBMIT | {"application": str(script)})
    assert (run.verb.state, run.verb.tries, run.verb.document) == ("failed", 2, None)


def test_cluster_mode_needs_a_place_for_the_document(tier: Path) -> None:
    run = ran(DAGS["compact twice"], tier=str(tier), submit=SUBMIT | {"deploy_mode": "cluster"})
    assert (run.verb.state, run.verb.tries) == ("failed", 1)
    assert "document_folder" in run.verb.of_document("reason")
