"""Defines every setting: Kafka's name, the allowed values, the broker's names.

A broker's name for a topic's setting is Kafka's (`ServerTopicConfigSynonyms`). If a broker has
several names, the first one given takes effect. The defaults are in `conf/defaults.toml`.
The table in `docs/settings.md` is generated from this one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from tierfold.compaction.deletion.deletion_plan import GRACE_MS
from tierfold.compaction.deletion.served_grace import TIMEOUTS_IN_GRACE
from tierfold.compaction.model.bindings import TierBinding
from tierfold.compaction.model.rules import LONG_MAX, RECORD_BYTES_MAX, CompactionStrategy
from tierfold.jobs.settings.kinds import (
    FALSE_POSITIVE_RATE,
    HEADER_NAME,
    POLICY_LIST,
    RATIO,
    TRUE_OR_FALSE,
    SettingKind,
    limit,
    one_of,
    whole_number,
)

INT_MAX: Final = 2**31 - 1
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS

MESSAGE_TIMEOUT_MIN_MS: Final = 1000
"""Below, a look would be too old before its events are sent."""
MESSAGE_TIMEOUT_MAX_MS: Final = GRACE_MS // TIMEOUTS_IN_GRACE
"""Above, the default grace period would not bound a late send."""

KAFKA: Final = "Kafka"
KAFKA_4_4: Final = "Kafka 4.4"
KIP_280: Final = "KIP-280"
KIP_1241: Final = "KIP-1241"
TIERFOLD: Final = "tierfold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: Kafka's name and the allowed values."""

    name: str
    kind: SettingKind
    doc: str
    broker_names: tuple[str, ...]
    """A broker's names for it, whose values apply to all topics; the first given takes effect. No
    name: only topics have it."""
    is_for_topics: bool = True
    """A topic may have its own value; False: the broker has one value for all topics."""
    source: str = KAFKA
    """The origin of its name and meaning."""

    @property
    def field(self) -> str:
        """The field of `Rules` that holds the value."""
        return self.name.replace(".", "_")

    @property
    def unit(self) -> str:
        """The unit of its value."""
        return self.kind.unit

    @property
    def default(self) -> str | None:
        """The shipped default as text; None: deliberately none."""
        return default_texts().get(self.name)


@cache
def default_texts() -> Mapping[str, str]:
    """Read the packaged `conf/defaults.toml`; return its texts by name of setting."""
    toml = resources.files("tierfold.conf").joinpath("defaults.toml").read_text(encoding="utf-8")
    return {name: str(value) for name, value in tomllib.loads(toml).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """One name of a setting, with the allowed values under that name."""

    setting: Setting
    name: str
    kind: SettingKind
    unit_ms: int = 1
    """Milliseconds in one unit of `kind`."""

    @property
    def allowed(self) -> str:
        """The allowed values and their unit."""
        return f"{self.kind.allowed} ({self.kind.unit})"

    def parse(self, text: str) -> Any:  # noqa: ANN401 - each setting has its own type
        """Return the value in the setting's unit; raises ValueError if the text is not allowed."""
        value = self.kind.parse(text)
        return value if self.unit_ms == 1 or value < 0 else value * self.unit_ms


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        name="cleanup.policy",
        kind=POLICY_LIST,
        broker_names=("log.cleanup.policy",),
        doc="Only topics whose policy includes compact are compacted. A topic without a policy is "
        "left unchanged.",
    ),
    Setting(
        name="compaction.strategy",
        kind=one_of(CompactionStrategy, empty=CompactionStrategy.OFFSET),
        broker_names=("log.cleaner.compaction.strategy",),
        source=KIP_280,
        doc="Which record of a key stays: the one with the highest offset, the latest timestamp, "
        "or the highest version in a header.",
    ),
    Setting(
        name="compaction.strategy.header",
        kind=HEADER_NAME,
        broker_names=("log.cleaner.compaction.strategy.header",),
        source=KIP_280,
        doc="The header that holds a record's version. The strategy header needs it.",
    ),
    Setting(
        name="min.cleanable.dirty.ratio",
        kind=RATIO,
        broker_names=("log.cleaner.min.cleanable.ratio",),
        doc="A partition is compacted when the dirty share of its bytes exceeds this.",
    ),
    Setting(
        name="min.compaction.lag.ms",
        kind=whole_number(0, LONG_MAX, "milliseconds"),
        broker_names=("log.cleaner.min.compaction.lag.ms",),
        doc="A segment with a record younger than this is not compacted yet, and neither are the "
        "segments after it.",
    ),
    Setting(
        name="max.compaction.lag.ms",
        kind=whole_number(1, LONG_MAX, "milliseconds"),
        broker_names=("log.cleaner.max.compaction.lag.ms",),
        doc="A partition with uncompacted records older than this is compacted first, whatever "
        "its dirty ratio. It cannot be below min.compaction.lag.ms.",
    ),
    Setting(
        name="delete.retention.ms",
        kind=whole_number(0, LONG_MAX, "milliseconds"),
        broker_names=("log.cleaner.delete.retention.ms",),
        doc="How long a tombstone or a transaction marker stays after the first pass that reads "
        "it.",
    ),
    Setting(
        name="producer.id.expiration.ms",
        kind=whole_number(1, INT_MAX, "milliseconds"),
        broker_names=("producer.id.expiration.ms",),
        is_for_topics=False,
        doc="A producer that is silent for this long is forgotten. Its last batch may then be "
        "removed.",
    ),
    Setting(
        name="retention.ms",
        kind=whole_number(-1, LONG_MAX, "milliseconds"),
        broker_names=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        doc="If the policy includes delete: a segment expires when its newest record is older "
        "than this. -1: no segment expires by age.",
    ),
    Setting(
        name="retention.bytes",
        kind=limit(0, LONG_MAX, "bytes"),
        broker_names=("log.retention.bytes",),
        doc="If the policy includes delete: the oldest segment expires while the log without it "
        "is still at least this large. -1: no segment expires by size.",
    ),
    Setting(
        name="local.retention.ms",
        kind=whole_number(-2, LONG_MAX, "milliseconds"),
        broker_names=("log.local.retention.ms",),
        doc="How long brokers keep a segment on their disks, which upload and local-retention "
        "follow. -1: forever. -2: as retention.ms.",
    ),
    Setting(
        name="local.retention.bytes",
        kind=whole_number(-2, LONG_MAX, "bytes"),
        broker_names=("log.local.retention.bytes",),
        doc="How much of a log brokers keep on their disks. -1: all. -2: as retention.bytes.",
    ),
    Setting(
        name="local.retention.compacted.only",
        kind=TRUE_OR_FALSE,
        broker_names=("local.retention.compacted.only",),
        source=TIERFOLD,
        doc="For local-retention. true: with the policy compact alone, a segment stays on brokers' "
        "disks until it is compacted in the tier. false: local retention alone decides.",
    ),
    Setting(
        name="remote.copy.lag.ms",
        kind=whole_number(-1, LONG_MAX, "milliseconds"),
        broker_names=("log.remote.copy.lag.ms",),
        source=KIP_1241,
        doc="upload takes a segment once its newest record is so old, or by the next setting. 0: "
        "at once. -1: as long as brokers keep it on their disks.",
    ),
    Setting(
        name="remote.copy.lag.bytes",
        kind=whole_number(-1, LONG_MAX, "bytes"),
        broker_names=("log.remote.copy.lag.bytes",),
        source=KIP_1241,
        doc="upload takes a segment once so much of the log lies behind it. 0: at once. -1: as "
        "much as brokers keep on their disks.",
    ),
    Setting(
        name="segment.ms",
        kind=whole_number(1, LONG_MAX, "milliseconds"),
        broker_names=("log.roll.ms", "log.roll.hours"),
        doc="After this time a broker should have rolled its active segment, unless "
        "max.compaction.lag.ms is shorter.",
    ),
    Setting(
        name="segment.bytes",
        # Kafka's minimum is 1 MiB. Smaller merges are safe, and show more on a small log.
        kind=whole_number(1, INT_MAX, "bytes"),
        broker_names=("log.segment.bytes",),
        doc="Neighbouring segments are merged into segments of at most this many log bytes.",
    ),
    Setting(
        name="segment.index.bytes",
        kind=whole_number(4, INT_MAX, "bytes"),
        broker_names=("log.index.size.max.bytes",),
        doc="Neighbouring segments are merged while each index stays within this size.",
    ),
    Setting(
        name="index.interval.bytes",
        kind=whole_number(0, INT_MAX, "bytes"),
        broker_names=("log.index.interval.bytes",),
        doc="How many bytes of log lie between two entries of an index.",
    ),
    Setting(
        name="max.decompressed.message.bytes",
        kind=whole_number(1, RECORD_BYTES_MAX, "bytes"),
        broker_names=("max.decompressed.message.bytes",),
        source=KAFKA_4_4,
        doc="A record of a compressed batch may take this many bytes once decompressed. A larger "
        "one fails its partition when it is compacted. The default is the largest that Kafka "
        "reads.",
    ),
    Setting(
        name="chunk.bytes",
        kind=whole_number(1, LONG_MAX, "bytes"),
        broker_names=("chunk.bytes",),
        source=TIERFOLD,
        doc="A commit cleans at most this many bytes of dirty segments, but at least one segment. "
        "If not set, one commit cleans all of them.",
    ),
    Setting(
        name="compact.keyless.max",
        kind=whole_number(0, LONG_MAX, "records"),
        broker_names=("compact.keyless.max",),
        source=TIERFOLD,
        doc="How many records without a key a commit may drop. If it would drop more, the "
        "partition fails and is left unchanged. If not set, there is no limit.",
    ),
    Setting(
        name="decompressed.batch.max.bytes",
        kind=whole_number(1, INT_MAX, "bytes"),
        broker_names=("decompressed.batch.max.bytes",),
        source=TIERFOLD,
        doc="A compressed batch may take this many bytes once decompressed. If not set, or less: "
        "128 MiB, or 256 times its size if that is more. A larger batch fails its partition. Each "
        "worker needs several times as much memory.",
    ),
    Setting(
        name="tail.margin.segments",
        kind=whole_number(0, INT_MAX, "segments"),
        broker_names=("tail.margin.segments",),
        source=TIERFOLD,
        doc="If brokers are asked: how many of the newest segments in the tier a round leaves "
        "alone, because a new leader may upload them again. max.compaction.lag.ms overrides it.",
    ),
    Setting(
        name="upload.wait.ms",
        kind=whole_number(0, LONG_MAX, "milliseconds"),
        broker_names=("upload.wait.ms",),
        is_for_topics=False,
        source=TIERFOLD,
        doc="If brokers are asked: an upload that they began and have not finished holds a round "
        "back for this long, and until other segments cover its offsets. A file has it under "
        "[cluster].",
    ),
    Setting(
        name="publish",
        kind=TRUE_OR_FALSE,
        broker_names=(),
        source=TIERFOLD,
        doc="false: nothing of the topic is published, although publishing is on for the cluster, "
        "and beside brokers the topic is not compacted. true turns nothing on: that is publish "
        "under [cluster], or --publish.",
    ),
    Setting(
        name="message.timeout.ms",
        kind=whole_number(MESSAGE_TIMEOUT_MIN_MS, MESSAGE_TIMEOUT_MAX_MS, "milliseconds"),
        broker_names=("message.timeout.ms",),
        is_for_topics=False,
        source=TIERFOLD,
        doc="How long a look at brokers is valid, and how long events wait for their answer. Sixty "
        "times as long is the least grace period of a tier that they serve. A file has it under "
        "[cluster].",
    ),
    Setting(
        name="publish.max.events.per.second",
        kind=whole_number(1, INT_MAX, "events per second"),
        broker_names=("publish.max.events.per.second",),
        is_for_topics=False,
        source=TIERFOLD,
        doc="How many events a run sends to the brokers' metadata topic at most. If not set, there "
        "is no limit. A file has it under [cluster].",
    ),
    Setting(
        name="min.rewrite.gain",
        kind=RATIO,
        broker_names=("min.rewrite.gain",),
        source=TIERFOLD,
        doc="A clean segment with a key index stays as it is if the round would save a smaller "
        "share of its bytes. Deleted keys are removed in any case. What rounds leave adds up, and "
        "no more than this share is ever left.",
    ),
    Setting(
        name="min.rewrite.bytes",
        kind=whole_number(0, LONG_MAX, "bytes"),
        broker_names=("min.rewrite.bytes",),
        source=TIERFOLD,
        doc="The same, if the round would save fewer bytes.",
    ),
    Setting(
        name="rewrite.young.objects",
        kind=TRUE_OR_FALSE,
        broker_names=("rewrite.young.objects",),
        source=TIERFOLD,
        doc="false: a round waits if deleting objects before the minimum storage duration of their "
        "class costs more than the round can save until then. true: it never waits for that. "
        "max.compaction.lag.ms and --first-dirty never do.",
    ),
    Setting(
        name="bloom.filter.fpp",
        kind=FALSE_POSITIVE_RATE,
        broker_names=("bloom.filter.fpp",),
        source=TIERFOLD,
        doc="How often the Bloom filter of a segment may claim a key that the segment lacks. It is "
        "made with the segment; a change applies to new segments.",
    ),
    Setting(
        name="tier.binding",
        kind=one_of(TierBinding),
        broker_names=("tier.binding",),
        is_for_topics=False,
        source=TIERFOLD,
        doc="detached: no broker serves the tier, and vacuum may delete what brokers uploaded. "
        "bound or not set: brokers may still refer to what they uploaded. abandoned: detached, "
        "although the catalog names a cluster that served it. moved: bound, and the tier stands "
        "elsewhere than the catalog says; it counts only where brokers are named. vacuum notes the "
        "new place, and later runs need the setting no longer.",
    ),
)

_OTHER_KINDS: Final = {
    "log.retention.ms": (limit(1, LONG_MAX, "milliseconds"), 1),
    "log.retention.minutes": (limit(1, INT_MAX, "minutes"), MINUTE_MS),
    "log.retention.hours": (limit(1, INT_MAX, "hours"), HOUR_MS),
    "log.roll.hours": (whole_number(1, INT_MAX, "hours"), HOUR_MS),
}
"""A broker's names that allow other values than the setting, and milliseconds in one unit."""

BY_TOPIC_NAME: Final[Mapping[str, Spelling]] = {
    setting.name: Spelling(setting=setting, name=setting.name, kind=setting.kind)
    for setting in SETTINGS
    if setting.is_for_topics
}
BY_BROKER_NAME: Final[Mapping[str, Spelling]] = {
    name: Spelling(setting=setting, name=name, kind=kind, unit_ms=unit_ms)
    for setting in SETTINGS
    for name in setting.broker_names
    for kind, unit_ms in [_OTHER_KINDS.get(name, (setting.kind, 1))]
}
