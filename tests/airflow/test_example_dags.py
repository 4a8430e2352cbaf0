"""The example DAGs succeed on a sound tier, and leave out only a corrupt partition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dag_runs import ran

from tests.jobs.claims import catalog_of
from tests.jobs.tiers import flip_last_byte, key_of, sample_copy, updated_tier
from tierfold.conf.airflow import compact_tier, compact_with_spark_submit

TOPICS = ("invoices", "orders", "payments")
ALWAYS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "tier.binding": "detached"}


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "tier", [key_of(topic) for topic in TOPICS], 3)


def outcomes(document: dict[str, Any] | None) -> dict[str, str]:
    assert document is not None
    return {entry["topic"]: entry["outcome"] for entry in document["partitions"]}


def test_the_sample_is_planned_compacted_verified_and_vacuumed(tmp_path: Path) -> None:
    tier = sample_copy(tmp_path / "tier")
    run = ran(compact_tier.dag, tier=str(tier), settings=ALWAYS, engine="local")
    assert run.state == "success"
    for verb, outcome in (("compact", "compacted"), ("verify", "sound")):
        assert run.states(f"each_group.{verb}") == ["success"]
        assert outcomes(run.tasks[f"each_group.{verb}", 0].document) == {"tiered": outcome}
    assert run.states("each_group.vacuum") == ["success"]
    assert run.tasks["report_failure", -1].state == "skipped"


def test_a_corrupt_partition_fails_the_run_and_only_that_partition_is_left_out(tier: Path) -> None:
    flip_last_byte(next((tier / "kafka-tiered-storage").glob("orders-0-*/0*.log")))
    run = ran(compact_tier.dag, tier=str(tier), settings=ALWAYS, engine="local", groups=2)
    assert run.state == "failed"
    assert run.tasks["report_failure", -1].state == "failed"
    vacuumed: dict[str, str] = {}
    for group in range(2):
        compacted = outcomes(run.tasks["each_group.compact", group].document)
        verified = outcomes(run.tasks["each_group.verify", group].document)
        assert compacted.keys() == verified.keys()
        assert (run.tasks["each_group.compact", group].state == "failed") == ("orders" in compacted)
        vacuumed |= outcomes(run.tasks["each_group.vacuum", group].document)
    assert vacuumed.keys() == {"invoices", "payments"}
    assert set(catalog_of(tier).read([key_of(topic) for topic in TOPICS])) >= {
        key_of("invoices"),
        key_of("payments"),
    }


def test_without_a_plan_nothing_runs_and_the_run_fails(tmp_path: Path) -> None:
    run = ran(compact_tier.dag, tier=str(tmp_path / "nothing"), settings=ALWAYS, engine="local")
    assert run.state == "failed"
    assert run.tasks["plan", -1].tries == 1
    assert {
        state
        for name in ("compact", "verify", "vacuum")
        for state in run.states(f"each_group.{name}")
    } <= {"skipped"}


@pytest.mark.soak
def test_the_provider_alone_compacts_verifies_and_vacuums(tier: Path) -> None:
    jobs = Path(__file__).resolve().parents[2] / "jobs"
    run = ran(compact_with_spark_submit.dag, tier=str(tier), jobs=str(jobs))
    assert run.state == "success"
    assert {run.tasks[verb, -1].state for verb in ("compact", "verify", "vacuum")} == {"success"}
    assert len(catalog_of(tier).read([key_of(topic) for topic in TOPICS])) == 3
