"""tierfold's settings equal Kafka's, and tierfold resolves them as Kafka does.

Kafka's side is `KafkaConfig` and `LogConfig`, by which a broker resolves a topic's settings.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.commands import ROOT
from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.oracles import Oracles
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.kafka_versions import KAFKA_VERSIONS
from tierfold.jobs.settings.definitions import (
    BY_BROKER_NAME,
    BY_TOPIC_NAME,
    KAFKA,
    KAFKA_4_4,
    SETTINGS,
    Setting,
)
from tierfold.jobs.settings.layers import broker_names, topic_names
from tierfold.jobs.settings.resolution import EffectiveSetting, resolve

OF_KAFKA: Final = [setting for setting in SETTINGS if setting.source in {KAFKA, KAFKA_4_4}]
OF_TOPICS: Final = [setting for setting in OF_KAFKA if setting.is_for_topics]
CONF: Final = ROOT / "conf"
CASES: Final = 300
# With these lags the maximum is below the minimum in a third of the cases.
TEXTS: Final = {
    # Not `delete`: tierfold skips such a topic, so it does not refuse what Kafka refuses.
    "cleanup.policy": ("compact", "compact,delete"),
    "min.cleanable.dirty.ratio": ("0", "0.25", "1"),
    "min.compaction.lag.ms": ("0", "10", "20"),
    "max.compaction.lag.ms": ("10", "15", "9223372036854775807"),
    "segment.bytes": ("1048576", "2147483647"),
    "retention.ms": ("-1", "1", "9223372036854775807"),
    "retention.bytes": ("-1", "0", "9223372036854775807"),
}
BROKER_TEXTS: Final = {
    "log.retention.ms": ("-7", "-1", "1", "9223372036854775807"),
    "log.retention.minutes": ("-7", "-1", "1", "2147483647"),
    "log.retention.hours": ("-7", "-1", "1", "2147483647"),
}
NUMBERS: Final = ("4", "5", "2147483647")
# Each is wrong for some settings: too low, no number, not a whole number, too high.
WRONG: Final = ("-1", "x", "1.5", "2147483648")


@pytest.fixture(scope="module")
def newest(oracles: Oracles) -> KafkaLab:
    """The version that tierfold follows; it has all settings of the one before."""
    return oracles.labs[KAFKA_VERSIONS[-1]]


@pytest.fixture(scope="module")
def known(newest: KafkaLab) -> dict[str, dict[str, Any]]:
    return newest.known_settings()


@pytest.mark.parametrize("setting", OF_KAFKA, ids=lambda setting: setting.name)
def test_defaults_are_kafkas(known: dict[str, dict[str, Any]], setting: Setting) -> None:
    # tierfold has no default policy, deliberately: SEMANTICS 2.
    expected = None if setting.name == "cleanup.policy" else known[setting.name]["default"]
    assert setting.default == expected


@pytest.mark.parametrize("setting", OF_TOPICS, ids=lambda setting: setting.name)
def test_broker_names_and_their_order_are_kafkas(
    known: dict[str, dict[str, Any]], setting: Setting
) -> None:
    broker = known[setting.name]["broker"]
    assert [*setting.broker_names] == [name["name"] for name in broker]
    for name, theirs in zip(setting.broker_names, broker, strict=True):
        spelling = BY_BROKER_NAME[name]
        assert (spelling.unit_ms > 1) == (theirs["seven"] != "7")
        if spelling.kind is not setting.kind:
            assert spelling.parse("7") == int(theirs["seven"])


@pytest.mark.parametrize("setting", OF_KAFKA, ids=lambda setting: setting.name)
def test_bounds_are_kafkas(known: dict[str, dict[str, Any]], setting: Setting) -> None:
    theirs = known[setting.name]["allowed"]
    ours = {
        "cleanup.policy": "[compact, delete]",
        "min.cleanable.dirty.ratio": "[0,...,1]",
        # Less than Kafka's 1 MiB, deliberately: docs/settings.md.
        "segment.bytes": "[1048576,...]",
        # To Kafka any negative number means no limit; tierfold turns all of them into -1.
        "retention.bytes": None,
    }
    bounds = re.fullmatch(r"a whole number from (-?\d+) to (\d+)(, or .*)?", setting.kind.allowed)
    least, most = (None, None) if bounds is None else (int(bounds[1]), int(bounds[2]))
    says_most = theirs == f"[{least},...,{most}]"
    assert says_most or theirs == ours.get(setting.name, f"[{least},...]")
    assert known[setting.name]["type"] in {"LIST", "DOUBLE", "LONG", "INT"}
    if known[setting.name]["type"] in {"LONG", "INT"} and not says_most:
        largest = {"LONG": 2**63 - 1, "INT": 2**31 - 1}[known[setting.name]["type"]]
        assert most == largest


def test_the_file_of_broker_names_has_all_of_kafkas(newest: KafkaLab) -> None:
    theirs = set(newest.broker_setting_names())
    assert len(theirs) > 300
    assert broker_names() == theirs | _names_gone("broker_names.txt", theirs)


def test_the_file_of_topic_names_has_all_of_kafkas(known: dict[str, dict[str, Any]]) -> None:
    # The lab describes this one, too, which only brokers have.
    theirs = known.keys() - {"producer.id.expiration.ms"}
    assert len(theirs) > 30
    assert topic_names() == theirs | _names_gone("topic_names.txt", theirs)


def _names_gone(file: str, theirs: Set[str]) -> set[str]:
    """The names of a file's second part, which Kafka no longer has; the first is Kafka's."""
    now, gone = (CONF / file).read_text(encoding="utf-8").split("# In Kafka 3.9")
    names = [line for line in now.splitlines() if line and not line.startswith("#")]
    assert names == sorted(theirs)
    # tierfold accepts these for older files, so Kafka must not use one of them again.
    assert theirs.isdisjoint(gone.splitlines())
    return set(gone.splitlines()[1:])


def test_random_brokers_and_topics_resolve_as_kafka_resolves_them(
    newest: KafkaLab, tmp_path: Path
) -> None:
    rng = random.Random(280)
    cases = [_case(rng) for _ in range(CASES)]
    # tierfold also refuses a file if a topic without own settings would be refused: another case.
    others = [{"broker": case["broker"], "topic": {}} for case in cases]
    answers = zip(newest.resolved_settings(cases), newest.resolved_settings(others), strict=True)
    refused = 0
    for case, (theirs, of_others) in zip(cases, answers, strict=True):
        ours = _resolved(case, tmp_path / "mine.toml")
        assert (ours is None) == ("refused" in theirs or "refused" in of_others), (case, theirs)
        refused += ours is None
        for value in ours or ():
            if value.setting in OF_TOPICS:
                assert _as_kafka_prints(value) == theirs["values"][value.setting.name], case
    assert CASES / 10 < refused < CASES / 2


def _case(rng: random.Random) -> dict[str, dict[str, str]]:
    """Draw settings of a broker and a topic; with a policy, since tierfold has no default."""
    broker = {
        name: _text(rng, setting, BROKER_TEXTS.get(name, ()))
        for setting in OF_TOPICS
        for name in setting.broker_names
        if rng.random() < 0.4
    }
    topic = {setting.name: _text(rng, setting) for setting in OF_TOPICS if rng.random() < 0.4}
    return {"broker": {"log.cleanup.policy": "compact"} | broker, "topic": topic}


def _text(rng: random.Random, setting: Setting, broker_texts: Sequence[str] = ()) -> str:
    wrong = rng.random() < 0.02
    return rng.choice(WRONG if wrong else broker_texts or TEXTS.get(setting.name, NUMBERS))


def _resolved(case: dict[str, dict[str, str]], config: Path) -> list[EffectiveSetting] | None:
    lines = ["[broker]", *(f'"{name}" = "{text}"' for name, text in case["broker"].items())]
    lines += ["[topics.t]", *(f'"{name}" = "{text}"' for name, text in case["topic"].items())]
    config.write_text("\n".join(lines), encoding="utf-8")
    try:
        return resolve((), config).effective("t")
    except BadSettings:
        return None


def _as_kafka_prints(effective: EffectiveSetting) -> str:
    match effective.setting.name:
        case "cleanup.policy":
            return f"[{', '.join(sorted(effective.value))}]"
        case "min.cleanable.dirty.ratio":
            return str(float(effective.value))
        case _:
            return effective.text


def test_no_name_means_one_setting_for_topics_and_another_for_brokers() -> None:
    for name in BY_TOPIC_NAME.keys() & BY_BROKER_NAME.keys():
        assert BY_TOPIC_NAME[name].setting is BY_BROKER_NAME[name].setting
