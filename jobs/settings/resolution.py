"""The settings, resolved as Kafka resolves them: what a topic is told goes before what a broker is.

    1  conf/defaults.toml                   Kafka's own defaults
    2  [broker] of the user's file          names as in a broker's server.properties
    3  --set of a broker's name
    4  [topics."PATTERN"] of the user's file, in the file's order
    5  [topics."NAME"] of the user's file, a topic's own table
    6  --set of a topic's name

The later one wins, setting by setting; of two `--set` of a name, the last. `cleanup.policy` has no
default: where none of them says it, the topic is left alone. All is understood, and checked for
what cannot hold together, before anything else is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.rules import LONG_MAX, Rules, plan_violations
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
"""The source of a value that no layer gives."""

JSON_INTEGER_MAX: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps (RFC 8259, section 6)."""

_POLICY: Final = "cleanup_policy"
_EXACT: Final = Context(prec=250)
"""More digits than a ratio's text can have, exponent and all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSetting:
    """A setting as a topic has it."""

    setting: Setting
    value: Any
    """None: nobody gave one, and it has no default."""
    source: str
    """Who gave it: a file and its table, the command line, or `NOBODY`."""

    @property
    def text(self) -> str:
        """The value as a file or `--set` would have it; "none" for None."""
        return _text(self.value)

    @property
    def told(self) -> str:
        """The setting in a sentence: its name, its value, and who gave it."""
        if self.value is None:
            return f"{self.setting.name}, which nobody sets"
        return f"{self.setting.name} = {self.text} ({self.source})"

    def as_json(self) -> dict[str, Any]:
        """The entry of `--json`: a ratio is text, which is exact; "never" is null.

        Most readers of JSON, jq too, round integers beyond 2^53: those are text.
        """
        return {
            "name": self.setting.name,
            "value": _json_value(self.value),
            "unit": self.setting.unit,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that was said, understood."""

    broker: Layer
    """What holds for a topic that nothing more particular is said about."""
    tables: tuple[TopicTable, ...]
    """In the order in which they lie upon each other."""
    command_line: Layer
    """Of every topic."""
    notes: tuple[str, ...] = ()
    """What was said and has no effect here, a sentence for each place."""

    def rules_for(self, topic: str) -> Rules:
        """The effective settings of one topic.

        Raises `BadSettings` where it is to be compacted by two that cannot both hold.
        """
        said = self._said_for(topic)
        rules = _rules(said)
        if rules.is_compacted:
            _refuse_violations(said, f"topic {topic}")
        return rules

    def rules_by_topic(self, topics: Iterable[str]) -> dict[str, Rules]:
        """The effective settings of many, all of them checked; raises as `rules_for` does."""
        return {topic: self.rules_for(topic) for topic in dict.fromkeys(topics)}

    def effective(self, topic: str) -> list[EffectiveSetting]:
        """Each setting as the topic has it, and who said so; raises as `rules_for` does."""
        self.rules_for(topic)
        said = self._said_for(topic)
        return [_effective(setting, said) for setting in SETTINGS]

    def check(self) -> None:
        """Refuse what cannot hold together, of each table's topics and of those of no table.

        A topic that is left alone is exempt, unless nobody speaks of any policy. Raises
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
        """By field; None: a topic that no table names."""
        said = dict(self.broker)
        for table in self.tables:
            if topic is not None and table.holds(topic):
                said.update(table.layer)
        said.update(self.command_line)
        return said


def resolve(overrides: Sequence[str], config: Path | None = None) -> Settings:
    """The settings of a run: the shipped defaults, the user's file, `overrides` as `NAME=VALUE`.

    Raises `BadSettings` for a file that cannot be read, an unknown name, a value not allowed, and
    two values that cannot both hold.
    """
    file = ConfigFile(broker={}, tables=()) if config is None else read_config(config)
    said = command_line(overrides)
    settings = Settings(
        broker={**shipped_defaults(), **file.broker, **said.broker},
        # The sort keeps the file's order: exact names after patterns, and so over them.
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
    return Rules(**{field: each.value for field, each in said.items()})


def _effective(setting: Setting, said: Layer) -> EffectiveSetting:
    found = said.get(setting.field, SettingValue(value=None, source=NOBODY))
    return EffectiveSetting(setting=setting, value=found.value, source=found.source)


def _refuse_violations(said: Layer, whose: str) -> None:
    for found in plan_violations(_rules(said)):
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
