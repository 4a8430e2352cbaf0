"""Probable mistakes in settings get a remark, on stderr and in documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.commands import tierfold
from tests.jobs.tiers import key_of, updated_tier
from tests.storage.live_segments import NOW_MS
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import EVERYTHING, Scope
from tierfold.jobs.settings.remarks import TOPICS_MAX, Remarks, remarks_on_tier, remarks_on_topic
from tierfold.jobs.settings.resolution import resolve

VERBS: Final = (
    ("plan",),
    ("plan", "--explain", "orders-0"),
    ("compact", "--topic", "nothing*"),
    ("compact", "--dry-run"),
    ("status",),
    ("verify", "--topic", "nothing*"),
    ("vacuum",),
)
MISTYPED: Final = """
[broker]
"log.cleaner.dedupe.buffer.size" = 134217728
[topics.ordesr]
"segment.bytes" = 1
[topics.orders]
"segment.bytes" = 1
[topics.xyz]
[topics."nothing*"]
"segment.bytes" = 1
"""
LATE: Final = """
[topics."*"]
"cleanup.policy" = "compact"
"compaction.strategy" = "timestamp"
[topics.payments]
"max.compaction.lag.ms" = 86399999
"segment.ms" = 86399999
[topics.events]
"cleanup.policy" = "delete"
"""


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    keys = [key_of(topic) for topic in ("orders", "payments", "events", "users")]
    return updated_tier(tmp_path / "tier", keys, segments=1)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "mine.toml"


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_that_reads_a_tier_remarks_on_unknown_topics_and_unused_settings(
    verb: tuple[str, ...], tier: Path, config: Path
) -> None:
    config.write_text(MISTYPED, encoding="utf-8")
    warnings = [
        f'{config} [topics."ordesr"]: the tier has no topic of that name. Did you mean orders?',
        f'{config} [topics."xyz"]: the tier has no topic of that name. `tierfold status TIER` lists'
        " all partitions.",
    ]
    note = (
        f"{config} [broker]: log.cleaner.dedupe.buffer.size has no effect here: only brokers use it"
    )
    command = (verb[0], tier, *verb[1:], "--config", config)
    ran = tierfold(*command, "--json")
    document = json.loads(ran.stdout)
    assert (ran.code, ran.stderr) == (0, "")
    given = [one for one in document["warnings"] if "No topic here has a cleanup.policy" not in one]
    assert (given, document["notes"]) == (warnings, [note])
    ran = tierfold(*command)
    assert ran.code == 0
    lines = [f"warning: {warnings[0]}", f"warning: {warnings[1]}", f"note: {note}"]
    assert ran.stderr.splitlines()[:3] == lines
    assert "no topic of that name" not in ran.stdout


def test_without_remarks_a_document_has_two_empty_lists(tier: Path) -> None:
    document = json.loads(tierfold("status", tier, "--json").stdout)
    assert (document["warnings"], document["notes"]) == ([], [])


def test_late_records_that_may_outlast_a_tombstone_are_a_warning(
    tier: Path, config: Path
) -> None:
    config.write_text(LATE, encoding="utf-8")
    context = run_context(str(tier), None, NOW_MS)
    found = remarks_on_tier(resolve((), config), context, EVERYTHING)
    sentence = (
        "segment.ms = 604800000 (default) and max.compaction.lag.ms ="
        " 9223372036854775807 (default) should be below delete.retention.ms = 86400000"
        " (default): a late record may be compacted only after the tombstone of its key"
        " is gone, and bring the key back (KIP-280). Raise delete.retention.ms, or lower what"
        " should be below it."
    )
    assert found == Remarks(warnings=(f"topics orders, users: {sentence}",))
    in_scope = remarks_on_tier(resolve((), config), context, Scope(topics=("orders",)))
    assert in_scope.warnings == (f"topic orders: {sentence}",)
    assert remarks_on_topic(resolve((), config), "users").warnings == (f"topic users: {sentence}",)
    ran = tierfold("config", "users", "--config", config)
    assert f"warning: topic users: {sentence}" in ran.stderr.splitlines()
    unused = ("--set", "num.io.threads=8")
    shown = json.loads(tierfold("config", "users", "--config", config, *unused, "--json").stdout)
    assert shown["warnings"] == [f"topic users: {sentence}"]
    assert shown["notes"] == ["--set: num.io.threads has no effect here: only brokers use it"]
    lower = ("--set", "max.compaction.lag.ms=3600000", "--set", "segment.ms=3600000")
    assert tierfold("config", "users", "--config", config, *lower).stderr == ""


def test_topics_beyond_a_few_are_counted(tmp_path: Path, config: Path) -> None:
    config.write_text(LATE, encoding="utf-8")
    keys = [key_of(f"t{number}") for number in range(TOPICS_MAX + 2)]
    many = updated_tier(tmp_path / "many", keys, segments=1)
    context = run_context(str(many), None, NOW_MS)
    warning = remarks_on_tier(resolve((), config), context, EVERYTHING).warnings[-1]
    assert warning.startswith("topics t0, t1, t2, t3, t4 and 2 more: segment.ms = ")
