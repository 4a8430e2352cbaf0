"""Reads the sources of settings: the shipped defaults, the user's file, the command line.

Each is read into layers: values by field of `Rules`, with their source. The user's file is TOML: a
table `[broker]` with a broker's names, and tables `[topics."NAME"]` with a topic's names, where
NAME is a topic or a shell pattern. `jobs.settings.resolution` decides which layer takes effect.

Files and command lines of brokers hold passwords too. So messages name an unknown setting but never
quote its value; known settings are not secret.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeGuard

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.redaction import HIDDEN, setting_name
from tierfold.jobs.settings.broker_names import is_of_brokers
from tierfold.jobs.settings.definitions import (
    BY_BROKER_NAME,
    BY_TOPIC_NAME,
    SETTINGS,
    Spelling,
    unknown,
)
from tierfold.jobs.settings.kinds import PolicyList

DEFAULTS_FILE: Final = "conf/defaults.toml"
COMMAND_LINE: Final = "--set"

_WILDCARDS: Final = frozenset("*?[")
_PATTERN: Final = re.compile(r"[A-Za-z0-9._*?!\[\]-]{1,249}")
_QUOTED: Final = re.compile(r"""(['"]).{3,}\1""")
"""Text that tomllib quotes from a file, longer than a sign or two of its grammar."""

_KINDS: Final = {bool: "a truth value", dict: "a table", list: "a list", int: "a number"} | {
    str: "a text"
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingValue:
    """A value and its source."""

    value: Any
    source: str


Layer: TypeAlias = Mapping[str, SettingValue]
"""The values from one source, by field of `Rules`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """A file's settings of one topic, or of all topics that match a pattern."""

    pattern: str
    layer: Layer
    where: str
    """The file and the table, for messages."""

    @property
    def is_exact(self) -> bool:
        """The table names one topic, not a pattern."""
        return not _WILDCARDS.intersection(self.pattern)

    def holds(self, topic: str) -> bool:
        """Return whether the table applies to the topic; a pattern also matches its own text."""
        return topic == self.pattern or fnmatchcase(topic, self.pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """The content of the user's file."""

    broker: Layer
    tables: tuple[TopicTable, ...]
    """In the file's order."""
    unused: tuple[str, ...] = ()
    """Names under [broker] that have no effect here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """The values from `--set`, by the level of their name."""

    broker: Layer
    topics: Layer
    unused: tuple[str, ...] = ()
    """Broker names that have no effect here."""


def shipped_defaults() -> Layer:
    """Read the packaged `conf/defaults.toml`; it has a topic's names and no tables."""
    toml = resources.files("tierfold.conf").joinpath("defaults.toml").read_text(encoding="utf-8")
    table = tomllib.loads(toml, parse_float=str)
    spellings = [Spelling(setting=setting, name=setting.name) for setting in SETTINGS]
    return {
        spelling.setting.field: SettingValue(
            value=_value(spelling, table[spelling.name], DEFAULTS_FILE), source=DEFAULTS_FILE
        )
        for spelling in spellings
        if spelling.name in table
    }


def read_config(path: Path) -> ConfigFile:
    """Read the user's file; raises `BadSettings`, also if the file cannot be read."""
    try:
        toml = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise BadSettings(
            f"the settings cannot be read: {why}",
            where=str(path),
            remedy="Name a TOML file with --config or in TIERFOLD_CONFIG.",
        ) from fault
    return config_of_toml(toml, where=str(path))


def config_of_toml(toml: str, *, where: str) -> ConfigFile:
    """Parse the text of a file; `where` names the file in messages and in sources.

    Raises `BadSettings` for invalid TOML, an unknown table or name, or a value that is not allowed.
    """
    try:
        # parse_float=str: a ratio stays as written, 0.1 and not the nearest float.
        document = tomllib.loads(toml, parse_float=str)
        repr(document)  # A value that cannot be printed cannot be in a message either.
    # Not only its own error: Python refuses numbers of thousands of digits, and the parser of
    # nested brackets is recursive.
    except (ValueError, RecursionError) as fault:
        # From None: a log that shows causes would quote the text.
        raise BadSettings(
            f"not TOML: {_QUOTED.sub('…', str(fault))}",
            where=where,
            remedy='Write one "NAME" = VALUE per line.',
        ) from None
    for name in document:
        if name not in {"broker", "topics"}:
            raise BadSettings(
                f"{setting_name(name)} stands in neither [broker] nor [topics]",
                where=where,
                remedy='Put a broker\'s settings under [broker], a topic\'s under [topics."NAME"].',
            )
    broker = _table(document.get("broker", {}), f"{where} [broker]")
    unused = tuple(name for name, value in broker.items() if _is_unused(name, value))
    used = {name: value for name, value in broker.items() if name not in unused}
    topics = _table(document.get("topics", {}), f"{where} [topics]")
    return ConfigFile(
        broker=_broker_layer(_broker_said(used, f"{where} [broker]")),
        tables=tuple(_topic_table(pattern, table, where) for pattern, table in topics.items()),
        unused=unused,
    )


def command_line(overrides: Sequence[str]) -> CommandLine:
    """Parse each `NAME=VALUE`; the last one of a name takes effect.

    Raises `BadSettings` for a missing `=`, an unknown name, or a value that is not allowed.
    """
    broker: dict[str, SettingValue] = {}
    topics: dict[str, SettingValue] = {}
    unused: list[str] = []
    for override in overrides:
        name, equals, text = (part.strip() for part in override.partition("="))
        is_known = name in BY_TOPIC_NAME or name in BY_BROKER_NAME
        where = f"{COMMAND_LINE} {name if is_known else HIDDEN}"
        if not equals:
            raise BadSettings(
                "no value",
                where=where,
                remedy=f"Write it as {COMMAND_LINE} NAME=VALUE, without spaces around the sign.",
            )
        source = f"{COMMAND_LINE} {name}"
        if name in BY_TOPIC_NAME:
            spelling = BY_TOPIC_NAME[name]
            said = SettingValue(value=_parsed(spelling, text, where), source=source)
            topics[spelling.setting.field] = said
        elif name in BY_BROKER_NAME:
            broker[name] = SettingValue(
                value=_parsed(BY_BROKER_NAME[name], text, where), source=source
            )
        elif _is_unused(name, text):
            unused.append(name)
        else:
            raise unknown(name, among=(*BY_TOPIC_NAME, *BY_BROKER_NAME), where=COMMAND_LINE)
    return CommandLine(
        broker=_broker_layer(broker), topics=topics, unused=tuple(dict.fromkeys(unused))
    )


def _is_unused(name: str, value: object) -> bool:
    """Whether the name is known to brokers but has no effect here.

    A table is not a broker's setting: it comes from a dotted name without quotes.
    """
    is_known = name in BY_BROKER_NAME or name in BY_TOPIC_NAME
    return not is_known and is_of_brokers(name) and not isinstance(value, dict)


def _broker_layer(said: Layer) -> Layer:
    """Values by field, from values by broker name; the first of several names counts."""
    layer = {}
    for setting in SETTINGS:
        given = [said[known.name] for known in setting.broker_names if known.name in said]
        if given:
            layer[setting.field] = given[0]
    return layer


def _broker_said(table: Mapping[str, object], where: str) -> Layer:
    """The values by broker name."""
    said = {}
    for name, value in table.items():
        if name not in BY_BROKER_NAME:
            raise _not_a_brokers(name, value, where)
        parsed = _value(BY_BROKER_NAME[name], value, where)
        said[name] = SettingValue(value=parsed, source=f"{where} {name}")
    return said


def _topic_table(pattern: str, table: object, file: str) -> TopicTable:
    where = f'{file} [topics."{pattern}"]'
    if not _PATTERN.fullmatch(pattern):
        raise BadSettings(
            "no topic can have such a name",
            where=where,
            remedy="Write a topic's name, or a shell pattern (* ? [abc]), one to a table.",
        )
    layer = {}
    for name, value in _table(table, where).items():
        if name not in BY_TOPIC_NAME:
            raise _not_a_topics(name, value, where)
        spelling = BY_TOPIC_NAME[name]
        layer[spelling.setting.field] = SettingValue(
            value=_value(spelling, value, where), source=where
        )
    return TopicTable(pattern=pattern, layer=layer, where=where)


def _not_a_brokers(name: str, value: object, where: str) -> BadSettings:
    if name not in BY_TOPIC_NAME:
        return _unknown(name, value, BY_BROKER_NAME, where)
    names = " or ".join(known.name for known in BY_TOPIC_NAME[name].setting.broker_names)
    return BadSettings(
        f"{name} is a topic's setting",
        where=where,
        remedy=f'Write {names} here, or put {name} under [topics."*"].',
    )


def _not_a_topics(name: str, value: object, where: str) -> BadSettings:
    if name not in BY_BROKER_NAME:
        return _unknown(name, value, BY_TOPIC_NAME, where)
    setting = BY_BROKER_NAME[name].setting
    instead = f"Write {setting.name} here, or put" if setting.is_for_topics else "Put"
    return BadSettings(
        f"{name} is a broker's setting", where=where, remedy=f"{instead} {name} under [broker]."
    )


def _unknown(name: str, value: object, known: Iterable[str], where: str) -> BadSettings:
    if not isinstance(value, dict):
        return unknown(name, among=known, where=where)
    return BadSettings(
        f"{setting_name(name)} is a table, and no setting",
        where=where,
        remedy='Write names that hold a dot in quotes: "segment.bytes" = 1048576.',
    )


def _table(value: object, where: str) -> Mapping[str, object]:
    if isinstance(value, dict):
        return value
    raise BadSettings(
        f"{_KINDS.get(type(value), 'a value')} stands where a table should",
        where=where,
        remedy='Write [broker], and [topics."NAME"], each on a line of its own.',
    )


def _value(spelling: Spelling, value: object, where: str) -> object:
    """Parse a TOML value; it is turned into text first, so that one parser serves all sources."""
    if _is_policy_list(value, spelling):
        return _parsed(spelling, ",".join(value), where)
    if isinstance(value, str | int) and not isinstance(value, bool):
        return _parsed(spelling, str(value), where)
    raise _not_allowed(spelling, _KINDS.get(type(value), "such a value"), where)


def _is_policy_list(value: object, spelling: Spelling) -> TypeGuard[list[str]]:
    is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return is_list and isinstance(spelling.setting.kind, PolicyList)


def _parsed(spelling: Spelling, text: str, where: str) -> object:
    """Parse the text; raises BadSettings with the allowed values."""
    try:
        return spelling.parse(text)
    except ValueError as fault:
        raise _not_allowed(spelling, repr(text), where) from fault


def _not_allowed(spelling: Spelling, shown: str, where: str) -> BadSettings:
    return BadSettings(
        f"{spelling.name} cannot be {shown}", where=where, remedy=f"Give {spelling.allowed}."
    )
