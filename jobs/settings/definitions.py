"""Defines every setting: Kafka's name, the allowed values, the broker's names.

A broker's name for a topic's setting is Kafka's (`ServerTopicConfigSynonyms`); if a broker has
several, the first that is given counts. `docs/settings.md` is generated from this table.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.redaction import setting_name
from tierfold.compaction.model.rules import LONG_MAX, CompactionStrategy, TierBinding
from tierfold.jobs.settings.kinds import (
    HeaderName,
    Limit,
    OneOf,
    PolicyList,
    Ratio,
    SettingKind,
    WholeNumber,
)

INT_MAX: Final = 2**31 - 1
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS

KAFKA: Final = "Kafka"
KIP_280: Final = "KIP-280"
TIERFOLD: Final = "tierfold"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerName:
    """A broker's name for a topic's setting; its value applies to all topics."""

    name: str
    kind: WholeNumber | Limit | None = None
    """The allowed values under this name; None: those of the setting."""
    unit: str = ""
    """Empty: the setting's unit."""
    unit_ms: int = 1
    """Milliseconds in one of `unit`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: Kafka's name and the allowed values."""

    name: str
    kind: SettingKind
    default: str | None
    """Kafka's default as text; None: deliberately none."""
    unit: str
    doc: str
    broker_names: tuple[BrokerName, ...]
    """The first that is given counts."""
    is_for_topics: bool = True
    """A topic may have its own value; False: the broker has one value for all topics."""
    source: str = KAFKA
    """The origin of its name and meaning."""

    @property
    def field(self) -> str:
        """The field of `Rules` that holds the value."""
        return self.name.replace(".", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """One name of a setting, with the allowed values under that name."""

    setting: Setting
    name: str
    by_broker: BrokerName | None = None
    """Set if the name is a broker's."""

    @property
    def allowed(self) -> str:
        """The allowed values and their unit."""
        of_broker = self.by_broker or BrokerName(name=self.name)
        kind = of_broker.kind or self.setting.kind
        return f"{kind.allowed} ({of_broker.unit or self.setting.unit})"

    def parse(self, text: str) -> object:
        """Return the value in the setting's unit; raises ValueError if the text is not allowed."""
        if self.by_broker is None or self.by_broker.kind is None:
            return self.setting.kind.parse(text)
        number = self.by_broker.kind.parse(text)
        return number if number < 0 else number * self.by_broker.unit_ms


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        name="cleanup.policy",
        kind=PolicyList(),
        default=None,
        unit="list",
        broker_names=(BrokerName(name="log.cleanup.policy"),),
        doc="Only topics whose policy names compact are compacted; without one a topic is left "
        "alone.",
    ),
    Setting(
        name="compaction.strategy",
        kind=OneOf(of=CompactionStrategy, empty=CompactionStrategy.OFFSET),
        default="offset",
        unit="name",
        broker_names=(BrokerName(name="log.cleaner.compaction.strategy"),),
        source=KIP_280,
        doc="By what the latest record of a key is told: highest offset, latest timestamp, or "
        "highest version in a header.",
    ),
    Setting(
        name="compaction.strategy.header",
        kind=HeaderName(),
        default=None,
        unit="name",
        broker_names=(BrokerName(name="log.cleaner.compaction.strategy.header"),),
        source=KIP_280,
        doc="The header that holds a record's version, under the strategy header.",
    ),
    Setting(
        name="min.cleanable.dirty.ratio",
        kind=Ratio(),
        default="0.5",
        unit="ratio",
        broker_names=(BrokerName(name="log.cleaner.min.cleanable.ratio"),),
        doc="A partition is compacted when the dirty share of its bytes is above this.",
    ),
    Setting(
        name="min.compaction.lag.ms",
        kind=WholeNumber(least=0, most=LONG_MAX),
        default="0",
        unit="milliseconds",
        broker_names=(BrokerName(name="log.cleaner.min.compaction.lag.ms"),),
        doc="A segment with a record younger than this is not compacted yet, nor what follows it.",
    ),
    Setting(
        name="max.compaction.lag.ms",
        kind=WholeNumber(least=1, most=LONG_MAX),
        default="9223372036854775807",
        unit="milliseconds",
        broker_names=(BrokerName(name="log.cleaner.max.compaction.lag.ms"),),
        doc="A partition with uncompacted records older than this is compacted first, whatever "
        "its dirty ratio; never below min.compaction.lag.ms.",
    ),
    Setting(
        name="delete.retention.ms",
        kind=WholeNumber(least=0, most=LONG_MAX),
        default="86400000",
        unit="milliseconds",
        broker_names=(BrokerName(name="log.cleaner.delete.retention.ms"),),
        doc="How long a tombstone or a transaction marker stays after the first pass that met it.",
    ),
    Setting(
        name="producer.id.expiration.ms",
        kind=WholeNumber(least=1, most=INT_MAX),
        default="86400000",
        unit="milliseconds",
        broker_names=(BrokerName(name="producer.id.expiration.ms"),),
        is_for_topics=False,
        doc="A producer silent for that long is forgotten, and its last batch may go.",
    ),
    Setting(
        name="retention.ms",
        kind=WholeNumber(least=-1, most=LONG_MAX),
        default="604800000",
        unit="milliseconds",
        broker_names=(
            BrokerName(name="log.retention.ms", kind=Limit(least=1, most=LONG_MAX)),
            BrokerName(
                name="log.retention.minutes",
                kind=Limit(least=1, most=INT_MAX),
                unit="minutes",
                unit_ms=MINUTE_MS,
            ),
            BrokerName(
                name="log.retention.hours",
                kind=Limit(least=1, most=INT_MAX),
                unit="hours",
                unit_ms=HOUR_MS,
            ),
        ),
        doc="Where the policy names delete: a segment whose newest record is older goes; -1: none "
        "goes by age.",
    ),
    Setting(
        name="retention.bytes",
        kind=Limit(least=0, most=LONG_MAX),
        default="-1",
        unit="bytes",
        broker_names=(BrokerName(name="log.retention.bytes"),),
        doc="Where the policy names delete: the oldest segments go while the log without them is "
        "still as large; -1: none goes for its size.",
    ),
    Setting(
        name="segment.ms",
        kind=WholeNumber(least=1, most=LONG_MAX),
        default="604800000",
        unit="milliseconds",
        broker_names=(
            BrokerName(name="log.roll.ms"),
            BrokerName(
                name="log.roll.hours",
                kind=WholeNumber(least=1, most=INT_MAX),
                unit="hours",
                unit_ms=HOUR_MS,
            ),
        ),
        doc="When a broker should have rolled its active segment, if max.compaction.lag.ms is not "
        "sooner.",
    ),
    Setting(
        name="segment.bytes",
        # Kafka's minimum for topics is 1 MiB. This one is lower: smaller merges are safe and show
        # more on a small log.
        kind=WholeNumber(least=1, most=INT_MAX),
        default="1073741824",
        unit="bytes",
        broker_names=(BrokerName(name="log.segment.bytes"),),
        doc="Neighbouring segments are merged up to this size of the log.",
    ),
    Setting(
        name="segment.index.bytes",
        kind=WholeNumber(least=4, most=INT_MAX),
        default="10485760",
        unit="bytes",
        broker_names=(BrokerName(name="log.index.size.max.bytes"),),
        doc="Neighbouring segments are merged while each index stays within this size.",
    ),
    Setting(
        name="index.interval.bytes",
        kind=WholeNumber(least=0, most=INT_MAX),
        default="4096",
        unit="bytes",
        broker_names=(BrokerName(name="log.index.interval.bytes"),),
        doc="How many bytes of log lie between two entries of an index.",
    ),
    Setting(
        name="chunk.bytes",
        kind=WholeNumber(least=1, most=LONG_MAX),
        default=None,
        unit="bytes",
        broker_names=(BrokerName(name="chunk.bytes"),),
        source=TIERFOLD,
        doc="Dirty segments are taken up to this size of the log, at least one, and committed "
        "before the next; without it all at once.",
    ),
    Setting(
        name="compact.keyless.max",
        kind=WholeNumber(least=0, most=LONG_MAX),
        default=None,
        unit="records",
        broker_names=(BrokerName(name="compact.keyless.max"),),
        source=TIERFOLD,
        doc="A commit may drop so many records without a key; where it would drop more, the "
        "partition fails and stays as it is. Without it, however many there are.",
    ),
    Setting(
        name="tier.binding",
        kind=OneOf(of=TierBinding),
        default=None,
        unit="name",
        broker_names=(BrokerName(name="tier.binding"),),
        is_for_topics=False,
        source=TIERFOLD,
        doc="detached: no broker serves the tier, and vacuum may delete what brokers uploaded; "
        "bound, or nobody said: they may still name it.",
    ),
)

BY_TOPIC_NAME: Final[Mapping[str, Spelling]] = {
    setting.name: Spelling(setting=setting, name=setting.name)
    for setting in SETTINGS
    if setting.is_for_topics
}
BY_BROKER_NAME: Final[Mapping[str, Spelling]] = {
    broker_name.name: Spelling(setting=setting, name=broker_name.name, by_broker=broker_name)
    for setting in SETTINGS
    for broker_name in setting.broker_names
}


def unknown(name: str, *, among: Iterable[str], where: str) -> BadSettings:
    """Return the error for an unknown name, with the closest known names."""
    known = tuple(dict.fromkeys(among))
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    remedy = f"Did you mean {' or '.join(near)}?" if near else f"Known are {', '.join(known)}."
    return BadSettings(f"there is no setting {setting_name(name)}", where=where, remedy=remedy)
