"""A topic's settings as the cluster has them: a layer below what the user writes for the topic.

The cluster never says which records stay: brokers need `cleanup.policy=delete` on a tiered topic,
and keep everything by `retention.ms=-1`. So the policy, the strategy and the retention that goes
with the policy come from the user alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.brokers.cluster_configs import (
    Configs,
    ConfigSource,
    ConfigValue,
    number_in,
)
from tierfold.jobs.settings.definitions import BY_TOPIC_NAME, SETTINGS
from tierfold.jobs.settings.layers import Layer, SettingValue, parsed

SOURCE: Final = "cluster: "
"""Begins the source of a value that the cluster has."""

FROM_USER: Final = frozenset(
    {
        *("cleanup.policy", "compaction.strategy", "compaction.strategy.header"),
        *("retention.ms", "retention.bytes"),
    }
)
"""What the cluster does not decide."""

_BROKERS_ONLY: Final = "producer.id.expiration.ms"
_ALSO_SHOWN: Final = (
    *("remote.storage.enable", "remote.log.copy.disable", "remote.log.delete.on.disable"),
    *("message.timestamp.type", "max.message.bytes", "compression.type"),
    *("compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
)
"""A tiered topic's settings that brokers alone use: what is compacted stays compressed, and has
timestamps, as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayers:
    """What the cluster says of one topic."""

    of_brokers: Layer
    """Values that the topic takes from its brokers, or that are Kafka's defaults."""
    of_topic: Layer
    """The topic's own values."""
    shown: tuple[tuple[str, ConfigValue], ...] = ()
    """By name, what brokers have of the settings that matter to a tiered topic."""


NO_CLUSTER_SAYS: Final = ClusterLayers(of_brokers={}, of_topic={})


def cluster_layers(topic: str, configs: Configs, brokers: Mapping[int, Configs]) -> ClusterLayers:
    """What the cluster says of a topic.

    `configs`: all its settings; `brokers`: by broker, its own. Raises BadSettings for a value that
    tierfold cannot follow.
    """
    of_brokers: dict[str, SettingValue] = {}
    of_topic: dict[str, SettingValue] = {}
    for name, spelling in BY_TOPIC_NAME.items():
        found = configs.get(name)
        if found is None or not found.text or name in FROM_USER:
            continue
        value = parsed(spelling, found.text, f"topic {topic} on the cluster")
        layer = of_topic if found.source is ConfigSource.TOPIC else of_brokers
        given = SettingValue(value=value, source=f"{SOURCE}{found.source}")
        layer[spelling.setting.field] = given
    return ClusterLayers(
        of_brokers=of_brokers | _of_brokers_only(brokers),
        of_topic=of_topic,
        shown=tuple(
            (name, configs[name])
            for name in (*(setting.name for setting in SETTINGS), *_ALSO_SHOWN)
            if name in configs
        ),
    )


def _of_brokers_only(brokers: Mapping[int, Configs]) -> dict[str, SettingValue]:
    """The longest time for which some broker remembers a silent producer."""
    found = [
        SettingValue(value=number, source=f"{SOURCE}{configs[_BROKERS_ONLY].source}")
        for configs in brokers.values()
        if (number := number_in(configs, _BROKERS_ONLY)) is not None
    ]
    longest = max(found, key=lambda one: one.value, default=None)
    return {} if longest is None else {_BROKERS_ONLY.replace(".", "_"): longest}
