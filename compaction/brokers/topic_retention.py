"""What brokers keep of a topic, locally and in the tier, and what to change where it is too little.

Rule: Kafka `LogConfig`, `RemoteLogManager`. −2 as local retention means "as retention"; any other
negative number means for ever. Brokers may differ: each has its own server.properties, so where the
topic has no value of its own, each broker's counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tierfold.compaction.brokers.cluster_configs import (
    Configs,
    ConfigSource,
    ConfigValue,
    number_in,
)
from tierfold.compaction.model.rules import AS_RETENTION, DAY_MS, Rules

FOR_EVER: Final = -1
LOCAL_SLACK_MS: Final = 3_600_000
"""How late a broker may drop a local segment: it looks every few minutes, and clocks differ."""
_MINUTE_MS: Final = 60_000
_OF_BROKERS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", 60 * _MINUTE_MS),
    ),
    "retention.bytes": (("log.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
}
"""By a topic's setting: a broker's names and their units; the first one that is set counts."""
_NAMES_OF_BROKERS: Final = tuple(name for names in _OF_BROKERS.values() for name, _ in names)
_DEFAULTS: Final = {
    "retention.ms": 7 * DAY_MS,
    "retention.bytes": FOR_EVER,
    "local.retention.ms": AS_RETENTION,
    "local.retention.bytes": AS_RETENTION,
}


class Limit(NamedTuple):
    """An effective limit of a broker."""

    value: int
    """Milliseconds or bytes; −1: none."""
    where: str
    """Its source, or the broker that has it."""

    def __str__(self) -> str:
        return f"{self.value} ({self.where})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRetention:
    """What one broker keeps of a topic."""

    retention_ms: Limit
    retention_bytes: Limit
    local_ms: Limit
    local_bytes: Limit

    @property
    def local_time_ms(self) -> int | None:
        """How long local data stay, effectively; None: for ever."""
        return _effective(self.local_ms, self.retention_ms)

    @property
    def is_local_time_finite(self) -> bool:
        """Whether time alone lets local data go."""
        return self.local_time_ms is not None

    @property
    def is_within(self) -> bool:
        """Whether local data go no later than the others; only a tiered topic must be so."""
        total_ms, local_ms = self.retention_ms.value, self.local_ms.value
        return total_ms < 0 or local_ms == AS_RETENTION or 0 <= local_ms <= total_ms

    @property
    def is_local_finite(self) -> bool:
        """Whether local data go at all, by time or by size."""
        size = _effective(self.local_bytes, self.retention_bytes)
        return self.is_local_time_finite or size is not None


def retentions(
    topic: Configs, brokers: Mapping[int, Configs]
) -> tuple[TopicRetention, ...]:
    """What brokers keep of a topic, each distinct answer once; at least one.

    `topic`: its settings as one broker answered; `brokers`: by broker, its own settings.
    """
    # Brokers are mostly set up alike, and a tier may have ten thousand partitions.
    distinct: dict[tuple[ConfigValue | None, ...], tuple[Configs, int]] = {}
    for number, own in brokers.items():
        distinct.setdefault(tuple(map(own.get, _NAMES_OF_BROKERS)), (own, number))
    found = [_retention(topic, own, number) for own, number in [({}, 0), *distinct.values()]]
    return tuple(dict.fromkeys(found))


def local_time_ms(topic: Configs, brokers: Mapping[int, Configs]) -> int | None:
    """How long local data of a topic may stay on some broker; None: no time limits it."""
    times_ms = [one.local_time_ms for one in retentions(topic, brokers)]
    known_ms = [time_ms for time_ms in times_ms if time_ms is not None]
    return max(known_ms) if len(known_ms) == len(times_ms) else None


def mending(topic: Configs, brokers: Mapping[int, Configs], rules: Rules) -> dict[str, str]:
    """The settings of a tiered topic that must change, in the order in which Kafka takes them."""
    found = retentions(topic, brokers)
    changes = {}
    if not rules.is_deleted and any(one.retention_ms.value != FOR_EVER for one in found):
        changes["retention.ms"] = str(FOR_EVER)
    if any(one.retention_bytes.value != FOR_EVER for one in found):
        changes["retention.bytes"] = str(FOR_EVER)
    after = [_changed(one, changes) for one in found]
    if not all(one.is_local_finite and one.is_within for one in after):
        # What they keep now, where that has an end; Kafka wants no more than retention.ms.
        times_ms = [one.local_time_ms for one in found if one.local_time_ms is not None]
        limits_ms = [one.retention_ms.value for one in after if one.retention_ms.value >= 0]
        local_ms = min([max(times_ms, default=DAY_MS), *limits_ms])
        changes = {"local.retention.ms": str(local_ms)} | changes
        after = [_changed(one, changes) for one in found]
    if _text(topic, "remote.log.copy.disable") == "true" and not all(map(_is_as_one, after)):
        changes = {"remote.log.copy.disable": "false"} | changes
    if not is_tiered(topic):
        if "compact" in _text(topic, "cleanup.policy"):
            changes["cleanup.policy"] = "delete"
        changes["remote.storage.enable"] = "true"
    return changes


def is_copying(topic: Configs) -> bool:
    """Whether brokers copy the topic to the tier."""
    return is_tiered(topic) and _text(topic, "remote.log.copy.disable") != "true"


def stopping_copies(topic: Configs) -> dict[str, str]:
    """The settings that stop the copying of a topic, as Kafka takes them: local data then stay."""
    changes = {"remote.log.copy.disable": "true", "local.retention.ms": str(AS_RETENTION)}
    if number_in(topic, "local.retention.bytes") not in {None, AS_RETENTION}:
        changes["local.retention.bytes"] = str(AS_RETENTION)
    return changes


def is_tiered(topic: Configs) -> bool:
    """Whether brokers keep the topic in the tier."""
    return _text(topic, "remote.storage.enable") == "true"


def _retention(topic: Configs, broker: Configs, number: int) -> TopicRetention:
    limits = {name: _limit(topic, broker, number, name) for name in _DEFAULTS}
    return TopicRetention(
        retention_ms=limits["retention.ms"],
        retention_bytes=limits["retention.bytes"],
        local_ms=limits["local.retention.ms"],
        local_bytes=limits["local.retention.bytes"],
    )


def _limit(topic: Configs, broker: Configs, number: int, name: str) -> Limit:
    default, asked = _DEFAULTS[name], number_in(topic, name)
    answer = (
        Limit(default, ConfigSource.KAFKA_DEFAULT)
        if asked is None
        else Limit(_bounded(asked, default), topic[name].source)
    )
    if answer.where == ConfigSource.TOPIC:
        return answer
    for own_name, unit in _OF_BROKERS[name]:
        own = number_in(broker, own_name)
        if own is not None:
            value = _bounded(own if own < 0 else own * unit, default)
            return answer if value == answer.value else Limit(value, f"broker {number}")
    return answer


def _bounded(value: int, default: int) -> int:
    """Any other negative number means for ever, as −1 does."""
    return value if value >= 0 or (value, default) == (AS_RETENTION,) * 2 else FOR_EVER


def _effective(local: Limit, total: Limit) -> int | None:
    value = total.value if local.value == AS_RETENTION else local.value
    return None if value < 0 else value


def _changed(found: TopicRetention, changes: Mapping[str, str]) -> TopicRetention:
    def limit(name: str, now: Limit) -> Limit:
        return now._replace(value=int(changes[name])) if name in changes else now

    return replace(
        found,
        retention_ms=limit("retention.ms", found.retention_ms),
        retention_bytes=limit("retention.bytes", found.retention_bytes),
        local_ms=limit("local.retention.ms", found.local_ms),
    )


def _is_as_one(found: TopicRetention) -> bool:
    """Whether local data stay as long as the others: Kafka wants that where copying is off."""
    pairs = ((found.local_ms, found.retention_ms), (found.local_bytes, found.retention_bytes))
    return all(local.value in {AS_RETENTION, total.value} for local, total in pairs)


def _text(configs: Configs, name: str) -> str:
    found = configs.get(name)
    return "" if found is None else found.text
