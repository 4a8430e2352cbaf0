"""Layers of settings resolve as dict updates do; conflicts are refused."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tierfold.compaction.model.bindings import Detached
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.rules import Rules
from tierfold.jobs.settings.definitions import BY_BROKER_NAME, BY_TOPIC_NAME, SETTINGS
from tierfold.jobs.settings.layers import OF_CLUSTER
from tierfold.jobs.settings.resolution import resolve

# Two settings of each kind of name; values are small, so that no two conflict.
BROKER_NAMES = ("log.segment.bytes", "log.roll.ms", "log.roll.hours", "log.cleanup.policy")
TOPIC_NAMES = ("segment.bytes", "segment.ms", "cleanup.policy")
TOPICS = ("a", "ab", "b", "c")
PATTERNS = ("*", "a*", "?b", "[ab]", *TOPICS)


def texts(name: str) -> st.SearchStrategy[str]:
    if "policy" in name:
        return st.sampled_from(["compact", "delete", "compact,delete"])
    return st.integers(1, 9).map(str)


def user_file(folder: Path, toml: str) -> Path:
    """Write the user's file."""
    path = folder / "mine.toml"
    path.write_text(toml, encoding="utf-8")
    return path


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


def of_broker(given: dict[str, str]) -> dict[str, str]:
    """The values by a topic's names, as a broker reads its own: milliseconds override hours."""
    plain = {"log.segment.bytes": "segment.bytes", "log.cleanup.policy": "cleanup.policy"}
    known = {plain[name]: text for name, text in given.items() if name in plain}
    if "log.roll.hours" in given:
        known["segment.ms"] = str(3_600_000 * int(given["log.roll.hours"]))
    if "log.roll.ms" in given:
        known["segment.ms"] = given["log.roll.ms"]
    return known


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    broker=tables(BROKER_NAMES),
    topics=st.dictionaries(st.sampled_from(PATTERNS), tables(TOPIC_NAMES), max_size=5),
    line=overrides(),
)
def test_layers_resolve_as_dict_updates_do(
    tmp_path: Path,
    broker: dict[str, str],
    topics: dict[str, dict[str, str]],
    line: list[tuple[str, str]],
) -> None:
    config = user_file(tmp_path, written(broker, topics))
    resolved = resolve([f"{name}={text}" for name, text in line], config)
    for topic in TOPICS:
        model = {"segment.bytes": str(2**30), "segment.ms": "604800000", "cleanup.policy": ""}
        model.update(of_broker(broker))
        model.update(of_broker({name: text for name, text in line if name in BROKER_NAMES}))
        for pattern, table in topics.items():
            if pattern != topic and fnmatchcase(topic, pattern):
                model.update(table)
        model.update(topics.get(topic, {}))
        model.update({name: text for name, text in line if name in TOPIC_NAMES})
        assert resolved.rules_for(topic) == Rules(
            segment_bytes=int(model["segment.bytes"]),
            segment_ms=int(model["segment.ms"]),
            cleanup_policy=frozenset(filter(None, model["cleanup.policy"].split(","))),
        )


def test_every_setting_can_be_given_by_each_of_its_names(tmp_path: Path) -> None:
    text = {"cleanup.policy": "compact", "compaction.strategy": "timestamp"}
    text |= {"segment.index.bytes": "4", "tier.binding": "detached", "bloom.filter.fpp": "0.1"}
    text |= {"publish": "false", "message.timeout.ms": "1000", "rewrite.young.objects": "true"}
    text |= {"local.retention.compacted.only": "false"}
    for name, spelling in BY_BROKER_NAME.items():
        value = text.get(spelling.setting.name, "1")
        table = "cluster" if name in OF_CLUSTER else "broker"
        config = user_file(tmp_path, f'[{table}]\n"{name}" = "{value}"\n')
        settings = resolve((), config)
        rules, field = settings.rules_for("any"), spelling.setting.field
        if field == "tier_binding":
            assert settings.binding == Detached()
        else:
            has_it = hasattr(rules, field)
            found = getattr(rules, field) if has_it else settings.of_run(field)
            assert found == spelling.parse(value)
    for name, spelling in BY_TOPIC_NAME.items():
        value = text.get(name, "1")
        resolved = resolve((), user_file(tmp_path, f'[topics.t]\n"{name}" = "{value}"\n'))
        assert getattr(resolved.rules_for("t"), spelling.setting.field) == spelling.parse(value)
        assert resolved.rules_for("other") == Rules()


def test_a_setting_of_a_cluster_is_refused_elsewhere(tmp_path: Path) -> None:
    for name in OF_CLUSTER:
        with pytest.raises(BadSettings, match="Put it under \\[cluster\\]"):
            resolve((), user_file(tmp_path, f'[broker]\n"{name}" = "1"\n'))


HEADERS = """
[broker]
"log.cleaner.compaction.strategy" = "header"
[topics.orders]
"cleanup.policy" = "compact"
"compaction.strategy.header" = "version"
[topics.logs]
"cleanup.policy" = "delete"
"""


def test_a_topic_that_is_not_compacted_is_exempt_from_conflicts(tmp_path: Path) -> None:
    resolved = resolve((), user_file(tmp_path, HEADERS))
    assert resolved.rules_for("orders").compaction_strategy_header == "version"
    assert not resolved.rules_for("logs").is_compacted
    assert not resolved.rules_for("other").is_compacted


def test_conflicting_patterns_are_refused_for_a_topic_that_matches_both(tmp_path: Path) -> None:
    config = user_file(
        tmp_path,
        '[topics."a*"]\n"min.compaction.lag.ms" = 6\n"cleanup.policy" = "compact"\n'
        '[topics."*z"]\n"max.compaction.lag.ms" = 5\n',
    )
    resolved = resolve((), config)
    assert resolved.rules_for("ab").min_compaction_lag_ms == 6
    for ask in (resolved.rules_for, resolved.effective):
        with pytest.raises(BadSettings, match=r"topic az: .* is below"):
            ask("az")
    with pytest.raises(BadSettings, match="topic az"):
        resolved.rules_by_topic(["ab", "az"])


def test_each_effective_value_names_its_source(tmp_path: Path) -> None:
    config = user_file(
        tmp_path, '[broker]\n"log.roll.hours" = 1\n[topics."o*"]\n"segment.bytes" = 5\n'
    )
    resolved = resolve(["index.interval.bytes=7"], config)
    shown = {one.setting.name: (one.text, one.source) for one in resolved.effective("orders")}
    assert list(shown) == [setting.name for setting in SETTINGS]
    assert shown["segment.ms"] == ("3600000", f"{config} [broker] log.roll.hours")
    assert shown["segment.bytes"] == ("5", f'{config} [topics."o*"]')
    assert shown["index.interval.bytes"] == ("7", "--set index.interval.bytes")
    assert shown["delete.retention.ms"] == ("86400000", "default")
    assert shown["cleanup.policy"] == ("none", "default")
