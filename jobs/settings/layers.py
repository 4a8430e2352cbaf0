"""Reads the sources of settings: the shipped defaults, the user's file, the command line.

Each becomes layers: values by field of `Rules`, with their source. The user's file is TOML: a table
`[broker]` with a broker's names, tables `[topics."NAME"]` with a topic's names, where NAME is a
topic or a shell pattern, and tables `[store]` (`store_table`), `[layout]` (`given_layout`) and
`[cluster]` (`cluster_table`).
`jobs.settings.resolution` decides which layer takes effect.

Files and command lines of brokers also hold passwords. So messages name an unknown setting but
never quote its value; known settings are not secret.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, TypeAlias

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.redaction import HIDDEN, setting_name
from tierfold.jobs.settings.cluster_table import NO_CLUSTER, GivenCluster, cluster_of_table
from tierfold.jobs.settings.definitions import BY_BROKER_NAME, BY_TOPIC_NAME, SETTINGS, Spelling
from tierfold.jobs.settings.given_layout import UNSPECIFIED, GivenLayout, layout_of_table
from tierfold.jobs.settings.kinds import POLICY_LIST, TRUE_OR_FALSE
from tierfold.jobs.settings.owner_labels import LABELS, labels_of
from tierfold.jobs.settings.store_table import store_options
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions

NOT_SET: Final = "default"
"""The source of a value that no layer sets, shipped or not."""
COMMAND_LINE: Final = "--set"

OF_CLUSTER: Final = ("upload.wait.ms", "message.timeout.ms", "publish.max.events.per.second")
"""Settings of tierfold's own that are written under `[cluster]`."""

_WILDCARDS: Final = frozenset("*?[")
_PATTERN: Final = re.compile(r"[A-Za-z0-9._*?!\[\]-]{1,249}")
_QUOTED: Final = re.compile(r"""(['"]).{3,}\1""")
"""Text that tomllib quotes from a file, longer than a character or two of its grammar."""

_TABLES: Final = ("broker", "cluster", "layout", "store", "topics")

_TYPES: Final = {
    bool: "true or false",
    dict: "a table",
    list: "a list",
    int: "a number",
    str: "a string",
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
    unused: tuple[str, ...] = ()
    """Kafka's names that have no effect here."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The topics' labels by owner."""

    @property
    def is_exact(self) -> bool:
        """The table names one topic, not a pattern."""
        return not _WILDCARDS.intersection(self.pattern)

    def holds(self, topic: str) -> bool:
        """Whether the table applies to the topic; a pattern also matches its own text."""
        return topic == self.pattern or fnmatchcase(topic, self.pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The settings of a user's file or command line."""

    broker: Layer
    topics: Layer
    """Applies to every topic; only `--set` has it."""
    tables: tuple[TopicTable, ...]
    """In the file's order; only a file has them."""
    unused: tuple[str, ...]
    """Kafka's names under `[broker]`, or of `--set`, that have no effect here."""
    store: StoreOptions = ENVIRONMENT
    """The table `[store]`; only a file has it."""
    layout: GivenLayout = UNSPECIFIED
    """The table `[layout]`; only a file has it."""
    cluster: GivenCluster = NO_CLUSTER
    """The table `[cluster]`; only a file has it."""
    tier: str = ""
    """The tier of a command that is given none; only a file has it. Empty: it names none."""


NOTHING_GIVEN: Final = Given(broker={}, topics={}, tables=(), unused=())


def shipped_defaults() -> Layer:
    """Return the packaged defaults."""
    return {
        setting.field: SettingValue(value=setting.kind.parse(setting.default), source=NOT_SET)
        for setting in SETTINGS
        if setting.default is not None
    }


def read_config(path: Path) -> Given:
    """Read the user's file; raises `BadSettings`, also if the file cannot be read."""
    try:
        toml = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadSettings(
            f"the settings cannot be read: {why}",
            where=str(path),
            remedy="Name a TOML file with --config or in TIERFOLD_CONFIG.",
        ) from error
    return config_of_toml(toml, where=str(path))


@lru_cache(maxsize=1)  # A verb that has its tier from the file asks twice.
def config_of_toml(toml: str, *, where: str) -> Given:
    """Parse the text of a file; `where` names the file in messages and in sources.

    Raises `BadSettings` for invalid TOML, an unknown table or name, or a value that is not allowed.
    """
    try:
        # parse_float=str: a ratio stays as written, 0.1 and not the nearest float.
        document = tomllib.loads(toml, parse_float=str)
        repr(document)  # A message must be able to print each value.
    # Not only TOMLDecodeError: Python refuses numbers of thousands of digits, and the parser
    # recurses into nested brackets.
    except (ValueError, RecursionError) as error:
        # From None: a log that shows causes would quote the text.
        raise BadSettings(
            f"not TOML: {without_quotes(str(error))}",
            where=where,
            remedy='Write one "NAME" = VALUE per line.',
        ) from None
    tier = _tier(document.pop("tier", ""), where)
    for name in document:
        if name not in _TABLES:
            raise _outside(name, document[name], where)
    broker = _table(document.get("broker", {}), f"{where} [broker]")
    unused = tuple(name for name, value in broker.items() if is_unused(name, value))
    topics = _table(document.get("topics", {}), f"{where} [topics]")
    store, layout, cluster = (f"{where} [{name}]" for name in ("store", "layout", "cluster"))
    of_cluster = dict(_table(document.get("cluster", {}), cluster))
    waits = {name: of_cluster.pop(name) for name in OF_CLUSTER if name in of_cluster}
    return Given(
        broker=_broker_layer(
            {
                name: _broker_value(name, value, f"{where} [broker]")
                for name, value in broker.items()
                if name not in unused
            }
            | {name: _broker_value(name, value, cluster) for name, value in waits.items()}
        ),
        topics={},
        tables=tuple(_topic_table(pattern, table, where) for pattern, table in topics.items()),
        unused=unused,
        store=store_options(_table(document.get("store", {}), store), store),
        layout=layout_of_table(_table(document.get("layout", {}), layout), layout),
        cluster=cluster_of_table(of_cluster, cluster),
        tier=tier,
    )


def _outside(name: str, value: object, where: str) -> BadSettings:
    near = get_close_matches(name, _TABLES, n=1) if isinstance(value, dict) else []
    if near:
        meant = '[topics."NAME"]' if near[0] == "topics" else f"[{near[0]}]"
        return BadSettings(
            f"there is no table {setting_name(name)}", where=where, remedy=f"Did you mean {meant}?"
        )
    return BadSettings(
        f"{setting_name(name)} is outside of [broker], [topics], [store], [layout] and [cluster]",
        where=where,
        remedy="Put a broker's settings under [broker], a topic's under [topics.\"NAME\"], the"
        " options of an object store under [store], of a layout under [layout], of a client of"
        " Kafka under [cluster].",
    )


def without_quotes(text: str) -> str:
    """Return a parser's message without what it quotes of a file, which may be secret."""
    return _QUOTED.sub("…", text)


def command_line(overrides: Sequence[str]) -> Given:
    """Parse each `NAME=VALUE`; the last one of a name takes effect.

    Raises `BadSettings` for a missing `=`, an unknown name, or a value that is not allowed.
    """
    broker: dict[str, SettingValue] = {}
    topics: dict[str, SettingValue] = {}
    unused: dict[str, None] = {}
    for override in overrides:
        name, equals, text = (part.strip() for part in override.partition("="))
        spelling = BY_TOPIC_NAME.get(name) or BY_BROKER_NAME.get(name)
        source = f"{COMMAND_LINE} {name}"
        if not equals:
            raise BadSettings(
                "no value",
                where=source if spelling else f"{COMMAND_LINE} {HIDDEN}",
                remedy=f"Write it as {COMMAND_LINE} NAME=VALUE, without spaces around the sign.",
            )
        if spelling is not None:
            given = SettingValue(value=parsed(spelling, text, source), source=source)
            if name in BY_TOPIC_NAME:
                topics[spelling.setting.field] = given
            else:
                broker[name] = given
        elif is_unused(name, text):
            unused[name] = None
        else:
            raise _unknown(name, (*BY_TOPIC_NAME, *BY_BROKER_NAME), COMMAND_LINE)
    return Given(broker=_broker_layer(broker), topics=topics, tables=(), unused=tuple(unused))


@cache
def broker_names() -> frozenset[str]:
    """Return every name that a broker's server.properties may contain, from `conf/`.

    A prefix ends in `*` and covers names of listeners and plugins.
    """
    return _names("broker_names.txt")


@cache
def topic_names() -> frozenset[str]:
    """Return every name that a topic's settings may have in Kafka, from `conf/`."""
    return _names("topic_names.txt")


def _names(file: str) -> frozenset[str]:
    text = resources.files("tierfold.conf").joinpath(file).read_text("utf-8")
    lines = (line.strip() for line in text.splitlines())
    return frozenset(line for line in lines if line and not line.startswith("#"))


def is_unused(name: str, value: object) -> bool:
    """Whether the name is a broker's or a topic's in Kafka, but has no effect here.

    A table is not a setting of Kafka: it comes from a dotted name without quotes.
    """
    if name in BY_BROKER_NAME or name in BY_TOPIC_NAME or isinstance(value, dict):
        return False
    known = broker_names() | topic_names()
    prefixes = (pattern.removesuffix("*") for pattern in known if pattern.endswith("*"))
    return name in known or any(name.startswith(prefix) and name != prefix for prefix in prefixes)


def _broker_layer(by_name: Layer) -> Layer:
    """Values by field, from values by broker name; the first of a setting's names counts."""
    layer: dict[str, SettingValue] = {}
    for name, spelling in BY_BROKER_NAME.items():
        if name in by_name:
            layer.setdefault(spelling.setting.field, by_name[name])
    return layer


def _broker_value(name: str, value: object, where: str) -> SettingValue:
    if name in OF_CLUSTER and not where.endswith("[cluster]"):
        raise BadSettings(
            f"{name} is a setting of a cluster", where=where, remedy="Put it under [cluster]."
        )
    if name in BY_BROKER_NAME:
        parsed = _value(BY_BROKER_NAME[name], value, where)
        return SettingValue(value=parsed, source=f"{where} {name}")
    if name not in BY_TOPIC_NAME:
        raise _unknown_in_table(name, value, BY_BROKER_NAME, where)
    names = " or ".join(BY_TOPIC_NAME[name].setting.broker_names)
    instead = f"Write {names} here, or put" if names else "Put"
    raise BadSettings(
        f"{name} is a topic's setting",
        where=where,
        remedy=f'{instead} {name} under [topics."*"].',
    )


def _tier(value: object, where: str) -> str:
    if isinstance(value, str):
        return value
    raise BadSettings(
        f"tier is {_TYPES.get(type(value), 'a date or a time')}",
        where=where,
        remedy='Write the folder or URI: tier = "s3://bucket/prefix".',
    )


def _topic_table(pattern: str, table: object, file: str) -> TopicTable:
    where = f'{file} [topics."{pattern}"]'
    if not _PATTERN.fullmatch(pattern):
        raise BadSettings(
            "no topic can have this name",
            where=where,
            remedy="Write a topic's name, or a shell pattern (* ? [abc]), one per table.",
        )
    layer, values = {}, dict(_table(table, where))
    labels = labels_of(values.pop(LABELS, {}), where)
    unused = tuple(name for name, value in values.items() if is_unused(name, value))
    for name, value in values.items():
        if name in unused:
            continue
        spelling = BY_TOPIC_NAME.get(name)
        if spelling is None:
            raise not_a_topics(name, value, where)
        layer[spelling.setting.field] = SettingValue(
            value=_value(spelling, value, where), source=where
        )
    return TopicTable(pattern=pattern, layer=layer, where=where, unused=unused, labels=labels)


def not_a_topics(name: str, value: object, where: str) -> BadSettings:
    """Return the error of a name that no topic's setting has."""
    if name not in BY_BROKER_NAME:
        return _unknown_in_table(name, value, BY_TOPIC_NAME, where)
    setting = BY_BROKER_NAME[name].setting
    instead = f"Write {setting.name} here, or put" if setting.is_for_topics else "Put"
    return BadSettings(
        f"{name} is a broker's setting", where=where, remedy=f"{instead} {name} under [broker]."
    )


def _unknown_in_table(name: str, value: object, known: Iterable[str], where: str) -> BadSettings:
    if not isinstance(value, dict):
        return _unknown(name, known, where)
    return BadSettings(
        f"{setting_name(name)} is a table, not a setting",
        where=where,
        remedy='Quote names that contain a dot: "segment.bytes" = 1048576.',
    )


def _unknown(name: str, known: Iterable[str], where: str) -> BadSettings:
    names = tuple(dict.fromkeys(known))
    near = get_close_matches(name, (*names, *broker_names(), *topic_names()), n=1)
    if near and near[0] in names:
        near = get_close_matches(name, names)
    remedy = f"Did you mean {' or '.join(near)}?" if near else f"Known are {', '.join(names)}."
    return BadSettings(f"there is no setting {setting_name(name)}", where=where, remedy=remedy)


def _table(value: object, where: str) -> Mapping[str, object]:
    if isinstance(value, dict):
        return value
    raise BadSettings(
        f"this is {_TYPES.get(type(value), 'a value')}, not a table",
        where=where,
        remedy='Write [broker], [store], [layout], [cluster] and [topics."NAME"], each on its own'
        " line.",
    )


def _value(spelling: Spelling, value: object, where: str) -> object:
    """Parse a TOML value; it becomes text first, so that one parser serves all sources."""
    if isinstance(value, list) and spelling.kind is POLICY_LIST:
        if all(isinstance(name, str) for name in value):
            return parsed(spelling, ",".join(value), where)
    elif isinstance(value, bool):
        if spelling.kind is TRUE_OR_FALSE:
            return value
    elif isinstance(value, str | int):
        return parsed(spelling, str(value), where)
    raise _not_allowed(spelling, _TYPES.get(type(value), "a date or a time"), where)


def parsed(spelling: Spelling, text: str, where: str) -> object:
    """Parse a text; raises BadSettings."""
    try:
        return spelling.parse(text)
    except ValueError as error:
        raise _not_allowed(spelling, repr(text), where) from error


def _not_allowed(spelling: Spelling, shown: str, where: str) -> BadSettings:
    return BadSettings(
        f"{spelling.name} cannot be {shown}", where=where, remedy=f"Give {spelling.allowed}."
    )
