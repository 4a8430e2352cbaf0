"""The settings, from `conf/defaults.toml` and `--set NAME=VALUE` to the `Rules` of a topic.

Names are Kafka's topic settings. Later layers win over earlier ones; within the command line the
last `--set` of a name wins. Nothing is read or written before every layer has been understood.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from compaction.errors import BadSettings
from compaction.rules import Rules
from jobs.setting_kinds import PolicyList, Ratio, SettingKind, WholeNumber

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DEFAULTS_FILE: Final = "conf/defaults.toml"
COMMAND_LINE: Final = "--set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: Kafka's name for it, and what it may be."""

    name: str
    kind: SettingKind
    default: str | None
    """Kafka's own default as text, None where there is none on purpose."""
    unit: str
    doc: str

    @property
    def field(self) -> str:
        """The field of `Rules` that holds the value."""
        return self.name.replace(".", "_")


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        name="cleanup.policy",
        kind=PolicyList(),
        default=None,
        unit="list",
        doc="Only topics whose policy names compact are compacted; without one a topic is left "
        "alone.",
    ),
    Setting(
        name="min.cleanable.dirty.ratio",
        kind=Ratio(),
        default="0.5",
        unit="ratio",
        doc="A partition is compacted when the dirty share of its bytes is above this.",
    ),
    Setting(
        name="delete.retention.ms",
        kind=WholeNumber(least=0, most=LONG_MAX),
        default="86400000",
        unit="milliseconds",
        doc="How long a tombstone or a transaction marker stays after the first pass that met it.",
    ),
    Setting(
        name="producer.id.expiration.ms",
        kind=WholeNumber(least=1, most=INT_MAX),
        default="86400000",
        unit="milliseconds",
        doc="A producer silent for that long is forgotten, and its last batch may go.",
    ),
    Setting(
        name="segment.bytes",
        # Kafka's floor for topics is 1 MiB; merging to less does no harm and shows more on a
        # small log, so that this one is lower.
        kind=WholeNumber(least=1, most=INT_MAX),
        default="1073741824",
        unit="bytes",
        doc="Neighbouring segments are merged up to this size of the log.",
    ),
    Setting(
        name="segment.index.bytes",
        kind=WholeNumber(least=4, most=INT_MAX),
        default="10485760",
        unit="bytes",
        doc="Neighbouring segments are merged while each index stays within this size.",
    ),
    Setting(
        name="index.interval.bytes",
        kind=WholeNumber(least=0, most=INT_MAX),
        default="4096",
        unit="bytes",
        doc="How many bytes of log lie between two entries of an index.",
    ),
)

_BY_NAME: Final[Mapping[str, Setting]] = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that was said, understood."""

    rules: Rules
    """What holds for every topic that nothing more particular is said about."""

    def rules_for(self, topic: str) -> Rules:  # noqa: ARG002  (every topic has the same rules yet)
        """The effective settings of one topic."""
        return self.rules


def resolve(overrides: Sequence[str]) -> Settings:
    """The settings of a run: the shipped defaults, then `overrides`, each `NAME=VALUE`.

    Raises `BadSettings` for an override without `=`, an unknown name, a value not allowed.
    """
    values = default_values()
    for override in overrides:
        name, equals, text = override.partition("=")
        where = f"{COMMAND_LINE} {override}"
        if not equals:
            raise BadSettings(
                "no value",
                where=where,
                remedy=f"Write it as {COMMAND_LINE} NAME=VALUE, without spaces around the sign.",
            )
        setting = _setting(name.strip(), where=where)
        values[setting.field] = _value(setting, text.strip(), where=where)
    return Settings(rules=Rules(**values))


def default_values() -> dict[str, Any]:
    """Values by field of `Rules`, from the packaged `conf/defaults.toml`."""
    toml = resources.files("conf").joinpath("defaults.toml").read_text(encoding="utf-8")
    return values_of_toml(toml, where=DEFAULTS_FILE)


def values_of_toml(toml: str, *, where: str) -> dict[str, Any]:
    """Values by field of `Rules`; `where` names the file in messages.

    Raises `BadSettings` for text that is no TOML, an unknown name, a value not allowed.
    """
    try:
        # parse_float=str: a ratio stays what was written, 0.1 and not the float nearest to it.
        table = tomllib.loads(toml, parse_float=str)
    except tomllib.TOMLDecodeError as fault:
        raise BadSettings(
            f"not TOML: {fault}", where=where, remedy='Write one "NAME" = VALUE per line.'
        ) from fault
    settings = {name: _setting(name, where=where) for name in table}
    return {
        setting.field: _value(setting, _as_text(table[name]), where=where)
        for name, setting in settings.items()
    }


def _as_text(value: object) -> str:
    """A TOML value as `--set` would have it, so that one parser serves both."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _setting(name: str, *, where: str) -> Setting:
    """The setting of that name, or the refusal that lists what comes near it."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    near = difflib.get_close_matches(name, _BY_NAME, n=3, cutoff=0.6)
    remedy = f"Did you mean {' or '.join(near)}?" if near else f"Known are {', '.join(_BY_NAME)}."
    raise BadSettings(f"there is no setting {name!r}", where=where, remedy=remedy)


def _value(setting: Setting, text: str, *, where: str) -> object:
    """The value that the text stands for, or the refusal that says what is allowed."""
    try:
        return setting.kind.parse(text)
    except ValueError as fault:
        raise BadSettings(
            f"{setting.name} cannot be {text!r}",
            where=where,
            remedy=f"Give {setting.kind.allowed} ({setting.unit}).",
        ) from fault
