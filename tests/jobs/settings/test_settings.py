"""Single settings take the right names and values, and refuse wrong ones clearly."""

from __future__ import annotations

from fractions import Fraction
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.rules import LONG_MAX, CompactionStrategy, Rules, TierBinding
from tierfold.jobs.settings.definitions import BY_BROKER_NAME, SETTINGS, Setting
from tierfold.jobs.settings.layers import shipped_defaults
from tierfold.jobs.settings.resolution import resolve

DEFAULTS = resources.files("tierfold.conf").joinpath("defaults.toml")
DEFAULTS_TEXT = DEFAULTS.read_text(encoding="utf-8")


def rules_of(*overrides: str) -> Rules:
    return resolve(overrides).rules_for("orders")


def refusal(*overrides: str) -> BadSettings:
    with pytest.raises(BadSettings) as caught:
        resolve(overrides)
    return caught.value


def test_nothing_said_gives_kafkas_defaults_and_no_policy() -> None:
    rules = resolve(()).rules_for("orders")
    assert rules == Rules()
    assert rules.cleanup_policy == frozenset()
    assert not rules.is_compacted


def test_the_shipped_file_and_the_table_say_the_same() -> None:
    table = {
        setting.field: setting.kind.parse(setting.default)
        for setting in SETTINGS
        if setting.default is not None
    }
    assert {field: said.value for field, said in shipped_defaults().items()} == table


def test_every_setting_is_a_field_of_the_rules_and_every_field_has_a_setting() -> None:
    assert {setting.field for setting in SETTINGS} == set(Rules.__slots__)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_the_shipped_file_gives_each_setting_its_unit_and_a_reason(setting: Setting) -> None:
    given = f'"{setting.name}" = ' if setting.default else f'"{setting.name}"'
    paragraphs = [part for part in DEFAULTS_TEXT.split("\n\n") if given in part]
    assert len(paragraphs) == 1
    comment = [line for line in paragraphs[0].splitlines() if line.startswith("#")]
    assert len(comment) >= 2
    assert setting.unit in paragraphs[0]


@pytest.mark.parametrize(
    ("override", "field", "value"),
    [
        ("cleanup.policy=compact", "cleanup_policy", frozenset({"compact"})),
        ("cleanup.policy=delete", "cleanup_policy", frozenset({"delete"})),
        ("cleanup.policy=delete, compact", "cleanup_policy", frozenset({"compact", "delete"})),
        ("min.cleanable.dirty.ratio=0", "min_cleanable_dirty_ratio", Fraction(0)),
        ("min.cleanable.dirty.ratio=0.1", "min_cleanable_dirty_ratio", Fraction(1, 10)),
        ("min.cleanable.dirty.ratio=1.0", "min_cleanable_dirty_ratio", Fraction(1)),
        ("min.cleanable.dirty.ratio=5e-1", "min_cleanable_dirty_ratio", Fraction(1, 2)),
        ("compaction.strategy=offset", "compaction_strategy", CompactionStrategy.OFFSET),
        ("compaction.strategy=timestamp", "compaction_strategy", CompactionStrategy.TIMESTAMP),
        ("compaction.strategy=", "compaction_strategy", CompactionStrategy.OFFSET),
        ("compaction.strategy.header=größe", "compaction_strategy_header", "größe"),
        ("min.compaction.lag.ms=1", "min_compaction_lag_ms", 1),
        ("max.compaction.lag.ms=1", "max_compaction_lag_ms", 1),
        ("segment.ms=1", "segment_ms", 1),
        ("chunk.bytes=1", "chunk_bytes", 1),
        (f"chunk.bytes={LONG_MAX}", "chunk_bytes", LONG_MAX),
        ("compact.keyless.max=0", "compact_keyless_max", 0),
        ("delete.retention.ms=0", "delete_retention_ms", 0),
        ("delete.retention.ms=9223372036854775807", "delete_retention_ms", 2**63 - 1),
        ("producer.id.expiration.ms=1", "producer_id_expiration_ms", 1),
        ("retention.ms=-1", "retention_ms", -1),
        ("retention.ms=0", "retention_ms", 0),
        ("log.retention.ms=-5", "retention_ms", -1),
        ("log.retention.minutes=2", "retention_ms", 120_000),
        ("log.retention.minutes=-2", "retention_ms", -1),
        ("log.retention.hours=2147483647", "retention_ms", 2147483647 * 3_600_000),
        ("retention.bytes=0", "retention_bytes", 0),
        ("retention.bytes=-5", "retention_bytes", -1),
        ("tier.binding=detached", "tier_binding", TierBinding.DETACHED),
        ("tier.binding=bound", "tier_binding", TierBinding.BOUND),
        ("segment.bytes=1", "segment_bytes", 1),
        (" segment.bytes = 2147483647 ", "segment_bytes", 2**31 - 1),
        ("segment.index.bytes=4", "segment_index_bytes", 4),
        ("index.interval.bytes=0", "index_interval_bytes", 0),
    ],
)
def test_a_value_within_kafkas_bounds_is_taken(override: str, field: str, value: object) -> None:
    assert getattr(rules_of(override), field) == value


@pytest.mark.parametrize(
    "override",
    [
        "cleanup.policy=",
        "cleanup.policy=compacted",
        "cleanup.policy=compact,",
        "cleanup.policy=compact,compact",
        "cleanup.policy=Compact",
        "min.cleanable.dirty.ratio=",
        "min.cleanable.dirty.ratio=half",
        "min.cleanable.dirty.ratio=1/2",
        "min.cleanable.dirty.ratio=-0.1",
        "min.cleanable.dirty.ratio=1.000000000000000000001",
        "min.cleanable.dirty.ratio=NaN",
        "min.cleanable.dirty.ratio=1e999999999",
        "min.cleanable.dirty.ratio=0,5",
        "compaction.strategy=Offset",
        "compaction.strategy=latest",
        "compaction.strategy.header=",
        "compaction.strategy.header=half \udcc3",
        "min.compaction.lag.ms=-1",
        "max.compaction.lag.ms=0",
        "segment.ms=0",
        "chunk.bytes=0",
        "chunk.bytes=none",
        "compact.keyless.max=-1",
        "retention.ms=-2",
        "log.retention.ms=0",
        "log.retention.minutes=0",
        "log.retention.hours=0",
        "log.retention.hours=2147483648",
        "retention.bytes=1g",
        "tier.binding=",
        "tier.binding=Detached",
        "log.roll.hours=0",
        "log.roll.hours=2147483648",
        "log.roll.ms=1.5",
        "log.cleaner.min.cleanable.ratio=2",
        "delete.retention.ms=-1",
        "delete.retention.ms=1d",
        "delete.retention.ms=1.5",
        "delete.retention.ms=9223372036854775808",
        "producer.id.expiration.ms=0",
        "segment.bytes=0",
        "segment.bytes=1g",
        "segment.bytes=1_000",
        "segment.bytes=2147483648",
        "segment.bytes=٣",
        "segment.bytes=" + "9" * 5000,
        "segment.index.bytes=3",
        "index.interval.bytes=-1",
    ],
)
def test_any_other_value_is_refused_by_name_value_and_what_is_allowed(override: str) -> None:
    name, _, text = override.partition("=")
    allowed = {setting.name: setting.kind.allowed for setting in SETTINGS}
    allowed |= {known: spelling.allowed for known, spelling in BY_BROKER_NAME.items()}
    said = str(refusal(override))
    assert said.startswith(f"--set {name}: ")
    assert f"{name} cannot be {text!r}" in said
    assert allowed[name] in said


def test_an_unknown_name_is_answered_with_what_comes_near() -> None:
    assert "Did you mean segment.bytes" in str(refusal("segment.byte=1"))
    assert "min.cleanable.dirty.ratio" in str(refusal("min.cleanable.ratio=0.5"))
    assert "segment.index.bytes" in str(refusal("segment_index_bytes=1"))


def test_an_unknown_name_that_resembles_nothing_is_answered_with_all_there_are() -> None:
    said = str(refusal("xyzzy=1"))
    assert "'xyzzy'" in said
    assert all(setting.name in said for setting in SETTINGS)


@pytest.mark.parametrize("override", ["", "segment.bytes", "compact"])
def test_an_override_without_a_value_is_refused_with_the_form_it_should_have(
    override: str,
) -> None:
    assert "--set NAME=VALUE" in str(refusal(override))


def test_the_last_override_of_a_name_wins_over_earlier_ones_and_the_defaults() -> None:
    rules = rules_of("segment.bytes=10", "index.interval.bytes=7", "segment.bytes=20")
    assert rules == Rules(segment_bytes=20, index_interval_bytes=7)


def test_a_wrong_override_is_refused_even_where_a_later_one_would_win() -> None:
    assert "'abc'" in str(refusal("segment.bytes=abc", "segment.bytes=20"))


@given(st.text(max_size=40), st.sampled_from([setting.name for setting in SETTINGS]))
def test_whatever_is_typed_is_either_understood_or_refused_by_name(text: str, name: str) -> None:
    said = ""
    try:
        resolve([f"{name}={text}"])
    except BadSettings as refused:
        said = str(refused)
    assert said == "" or f"{name} cannot be {text.strip()!r}" in said


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", "1"), ("0", "0"), (".25", "0.25"), ("5e-1", "0.5"), ("1e-30", "0." + 29 * "0" + "1")],
)
def test_a_ratio_is_printed_exactly(text: str, value: str) -> None:
    (told,) = (
        setting
        for setting in resolve([f"min.cleanable.dirty.ratio={text}"]).effective("orders")
        if setting.setting.name == "min.cleanable.dirty.ratio"
    )
    assert told.text == told.as_json()["value"] == value
