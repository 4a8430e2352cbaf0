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


def without_names(document: Any) -> Any:
    """The document without the run's name."""
    match document:
        case dict():
            names = document.keys() - {"run"}
            return {name: without_names(document[name]) for name in names}
        case list():
            return [without_names(one) for one in document]
        case _:
            return document


def test_a_verb_succeeds_and_its_document_is_that_of_the_command_line(tier: Path) -> None:
    asked = {"settings": SETTINGS, "options": {"now_ms": NOW_MS, "topics": ["orders"]}}
    run = ran(DAGS["plan"], tier=str(tier), **asked)
    assert (run.state, run.verb.state, run.verb.tries) == ("success", "success", 1)
    words = [word for item in SETTINGS.items() for word in ("--set", "{}={}".format(*item))]
    expected = command_line("plan", tier, "--topic", "orders", "--now", str(NOW_MS), *words)
    assert run.verb.document == expected
    assert expected["outcome"] == "planned"


def test_a_run_has_the_document_of_the_command_line_except_its_name(tier: Path) -> None:

    asked = {"settings": SETTINGS, "options": LOCAL | {"now_ms": NOW_MS}}
    kept = shutil.copytree(tier, tier.with_name("kept"))
    found = ran(DAGS["compact"], tier=str(tier), **asked).verb.document
    shutil.rmtree(tier)
    kept.rename(tier)
    words = [word for item in SETTINGS.items() for word in ("--set", "{}={}".format(*item))]
    now = ("--now", str(NOW_MS), "--engine", "local")
    assert without_names(found) == without_names(command_line("compact", tier, *now, *words))
    assert found is not None
    assert found["outcome"] == "compacted"


def test_a_wrong_setting_fails_for_good(tier: Path) -> None:
    run = ran(DAGS["compact twice"], tier=str(tier), settings={"cleanup.policy": "shrink"})
    assert (run.state, run.verb.state, run.verb.tries) == ("failed", "failed", 1)
    assert run.verb.document is not None
    assert run.verb.document["outcome"] == "bad_settings"
    assert "shrink" in run.verb.document["reason"]


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
    assert words in (run.verb.document or {})["reason"]


@pytest.mark.parametrize("name", ["memory", "application_args", "track_driver_via_k8s_api"])
def test_a_wrong_argument_of_spark_submit_fails_for_good(tier: Path, name: str) -> None:
    run = ran(DAGS["compact twice"], tier=str(tier), submit=SUBMIT | {name: True})
    assert (run.verb.state, run.verb.tries) == ("failed", 1)
    assert f"no argument '{name}'" in (run.verb.document or {})["reason"]


def test_a_failed_partition_fails_the_task_without_the_retries_of_fenced_runs(tier: Path) -> None:
    corrupt(tier, "orders")
    run = ran(DAGS["compact"], tier=str(tier), settings=SETTINGS, options=LOCAL)
    assert (run.state, run.verb.state, run.verb.tries) == ("failed", "failed", 1)
    document = run.verb.document or {}
    assert document["outcome"] == "failed"
    outcomes = {one["topic"]: one["outcome"] for one in document["partitions"]}
    assert outcomes == {"orders": "failed", "payments": "compacted"}


def test_a_failed_partition_has_the_retries_that_the_dag_gives(tier: Path) -> None:
    corrupt(tier, "orders")
    run = ran(DAGS["compact twice"], tier=str(tier), settings=SETTINGS, options=LOCAL)
    assert (run.verb.state, run.verb.tries) == ("failed", 2)


def test_a_tier_that_is_not_there_fails_for_good(tmp_path: Path) -> None:
    run = ran(DAGS["status"], tier=str(tmp_path / "nothing"))
    assert (run.verb.state, run.verb.tries) == ("failed", 1)


def test_a_fenced_run_is_retried(tier: Path) -> None:
    FENCING.update(runs=1, tier=str(tier))
    run = ran(DAGS["fenced"], tier=str(tier), settings=SETTINGS)
    assert (run.state, run.verb.state, run.verb.tries) == ("success", "success", 2)
    assert (run.verb.document or {})["outcome"] == "compacted"
    assert FENCING["runs"] == 0


def test_a_fenced_run_fails_once_its_retries_are_used_up(tier: Path) -> None:
    FENCING.update(runs=1, tier=str(tier))
    run = ran(DAGS["fenced, no retries"], tier=str(tier), settings=SETTINGS)
    assert (run.state, run.verb.state, run.verb.tries) == ("failed", "failed", 1)
    assert (run.verb.document or {})["outcome"] == "fenced"


def test_a_task_that_is_stopped_releases_its_claims(tier: Path) -> None:
    run = ran(DAGS["stopped"], tier=str(tier), settings=SETTINGS)
    assert (run.state, run.verb.state, run.verb.document) == ("failed", "failed", None)
    assert row_of(tier).owner_run == ""


def test_what_is_left_for_the_next_run_is_a_success(tier: Path) -> None:
    options = LOCAL | {"max_partitions": 1}
    for outcome in ("left", "compacted", "nothing_to_do"):
        run = ran(DAGS["compact"], tier=str(tier), settings=SETTINGS, options=options)
        assert (run.state, (run.verb.document or {})["outcome"]) == ("success", outcome)


def test_spark_runs_in_the_process_of_the_task(tier: Path) -> None:
    run = ran(DAGS["compact"], tier=str(tier), settings=SETTINGS)
    assert (run.state, (run.verb.document or {})["outcome"]) == ("success", "compacted")
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
    document = run.verb.document or {}
    assert document["outcome"] == "compacted"
    assert [one["topic"] for one in document["partitions"]] == ["orders"]
    assert set(catalog_of(tier).read([key_of("orders"), key_of("payments")])) == {key_of("orders")}


def test_under_spark_submit_the_document_decides_not_the_exit_code(tier: Path) -> None:
    for settings, outcome, options in (
        ({"cleanup.policy": "shrink"}, "bad_settings", {}),
        (SETTINGS, "bad_settings", {"engine": "fast"}),
    ):
        run = ran(
            DAGS["compact twice"],
            tier=str(tier),
            settings=settings,
            options=options,
            submit=SUBMIT,
        )
        assert (run.verb.state, run.verb.tries) == ("failed", 1)
        assert (run.verb.document or {})["outcome"] == outcome


def test_documents_stay_in_a_folder_that_is_given(tier: Path, tmp_path: Path) -> None:
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
    kept = sorted(folder.rglob("document.json"))
    assert [path.parent.name for path in kept] == ["-1-1", "-1-2"]
    assert ":" not in str(kept[0].relative_to(folder))  # No bucket has the name of a run.
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in kept]
    assert [document["outcome"] for document in documents] == ["failed", "failed"]
    assert run.verb.document == documents[-1]


def test_without_a_document_the_launcher_has_failed(tier: Path, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("raise SystemExit(7)\n", encoding="utf-8")
    run = ran(DAGS["compact twice"], tier=str(tier), submit=SUBMIT | {"application": str(script)})
    assert (run.verb.state, run.verb.tries, run.verb.document) == ("failed", 2, None)


def test_cluster_mode_needs_a_place_for_the_document(tier: Path) -> None:
    run = ran(DAGS["compact twice"], tier=str(tier), submit=SUBMIT | {"deploy_mode": "cluster"})
    assert (run.verb.state, run.verb.tries) == ("failed", 1)
    assert "document_folder" in (run.verb.document or {})["reason"]
