"""An approved plan is published, and the first settings of a cluster, beside a real broker."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.cluster import KafkaCluster
from tests.brokers.nights import UPLOADS, Night, uploaded
from tests.jobs.commands import Ran
from tests.jobs.commands import tierfold as command
from tests.jobs.verbs.test_init import variants
from tierfold.jobs.settings.resolution import resolve

pytestmark = pytest.mark.soak


def approves(night: Night, folder: Path) -> tuple[str, dict[str, Any]]:
    """Plan one topic into a file; return the command that carries it out, and the file."""
    file = folder / "plan.json"
    printed = night.runs(f"tierfold plan /mnt/tier --config tierfold.toml --out {file}")
    assert "To carry out exactly this: tierfold compact" in printed
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    words = ("tierfold", "compact", "/mnt/tier", "--config", "tierfold.toml", "--plan", str(file))
    return shlex.join(words), document


def carries_out(night: Night, compact: str, *more: str) -> tuple[Ran, dict[str, Any]]:
    ran = night.types(compact, "--json", *more)
    (entry,) = ran.entries
    return ran, entry


def test_an_approved_plan_is_published_and_only_once(
    own_kafka: KafkaCluster, tmp_path: Path
) -> None:
    night = uploaded(own_kafka, tmp_path, "sales-approved")
    newest = night.newest()
    compact, document = approves(night, tmp_path)
    assert document["publishing"] == "on"
    ran, entry = carries_out(night, compact)
    assert (ran.code, entry["outcome"]) == (0, "compacted")
    assert entry["events_sent"] > 0
    (approved,) = document["partitions"]
    assert entry["segments_in"] == len(approved["approved"]["round"]["groups"][0])
    assert len(night.topic.logs()) == UPLOADS + 1
    assert night.newest() == newest
    night.is_well()
    again, entry = carries_out(night, compact)
    assert (again.code, entry["outcome"]) == (3, "refused")
    assert "a run has changed its row in the catalog" in entry["reason"]


def test_a_new_upload_or_other_publishing_needs_another_plan(
    own_kafka: KafkaCluster, tmp_path: Path
) -> None:
    night = uploaded(own_kafka, tmp_path, "sales-outdated")
    compact, _ = approves(night, tmp_path)
    opted_in = night.settings.read_text(encoding="utf-8")
    night.settings.write_text(opted_in.replace("publish = true", ""), encoding="utf-8")
    night.types(compact).refuses("the plan was made with publishing on, and this run has off")
    night.settings.write_text(opted_in, encoding="utf-8")
    night.adds(UPLOADS)
    ran, entry = carries_out(night, compact)
    assert (ran.code, entry["outcome"], entry["events_sent"]) == (3, "refused", 0)
    assert "1 segment is new" in entry["reason"]
    night.is_well()


def test_first_settings_of_a_cluster_are_those_of_its_topics(
    own_kafka: KafkaCluster, tmp_path: Path
) -> None:
    night = uploaded(own_kafka, tmp_path, "sales-begun")
    file, servers = tmp_path / "first.toml", ("--bootstrap-server", night.server)
    for tier in ((), (str(own_kafka.tier),)):
        file.unlink(missing_ok=True)
        ran = command("init", *tier, *servers, "-o", file)
        assert ran.code == 0, ran
        text = file.read_text(encoding="utf-8")
        found = tomllib.loads(text)
        assert found["cluster"]["bootstrap.servers"] == night.server
        assert found.get("tier") == (tier[0] if tier else None)
        assert "sales-begun" in found["topics"]
        assert f"# 1 partition, {len(night.topic.logs())} segments, " in text
        for variant in variants(text):
            file.write_text(variant, encoding="utf-8")
            resolve([], file)
    # All that is a comment, uncommented: the brokers publish what this file says.
    plan = command("plan", "--config", file, "--topic", "sales-begun", "--json")
    assert plan.document["publishing"] == "on"
    assert plan.outcomes["sales-begun", 0] == "planned"
