"""`tierfold config` prints settings; every verb takes them from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from scripts.pages import current
from tests.jobs.commands import ROOT, tierfold, told
from tests.jobs.tiers import (
    files_below,
    key_of,
    latest_updates,
    live_values,
    made_tier,
    put_updates,
)
from tierfold.jobs.settings.definitions import SETTINGS

EXAMPLE: Final = ROOT / "conf" / "example.toml"
TOPICS: Final = ("audit", "eu.orders", "events", "payments", "us.orders")
POLICIES: Final = """
[broker]
"log.cleaner.min.cleanable.ratio" = 0
[topics."*.orders"]
"cleanup.policy" = "compact"
[topics."us.orders"]
"min.cleanable.dirty.ratio" = 1
[topics.payments]
"cleanup.policy" = ["compact", "delete"]
[topics.audit]
"cleanup.policy" = "delete"
"""


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """Five topics of one partition with two segments each."""
    tier = made_tier(tmp_path / "tier")
    for topic in TOPICS:
        put_updates(tier, key_of(topic), 0)
        put_updates(tier, key_of(topic), 1)
    return tier


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A file in which those topics have different policies."""
    config = tmp_path / "mine.toml"
    config.write_text(POLICIES, encoding="utf-8")
    return config


def test_the_page_of_settings_is_what_the_code_makes_of_them() -> None:
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == current("docs/settings.md"), "run `make pages`"
    for setting in SETTINGS:
        cells = (f"`{setting.name}`", setting.default or "none", setting.unit)
        assert f"| {' | '.join(cells)} | {setting.kind.allowed} |" in written
        assert all(f"`{name}`" in written for name in setting.broker_names)
        assert setting.doc in written


def test_config_shows_every_setting_its_value_and_its_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)  # a long path would break the lines
    file = ("--config", "conf/example.toml")
    ran = tierfold("config", "orders.changelog", *file, "--set", "segment.bytes=1048576")
    assert (ran.code, ran.stderr) == (0, "")
    shown = {line.split()[1]: line for line in ran.stdout.splitlines() if line.startswith("│ ")}
    assert [setting.name for setting in SETTINGS if setting.name not in shown] == []
    assert not told(shown["compaction.strategy"], " header ", '[topics."orders.changelog"]')
    assert not told(shown["cleanup.policy"], " compact ", '[topics."*.changelog"]')
    assert not told(shown["segment.ms"], " 86400000 ", "[broker] log.roll.hours")
    assert not told(shown["segment.bytes"], " 1048576 ", "--set segment.bytes")
    assert not told(shown["min.compaction.lag.ms"], " 0 ", " default ")
    assert not told(shown["chunk.bytes"], " none ", " default ")


def test_config_shows_the_source_beside_the_value_at_80_columns(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("tierfold.toml").write_text('[topics.orders]\n"cleanup.policy" = "compact"\n')
    lines = tierfold("config", "orders", "--config", "tierfold.toml").stdout.splitlines()
    (row,) = (line for line in lines if "cleanup.policy" in line)
    assert not told(row, " compact ", " tierfold.toml ")
    assert max(map(len, lines)) <= 80


def test_numbers_that_a_reader_of_json_would_round_are_text_and_never_is_null() -> None:
    edge = 2**53
    ran = tierfold(
        *("config", "orders", "--json", "--set", f"delete.retention.ms={edge}"),
        *("--set", f"min.compaction.lag.ms={edge - 1}"),
    )
    values = {setting["name"]: setting["value"] for setting in json.loads(ran.stdout)["settings"]}
    assert values["delete.retention.ms"] == str(edge)
    assert values["min.compaction.lag.ms"] == edge - 1
    assert values["max.compaction.lag.ms"] is None


def test_config_as_json_is_one_document() -> None:
    ran = tierfold("config", "payments.eu", "--config", EXAMPLE, "--json")
    document = json.loads(ran.stdout)
    assert (ran.code, document["topic"]) == (0, "payments.eu")
    entries = {setting["name"]: setting for setting in document["settings"]}
    assert list(entries) == [setting.name for setting in SETTINGS]
    assert entries["cleanup.policy"] == {
        "name": "cleanup.policy",
        "value": "compact,delete",
        "unit": "list",
        "source": f'{EXAMPLE} [topics."payments.*"]',
    }
    assert entries["max.compaction.lag.ms"]["value"] == 86_400_000
    assert entries["min.cleanable.dirty.ratio"]["value"] == "0.5"
    assert entries["chunk.bytes"]["value"] is None


@pytest.mark.parametrize("name", ["", ".", "a b", "orders,payments", "orders-*", "x" * 250])
def test_config_of_what_is_no_topic_is_refused(name: str) -> None:
    ran = tierfold("config", name)
    assert (ran.code, ran.stdout) == (2, "")
    assert "is not a valid topic name" in ran.stderr


def test_the_file_may_be_named_by_the_environment(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERFOLD_CONFIG", str(config))
    by_variable = tierfold("config", "us.orders", "--json")
    assert str(config) in by_variable.stdout
    by_option = tierfold("config", "us.orders", "--config", EXAMPLE, "--json")
    assert str(config) not in by_option.stdout
    monkeypatch.setenv("TIERFOLD_CONFIG", str(config.parent / "gone.toml"))
    tierfold("config", "us.orders").refuses("gone.toml", "No such file")


@pytest.mark.parametrize("verb", ["plan", "compact", "status", "verify", "config"])
def test_every_verb_refuses_a_wrong_file_before_it_reads_anything(
    verb: str, tmp_path: Path
) -> None:
    # There is no tier, and a verb that looked for it would report that.
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[topics.orders]\n"segment.byte" = 1\n', encoding="utf-8")
    ran = tierfold(verb, tmp_path / "gone", "--config", wrong)
    ran.refuses(str(wrong), '[topics."orders"]', "Did you mean segment.bytes")
    lags = ("--set", "min.compaction.lag.ms=2", "--set", "max.compaction.lag.ms=1")
    ran = tierfold(verb, tmp_path / "gone", *lags)
    ran.refuses("every topic", "is below", "(--set min.compaction.lag.ms)")


@pytest.mark.parametrize("verb", ["plan", "compact", "verify"])
def test_a_topic_in_which_patterns_clash_stops_the_run_before_a_segment_is_read(
    verb: str, tier: Path, config: Path
) -> None:
    clashing = '[topics."eu*"]\n"max.compaction.lag.ms" = 1\n'
    config.write_text(POLICIES + clashing, encoding="utf-8")
    lag = ("--set", "log.cleaner.min.compaction.lag.ms=2")
    for log in tier.rglob("*.log"):
        log.write_bytes(b"")  # a verb that opened one would report that
    before = files_below(tier)
    tierfold(verb, tier, "--config", config, *lag).refuses("topic eu.orders", "is below")
    assert files_below(tier) == before


def test_topics_of_different_policies_are_treated_in_one_run(tier: Path, config: Path) -> None:
    ran = tierfold("compact", tier, "--config", config, "--json")
    assert ran.code == 0, ran.stderr
    assert ran.outcomes == {
        ("audit", 0): "nothing_to_do",
        ("eu.orders", 0): "compacted",
        ("events", 0): "nothing_to_do",
        ("payments", 0): "compacted",
        ("us.orders", 0): "nothing_to_do",
    }
    reasons = {topic: ran.partitions[topic, 0]["reason"] for topic in TOPICS}
    assert "delete" in reasons["audit"]
    assert "cleanup.policy" in reasons["events"]
    assert not told(reasons["us.orders"], "min.cleanable.dirty.ratio")
    seen = tierfold("status", tier, "--json", "--segments").partitions
    for topic in ("eu.orders", "payments"):
        assert live_values(seen[topic, 0]) == latest_updates(2)
    assert len(seen["us.orders", 0]["segments"]) == 2
    overridden = tierfold(
        "plan", tier, "--config", config, "--set", "min.cleanable.dirty.ratio=0", "--json"
    )
    assert overridden.outcomes["us.orders", 0] == "planned"
