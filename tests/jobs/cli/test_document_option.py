"""`--document` writes what `--json` prints; `--partitions-from` takes it for the next verb."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tierfold as api
from tests.jobs.commands import ALWAYS, tierfold
from tests.jobs.tiers import copied, flip_last_byte, key_of, updated_tier

TOPICS = ("invoices", "orders", "payments")

tier = copied(lambda folder: updated_tier(folder, [key_of(topic) for topic in TOPICS], 3))

NOW = ("--now", "1790000000000")


def document_at(place: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return document


def topics_of(document: dict[str, Any]) -> list[str]:
    return [entry["topic"] for entry in document["partitions"]]


def corrupt(folder: Path, topic: str) -> None:
    flip_last_byte(next((folder / "kafka-tiered-storage").glob(f"{topic}-0-*/0*.log")))


@pytest.mark.parametrize("verb", ["plan", "status", "verify", "vacuum"])
def test_the_document_is_what_json_prints(verb: str, tier: Path, tmp_path: Path) -> None:
    place = tmp_path / "document.json"
    ran = tierfold(verb, tier, "--json", "--document", place, *NOW)
    assert ran.code == 0
    assert ran.document == document_at(place)
    assert ran.document["verb"] == verb


def test_the_document_is_written_beside_the_tables(tier: Path, tmp_path: Path) -> None:
    place = tmp_path / "document.json"
    ran = tierfold("plan", tier, *ALWAYS, "--document", place)
    assert ran.stdout.splitlines()[0].strip() == "plan"
    assert document_at(place)["outcome"] == "planned"


def test_the_document_of_a_partition_that_fails_is_written(tier: Path, tmp_path: Path) -> None:
    corrupt(tier, "orders")
    place = tmp_path / "document.json"
    assert tierfold("compact", tier, *ALWAYS, "--document", place).code == 3
    assert document_at(place)["outcome"] == "failed"


@pytest.mark.parametrize(
    ("words", "code", "outcome", "reason"),
    [
        (("plan", "TIER", "--set", "cleanup.policy=shrink"), 2, "bad_settings", "shrink"),
        (("compact", "TIER", "--engine", "fast"), 2, "bad_settings", "'fast' is not one of"),
        (("restore", "TIER", "orders-0"), 2, "bad_settings", "`tierfold history` lists"),
        (("plan", "/no/tier"), 2, "bad_settings", "/no/tier"),
    ],
)
def test_the_document_of_an_error_that_stops_the_verb_is_written(
    words: tuple[str, ...], code: int, outcome: str, reason: str, tier: Path, tmp_path: Path
) -> None:
    place = tmp_path / "document.json"
    command = [str(tier) if word == "TIER" else word for word in words]
    assert tierfold(*command, "--document", place).code == code
    document = document_at(place)
    place.unlink()
    assert tierfold(*command, "--document", place, "--json").document == document_at(place)
    assert (document["outcome"], document["partitions"]) == (outcome, [])
    assert reason in document["reason"]


def test_the_document_of_a_tier_that_cannot_be_read_is_written(tier: Path, tmp_path: Path) -> None:
    assert tierfold("compact", tier, *ALWAYS).code == 0
    for part in (tier / "_tierfold" / "partitions" / "_delta_log").iterdir():
        part.write_bytes(b"{")
    place = tmp_path / "document.json"
    assert tierfold("status", tier, "--document", place).code == 3
    assert document_at(place)["outcome"] == "unreadable"


def test_the_document_has_no_secret_of_the_command_line(tier: Path, tmp_path: Path) -> None:
    place = tmp_path / "document.json"
    assert tierfold("plan", "--document", place, tier, "aws_secret_key=hush").code == 2
    assert "hush" not in place.read_text(encoding="utf-8")


def test_nothing_is_overwritten_and_nothing_is_done(tier: Path, tmp_path: Path) -> None:
    place = tmp_path / "document.json"
    place.write_text("mine", encoding="utf-8")
    ran = tierfold("compact", tier, *ALWAYS, "--document", place)
    assert (ran.code, ran.stdout) == (2, "")
    assert "Choose a name that no run has used" in ran.stderr
    assert place.read_text(encoding="utf-8") == "mine"
    assert not (tier / "_tierfold").exists()


def test_a_document_that_cannot_be_written_is_an_error(tier: Path) -> None:
    ran = tierfold("plan", tier, "--json", "--document", "/proc/nowhere/document.json")
    assert (ran.code, ran.document["outcome"]) == (5, "nothing_to_do")
    assert "cannot make this folder" in ran.stderr


def test_each_document_is_the_list_of_the_next_verb(tier: Path, tmp_path: Path) -> None:
    def run(verb: str, *words: str | Path) -> list[str]:
        tierfold(verb, tier, *words, "--document", tmp_path / f"{verb}.json")
        return topics_of(document_at(tmp_path / f"{verb}.json"))

    corrupt(tier, "invoices")
    assert run("plan", *ALWAYS) == [*TOPICS]
    assert run("compact", *ALWAYS, "--partitions-from", tmp_path / "plan.json") == [*TOPICS]
    compacted = ["orders", "payments"]
    assert run("verify", "--partitions-from", tmp_path / "compact.json") == compacted
    assert run("vacuum", "--partitions-from", tmp_path / "verify.json") == compacted


@pytest.mark.parametrize("verb", ["plan", "compact", "status", "verify", "vacuum"])
def test_only_the_listed_partitions_are_treated(verb: str, tier: Path, tmp_path: Path) -> None:
    place = tmp_path / "list.json"
    place.write_text(json.dumps([{"topic": "orders", "partition": 0}]), encoding="utf-8")
    ran = tierfold(verb, tier, "--json", "--partitions-from", place)
    assert (ran.code, topics_of(ran.document)) == (0, ["orders"])


def test_an_empty_list_is_nothing_to_do(tier: Path, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    ran = tierfold("compact", tier, *ALWAYS, "--json", "--partitions-from", tmp_path / "list.json")
    assert (ran.code, ran.document["partitions"]) == (0, [])
    assert not list((tier / "kafka-tiered-storage").rglob("*.tierfold*"))


def test_a_list_of_another_tier_is_a_wrong_setting(tier: Path, tmp_path: Path) -> None:
    place = tmp_path / "list.json"
    place.write_text(json.dumps([{"topic": "refunds", "partition": 0}]), encoding="utf-8")
    tierfold("compact", tier, "--partitions-from", place).refuses("no partition refunds-0")


def test_the_api_takes_a_result_a_document_a_list_and_a_file(tier: Path, tmp_path: Path) -> None:
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
    planned = api.plan(tier, settings=settings, topics=["orders"])
    place = tmp_path / "plan.json"
    place.write_text(json.dumps(planned.to_dict()), encoding="utf-8")
    entries = [{"topic": "orders", "partition": 0}]
    for listed in (planned, planned.to_dict(), entries, place, str(place)):
        found = api.plan(tier, settings=settings, partitions_from=listed)
        assert [partition.key.topic for partition in found.partitions] == ["orders"]
    everything = api.plan(tier, settings=settings, partitions_from=None)
    assert len(everything.partitions) == 3
    with pytest.raises(api.BadSettings, match="partitions_from: this is not a list"):
        api.plan(tier, partitions_from=7)
