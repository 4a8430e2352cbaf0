"""Who says what of settings: the shipped defaults, the user's file, the command line.

Each is read into layers: a value by field of `Rules`, and who said it. The user's file is TOML: a
table `[broker]`, where names are a broker's, and tables `[topics."NAME"]`, where they are a topic's
and NAME is a topic or a shell pattern. How layers lie upon each other: `jobs.settings.resolution`.

Files and command lines of brokers hold passwords too. So what is not understood is named and never
quoted: values are shown of settings that we know, and none of these is secret.
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
"""What tomllib quotes of a file, beyond a sign or two of its grammar."""

_KINDS: Final = {bool: "a truth value", dict: "a table", list: "a list", int: "a number"} | {
    str: "a text"
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingValue:
    """A value, and who said it."""

    value: Any
    source: str


Layer: TypeAlias = Mapping[str, SettingValue]
"""What one place says, by field of `Rules`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """What a file says of one topic, or of all whose names match a pattern."""

    pattern: str
    layer: Layer
    where: str
    """The file and the table, for messages."""

    @property
    def is_exact(self) -> bool:
        """One topic's own table."""
        return not _WILDCARDS.intersection(self.pattern)

    def holds(self, topic: str) -> bool:
        """Whether the table is about that topic; a pattern's own text is one that it matches."""
        return topic == self.pattern or fnmatchcase(topic, self.pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """What the user's file says."""

    broker: Layer
    tables: tuple[TopicTable, ...]
    """In the file's order."""
    unused: tuple[str, ...] = ()
    """Names under [broker] that have no effect here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """What `--set` says, by the level of the name that it uses."""

    broker: Layer
    topics: Layer
    unused: tuple[str, ...] = ()
    """Names of brokers that have no effect here."""


def shipped_defaults() -> Layer:
    """What the packaged `conf/defaults.toml` says; names are a topic's, with no tables."""
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
    """What the user's file says; raises `BadSettings` also where it cannot be read."""
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
    """What a text says; `where` names the file in messages and in sources.

    Raises `BadSettings` for text that is no TOML, an unknown table or name, a value not allowed.
    """
    try:
        # parse_float=str: a ratio stays what was written, 0.1 and not the float nearest to it.
        document = tomllib.loads(toml, parse_float=str)
        repr(document)  # What cannot be written cannot be told in a message either.
    # Not its own error alone: Python reads and writes no number of thousands of digits, and
    # brackets within brackets are read by a function that calls itself.
    except (ValueError, RecursionError) as fault:
        # From None: a log that shows causes would quote what stands there.
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
    """What each `NAME=VALUE` says; the last of a name wins.

    Raises `BadSettings` for one without `=`, an unknown name, a value not allowed.
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
    """Whether brokers know the name and nothing here asks for it.

    A table is none of theirs: it comes of a name with dots that stands without its quotes.
    """
    is_known = name in BY_BROKER_NAME or name in BY_TOPIC_NAME
    return not is_known and is_of_brokers(name) and not isinstance(value, dict)


def _broker_layer(said: Layer) -> Layer:
    """By field, from values by a broker's name: of several names for one thing the first counts."""
    layer = {}
    for setting in SETTINGS:
        given = [said[each.name] for each in setting.broker_names if each.name in said]
        if given:
            layer[setting.field] = given[0]
    return layer


def _broker_said(table: Mapping[str, object], where: str) -> Layer:
    """By a broker's name."""
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
    names = " or ".join(each.name for each in BY_TOPIC_NAME[name].setting.broker_names)
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
    """What a value of TOML stands for; made a text first, so that one parser serves all."""
    if _is_policy_list(value, spelling):
        return _parsed(spelling, ",".join(value), where)
    if isinstance(value, str | int) and not isinstance(value, bool):
        return _parsed(spelling, str(value), where)
    raise _not_allowed(spelling, _KINDS.get(type(value), "such a value"), where)


def _is_policy_list(value: object, spelling: Spelling) -> TypeGuard[list[str]]:
    is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return is_list and isinstance(spelling.setting.kind, PolicyList)


def _parsed(spelling: Spelling, text: str, where: str) -> object:
    """The value that the text stands for, or the refusal that says what is allowed."""
    try:
        return spelling.parse(text)
    except ValueError as fault:
        raise _not_allowed(spelling, repr(text), where) from fault


def _not_allowed(spelling: Spelling, told: str, where: str) -> BadSettings:
    return BadSettings(
        f"{spelling.name} cannot be {told}", where=where, remedy=f"Give {spelling.allowed}."
    )
