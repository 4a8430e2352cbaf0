"""Resolves settings as Kafka does: a topic's value overrides a broker's.

    1  conf/defaults.toml                   Kafka's own defaults
    2  [broker] of the user's file          names as in a broker's server.properties
    3  --set of a broker's name
    4  [topics."PATTERN"] of the user's file, in the file's order
    5  [topics."NAME"] of the user's file, a topic's own table
    6  --set of a topic's name

The later one overrides, setting by setting; of two `--set` of a name, the last. `cleanup.policy`
has no default: a topic without it is left unchanged. All settings are parsed and checked for
conflicts before anything else is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.rules import LONG_MAX, Rules, setting_violations
from tierfold.jobs.settings.definitions import SETTINGS, Setting
from tierfold.jobs.settings.layers import (
    COMMAND_LINE,
    ConfigFile,
    Layer,
    SettingValue,
    TopicTable,
    command_line,
    read_config,
    shipped_defaults,
)

NOBODY: Final = "default"
"""The source of a value that no layer sets."""

JSON_INTEGER_MAX: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps (RFC 8259, section 6)."""

_POLICY: Final = "cleanup_policy"
_EXACT: Final = Context(prec=250)
"""More digits than a ratio's text can have, including its exponent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSetting:
    """A setting's value for one topic."""

    setting: Setting
    value: Any
    """None: not set, and there is no default."""
    source: str
    """Where it comes from: a file and its table, the command line, or `NOBODY`."""

    @property
    def text(self) -> str:
        """The value as a file or `--set` would write it; "none" for None."""
        return _text(self.value)

    @property
    def told(self) -> str:
        """The setting in a sentence: its name, its value and its source."""
        if self.value is None:
            return f"{self.setting.name}, which nobody sets"
        return f"{self.setting.name} = {self.text} ({self.source})"

    def as_json(self) -> dict[str, Any]:
        """The entry of `--json`: a ratio is text, which is exact; "never" is null.

        Integers beyond 2^53 are text, because most JSON readers, such as jq, round them.
        """
        return {
            "name": self.setting.name,
            "value": _json_value(self.value),
            "unit": self.setting.unit,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a run, parsed."""

    broker: Layer
    """The values of a topic without more specific ones."""
    tables: tuple[TopicTable, ...]
    """In the order in which they override each other, the last one strongest."""
    command_line: Layer
    """Applies to every topic."""
    notes: tuple[str, ...] = ()
    """Settings without effect here, one sentence per place."""

    def rules_for(self, topic: str) -> Rules:
        """Return the effective settings of one topic.

        Raises `BadSettings` if the topic is to be compacted and two settings conflict.
        """
        said = self._said_for(topic)
        rules = _rules(said)
        if rules.is_compacted:
            _refuse_violations(said, f"topic {topic}")
        return rules

    def rules_by_topic(self, topics: Iterable[str]) -> dict[str, Rules]:
        """Return the checked effective settings of many topics; raises as `rules_for`."""
        return {topic: self.rules_for(topic) for topic in dict.fromkeys(topics)}

    def effective(self, topic: str) -> list[EffectiveSetting]:
        """Return each setting of the topic with its source; raises as `rules_for`."""
        self.rules_for(topic)
        said = self._said_for(topic)
        return [_effective(setting, said) for setting in SETTINGS]

    def check(self) -> None:
        """Refuse conflicting settings, for each table's topics and for topics without a table.

        A topic that is not compacted is exempt, unless no policy is set anywhere. Raises
        `BadSettings`.
        """
        everyone = "every topic" if not self.tables else "topics that no table names"
        found = [(everyone, self._said_for(None))]
        found += [
            (f"topic {table.pattern}" if table.is_exact else f"topics like {table.pattern}", said)
            for table in self.tables
            for said in [self._said_for(table.pattern)]
        ]
        is_policy_said = any(_POLICY in said for _, said in found)
        for whose, said in found:
            if _rules(said).is_compacted or not is_policy_said:
                _refuse_violations(said, whose)

    def _said_for(self, topic: str | None) -> dict[str, SettingValue]:
        """The values by field; None: a topic that no table names."""
        said = dict(self.broker)
        for table in self.tables:
            if topic is not None and table.holds(topic):
                said.update(table.layer)
        said.update(self.command_line)
        return said


def resolve(overrides: Sequence[str], config: Path | None = None) -> Settings:
    """Resolve a run's settings: the shipped defaults, the user's file, `overrides` `NAME=VALUE`.

    Raises `BadSettings` for an unreadable file, an unknown name, a value that is not allowed, and
    two values that conflict.
    """
    file = ConfigFile(broker={}, tables=()) if config is None else read_config(config)
    said = command_line(overrides)
    settings = Settings(
        broker={**shipped_defaults(), **file.broker, **said.broker},
        # The sort is stable: exact names come after patterns, and so override them.
        tables=tuple(sorted(file.tables, key=lambda table: table.is_exact)),
        command_line=said.topics,
        notes=(*_unused(f"{config} [broker]", file.unused), *_unused(COMMAND_LINE, said.unused)),
    )
    settings.check()
    return settings


def _unused(where: str, names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    has, them = ("has", "it") if len(names) == 1 else ("have", "them")
    return (f"{where}: {', '.join(names)} {has} no effect here: only brokers use {them}",)


def _rules(said: Layer) -> Rules:
    return Rules(**{field: setting.value for field, setting in said.items()})


def _effective(setting: Setting, said: Layer) -> EffectiveSetting:
    found = said.get(setting.field, SettingValue(value=None, source=NOBODY))
    return EffectiveSetting(setting=setting, value=found.value, source=found.source)


def _refuse_violations(said: Layer, whose: str) -> None:
    for found in setting_violations(_rules(said)):
        raise BadSettings(
            f"{_told(found.first, said)} {found.says} {_told(found.second, said)}",
            where=whose,
            remedy=found.remedy,
        )


def _told(field: str, said: Layer) -> str:
    (setting,) = (setting for setting in SETTINGS if setting.field == field)
    return _effective(setting, said).told


def _json_value(value: object) -> int | str | None:
    if value is None or value == LONG_MAX:
        return None
    is_exact = isinstance(value, int) and abs(value) <= JSON_INTEGER_MAX
    return value if isinstance(value, int) and is_exact else _text(value)


def _text(value: object) -> str:
    match value:
        case None:
            return "none"
        case frozenset():
            return ",".join(sorted(value))
        case Fraction():
            return format(_EXACT.divide(value.numerator, value.denominator), "f")
        case _:
            return str(value)
