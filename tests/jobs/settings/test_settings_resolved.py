"""Layers of settings resolve as a model of dict updates does; conflicts are refused."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.rules import Rules
from tierfold.jobs.settings.definitions import BY_BROKER_NAME, BY_TOPIC_NAME, SETTINGS
from tierfold.jobs.settings.resolution import resolve

# Two settings of each kind of name; values are small, so that no two contradict each other.
BROKER_NAMES = ("log.segment.bytes", "log.roll.ms", "log.roll.hours", "log.cleanup.policy")
TOPIC_NAMES = ("segment.bytes", "segment.ms", "cleanup.policy")
TOPICS = ("a", "ab", "b", "c")
PATTERNS = ("*", "a*", "?b", "[ab]", *TOPICS)


def texts(name: str) -> st.SearchStrategy[str]:
    if "policy" in name:
        return st.sampled_from(["compact", "delete", "compact,delete"])
    return st.integers(1, 9).map(str)


def tables(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries({}, optional={name: texts(name) for name in names})


def overrides() -> st.SearchStrategy[list[tuple[str, str]]]:
    names = st.sampled_from(BROKER_NAMES + TOPIC_NAMES)
    return st.lists(names.flatmap(lambda name: st.tuples(st.just(name), texts(name))), max_size=4)


def written(broker: dict[str, str], topics: dict[str, dict[str, str]]) -> str:
    lines = ["[broker]", *(f'"{name}" = "{text}"' for name, text in broker.items())]
    for pattern, table in topics.items():
        lines.append(f'[topics."{pattern}"]')
        lines += [f'"{name}" = "{text}"' for name, text in table.items()]
    return "\n".join(lines)


def of_broker(said: dict[str, str]) -> dict[str, str]:
    """By a topic's names, as a broker understands its own: milliseconds over hours."""
    plain = {"log.segment.bytes": "segment.bytes", "log.cleanup.policy": "cleanup.policy"}
    known = {plain[name]: text for name, text in said.items() if name in plain}
    if "log.roll.hours" in said:
        known["segment.ms"] = str(3_600_000 * int(said["log.roll.hours"]))
    if "log.roll.ms" in said:
        known["segment.ms"] = said["log.roll.ms"]
    return known


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    broker=tables(BROKER_NAMES),
    topics=st.dictionaries(st.sampled_from(PATTERNS), tables(TOPIC_NAMES), max_size=5),
    said=overrides(),
)
def test_resolution_is_a_few_dict_updates(
    tmp_path: Path,
    broker: dict[str, str],
    topics: dict[str, dict[str, str]],
    said: list[tuple[str, str]],
) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(written(broker, topics), encoding="utf-8")
    resolved = resolve([f"{name}={text}" for name, text in said], config)
    for topic in TOPICS:
        model = {"segment.bytes": str(2**30), "segment.ms": "604800000", "cleanup.policy": ""}
        model.update(of_broker(broker))
        model.update(of_broker({name: text for name, text in said if name in BROKER_NAMES}))
        for pattern, table in topics.items():
            if pattern != topic and fnmatchcase(topic, pattern):
                model.update(table)
        model.update(topics.get(topic, {}))
        model.update({name: text for name, text in said if name in TOPIC_NAMES})
        assert resolved.rules_for(topic) == Rules(
            segment_bytes=int(model["segment.bytes"]),
            segment_ms=int(model["segment.ms"]),
            cleanup_policy=frozenset(filter(None, model["cleanup.policy"].split(","))),
        )


def test_every_setting_can_be_said_at_each_level_it_has(tmp_path: Path) -> None:
    text = {"cleanup.policy": "compact", "compaction.strategy": "timestamp"}
    text |= {"segment.index.bytes": "4", "tier.binding": "detached"}
    for name, spelling in BY_BROKER_NAME.items():
        value = text.get(spelling.setting.name, "1")
        (tmp_path / "b.toml").write_text(f'[broker]\n"{name}" = "{value}"\n', encoding="utf-8")
        rules = resolve((), tmp_path / "b.toml").rules_for("any")
        assert getattr(rules, spelling.setting.field) == spelling.parse(value)
    for name, spelling in BY_TOPIC_NAME.items():
        value = text.get(name, "1")
        (tmp_path / "t.toml").write_text(f'[topics.t]\n"{name}" = "{value}"\n', encoding="utf-8")
        resolved = resolve((), tmp_path / "t.toml")
        assert getattr(resolved.rules_for("t"), spelling.setting.field) == spelling.parse(value)
        assert resolved.rules_for("other") == Rules()


@pytest.mark.parametrize(
    ("toml", "overrides", "where", "words"),
    [
        # Kafka's LogConfig.validateValues; both from one place, whatever the policy.
        (
            "",
            ("min.compaction.lag.ms=6", "max.compaction.lag.ms=5"),
            "every topic",
            "max.compaction.lag.ms = 5 (--set max.compaction.lag.ms) is below "
            "min.compaction.lag.ms = 6 (--set min.compaction.lag.ms)",
        ),
        # A broker's default and a topic's own value meet: as Kafka's validate with its defaults.
        (
            '[broker]\n"log.cleaner.min.compaction.lag.ms" = 6\n'
            '[topics.orders]\n"max.compaction.lag.ms" = 5',
            (),
            "topic orders",
            'max.compaction.lag.ms = 5 ({file} [topics."orders"]) is below '
            "min.compaction.lag.ms = 6 ({file} [broker] log.cleaner.min.compaction.lag.ms)",
        ),
        # A wider pattern and a narrower one: seen before any topic is.
        (
            '[topics."*"]\n"min.compaction.lag.ms" = 6\n"cleanup.policy" = "compact"\n'
            '[topics."a*"]\n"max.compaction.lag.ms" = 5',
            (),
            "topics like a*",
            "is below",
        ),
        # A pattern that does not match its own text.
        (
            '[topics."[ab]"]\n"max.compaction.lag.ms" = 5',
            ("log.cleaner.min.compaction.lag.ms=6", "cleanup.policy=compact"),
            "topics like [ab]",
            "is below",
        ),
        (
            "",
            ("compaction.strategy=header",),
            "every topic",
            "compaction.strategy = header (--set compaction.strategy) needs "
            "compaction.strategy.header, which nobody sets",
        ),
        (
            '[topics.orders]\n"cleanup.policy" = "compact"\n"compaction.strategy.header" = "v"',
            ("cleanup.policy=compact", "log.cleaner.compaction.strategy=header"),
            "topics that no table names",
            "(--set log.cleaner.compaction.strategy) needs",
        ),
    ],
)
def test_what_cannot_hold_together_is_one_error_that_names_both(
    tmp_path: Path, toml: str, overrides: tuple[str, ...], where: str, words: str
) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(toml, encoding="utf-8")
    with pytest.raises(BadSettings) as caught:
        resolve(overrides, config)
    assert caught.value.where == where
    assert words.format(file=config) in caught.value.what


HEADERS = """
[broker]
"log.cleaner.compaction.strategy" = "header"
[topics.orders]
"cleanup.policy" = "compact"
"compaction.strategy.header" = "version"
[topics.logs]
"cleanup.policy" = "delete"
"""


def test_a_topic_that_is_left_alone_contradicts_nothing(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(HEADERS, encoding="utf-8")
    resolved = resolve((), config)
    assert resolved.rules_for("orders").compaction_strategy_header == "version"
    assert not resolved.rules_for("logs").is_compacted
    assert not resolved.rules_for("other").is_compacted


def test_patterns_that_meet_in_a_topic_are_refused_for_that_topic(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(
        '[topics."a*"]\n"min.compaction.lag.ms" = 6\n"cleanup.policy" = "compact"\n'
        '[topics."*z"]\n"max.compaction.lag.ms" = 5\n',
        encoding="utf-8",
    )
    resolved = resolve((), config)
    assert resolved.rules_for("ab").min_compaction_lag_ms == 6
    for ask in (resolved.rules_for, resolved.effective):
        with pytest.raises(BadSettings, match=r"topic az: .* is below"):
            ask("az")
    with pytest.raises(BadSettings, match="topic az"):
        resolved.rules_by_topic(["ab", "az"])


def test_each_effective_value_names_its_source(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(
        '[broker]\n"log.roll.hours" = 1\n[topics."o*"]\n"segment.bytes" = 5\n', encoding="utf-8"
    )
    resolved = resolve(["index.interval.bytes=7"], config)
    told = {
        value.setting.name: (value.text, value.source) for value in resolved.effective("orders")
    }
    assert list(told) == [setting.name for setting in SETTINGS]
    assert told["segment.ms"] == ("3600000", f"{config} [broker] log.roll.hours")
    assert told["segment.bytes"] == ("5", f'{config} [topics."o*"]')
    assert told["index.interval.bytes"] == ("7", "--set index.interval.bytes")
    assert told["delete.retention.ms"] == ("86400000", "conf/defaults.toml")
    assert told["cleanup.policy"] == ("none", "default")
