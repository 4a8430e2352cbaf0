"""Each setting accepts its names and values, and refuses others clearly."""

from __future__ import annotations

import json
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.model.bindings import UNDECLARED, Detached, Undeclared
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.rules import LONG_MAX, CompactionStrategy, Rules
from tierfold.jobs.settings.definitions import SETTINGS, Setting, default_texts
from tierfold.jobs.settings.resolution import resolve

GOLDEN: Final = Path(__file__).with_name("golden_refusals.jsonl")
"""One case per line: a settings file, `--set` options, and the whole message."""
REFUSALS: Final = [json.loads(line) for line in GOLDEN.read_text("utf-8").splitlines()]


def rules_of(*overrides: str) -> Rules:
    return resolve(overrides).rules_for("orders")


def test_defaults_are_kafkas_without_a_policy() -> None:
    rules = rules_of()
    assert rules == Rules()
    assert rules.cleanup_policy == frozenset()
    assert not rules.is_compacted
    assert default_texts().keys() <= {setting.name for setting in SETTINGS}


def test_every_setting_is_a_field_of_the_rules_and_every_field_has_a_setting() -> None:
    of_run = {"tier_binding", "message_timeout_ms", "publish_max_events_per_second"}
    fields = {*Rules.__slots__} - {"retention_written"}  # Not a setting, but who wrote two of them.
    assert {setting.field for setting in SETTINGS} == {*fields, *of_run}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_the_shipped_file_gives_each_setting_its_unit_and_a_reason(setting: Setting) -> None:
    shipped = resources.files("tierfold.conf").joinpath("defaults.toml").read_text("utf-8")
    given = f'"{setting.name}" = ' if setting.default else f'"{setting.name}"'
    (paragraph,) = (part for part in shipped.split("\n\n") if given in part)
    assert sum(line.startswith("#") for line in paragraph.splitlines()) >= 2
    assert setting.unit in paragraph


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("cleanup.policy=compact", frozenset({"compact"})),
        ("cleanup.policy=delete", frozenset({"delete"})),
        ("cleanup.policy=delete, compact", frozenset({"compact", "delete"})),
        ("min.cleanable.dirty.ratio=0", Fraction(0)),
        ("min.cleanable.dirty.ratio=0.1", Fraction(1, 10)),
        ("min.cleanable.dirty.ratio=1.0", Fraction(1)),
        ("min.cleanable.dirty.ratio=5e-1", Fraction(1, 2)),
        ("compaction.strategy=offset", CompactionStrategy.OFFSET),
        ("compaction.strategy=timestamp", CompactionStrategy.TIMESTAMP),
        ("compaction.strategy=", CompactionStrategy.OFFSET),
        ("compaction.strategy.header=größe", "größe"),
        ("min.compaction.lag.ms=1", 1),
        ("max.compaction.lag.ms=1", 1),
        ("segment.ms=1", 1),
        ("chunk.bytes=1", 1),
        (f"chunk.bytes={LONG_MAX}", LONG_MAX),
        ("compact.keyless.max=0", 0),
        ("min.rewrite.gain=0.05", Fraction(1, 20)),
        ("min.rewrite.bytes=1048576", 2**20),
        ("bloom.filter.fpp=0.000001", Fraction(1, 10**6)),
        ("bloom.filter.fpp=0.5", Fraction(1, 2)),
        ("delete.retention.ms=0", 0),
        ("delete.retention.ms=9223372036854775807", 2**63 - 1),
        ("producer.id.expiration.ms=1", 1),
        ("retention.ms=-1", -1),
        ("retention.ms=0", 0),
        ("log.retention.ms=-5", -1),
        ("log.retention.minutes=2", 120_000),
        ("log.retention.minutes=-2", -1),
        ("log.retention.hours=2147483647", 2147483647 * 3_600_000),
        ("retention.bytes=0", 0),
        ("retention.bytes=-5", -1),
        ("segment.bytes=1", 1),
        (" segment.bytes = 2147483647 ", 2**31 - 1),
        ("segment.index.bytes=4", 4),
        ("index.interval.bytes=0", 0),
    ],
)
def test_a_value_within_kafkas_bounds_is_accepted(override: str, value: object) -> None:
    name = override.partition("=")[0].strip()
    field = "retention_ms" if name.startswith("log.retention") else name.replace(".", "_")
    assert getattr(rules_of(override), field) == value


@pytest.mark.parametrize(
    ("overrides", "binding"),
    [
        ([], UNDECLARED),
        (["tier.binding=bound"], UNDECLARED),
        (["tier.binding=detached"], Detached()),
        (["tier.binding=abandoned"], Detached(is_insisted=True)),
    ],
)
def test_the_binding_is_one_for_all_topics(
    overrides: list[str], binding: Detached | Undeclared
) -> None:
    assert resolve(overrides).binding == binding


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: str(case.get("set", case.get("file"))))
def test_a_wrong_setting_is_refused_with_its_value_its_place_and_a_remedy(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = Path("mine.toml")
    config.write_text(case.get("file", ""), encoding="utf-8")
    with pytest.raises(BadSettings) as refused:
        resolve(case.get("set", ()), config)
    assert str(refused.value) == case["refused"]


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    digits = "9" * 5000
    with pytest.raises(BadSettings, match=f"--set segment.bytes: .* cannot be '{digits}'. Give a"):
        rules_of(f"segment.bytes={digits}")


def test_the_last_override_of_a_name_takes_effect() -> None:
    rules = rules_of("segment.bytes=10", "index.interval.bytes=7", "segment.bytes=20")
    assert rules == Rules(segment_bytes=20, index_interval_bytes=7)


@given(st.text(max_size=40), st.sampled_from([setting.name for setting in SETTINGS]))
def test_any_text_is_parsed_or_refused_with_the_settings_name(text: str, name: str) -> None:
    message = ""
    try:
        resolve([f"{name}={text}"])
    except BadSettings as refused:
        message = str(refused)
    assert message == "" or f"{name} cannot be {text.strip()!r}" in message


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", "1"), ("0", "0"), (".25", "0.25"), ("5e-1", "0.5"), ("1e-30", "0." + 29 * "0" + "1")],
)
def test_a_ratio_is_printed_exactly(text: str, value: str) -> None:
    (ratio,) = (
        setting
        for setting in resolve([f"min.cleanable.dirty.ratio={text}"]).effective("orders")
        if setting.setting.name == "min.cleanable.dirty.ratio"
    )
    assert ratio.text == ratio.as_json()["value"] == value


def test_only_what_is_written_for_the_topic_counts_as_its_retention(tmp_path: Path) -> None:
    file = tmp_path / "tierfold.toml"
    file.write_text(
        """
        [broker]
        "log.retention.hours" = 168
        [topics."or*"]
        "retention.bytes" = 5
        [topics.orders]
        "retention.ms" = 6
        """
    )
    settings = resolve(("log.retention.ms=5",), file)
    both = {"retention_ms", "retention_bytes"}
    assert settings.rules_for("orders").retention_written == both
    assert settings.rules_for("origins").retention_written == {"retention_bytes"}
    assert settings.rules_for("others").retention_written == frozenset()
    everywhere = resolve(("retention.ms=7",), file)
    assert everywhere.rules_for("others").retention_written == {"retention_ms"}
    assert settings.rules_for("others").beside_brokers.retention_ms == -1
    assert everywhere.rules_for("others").beside_brokers.retention_ms == 7
