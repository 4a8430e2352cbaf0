"""What the cluster has for a topic, beside what tierfold uses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tierfold.compaction.brokers.cluster_configs import ConfigSource
from tierfold.jobs.settings.cluster_layer import FROM_USER, SOURCE
from tierfold.jobs.settings.resolution import Settings


class ClusterUse(StrEnum):
    """Whether tierfold follows a value of the cluster."""

    FOLLOWED = "followed"
    OVERRIDDEN = "overridden"
    """The user wrote another value, which prevails."""
    USERS = "set in tierfold only"
    """Policy, strategy, and the retention that goes with them."""
    BROKERS = "of brokers only"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSetting:
    """A topic's setting as brokers have it."""

    name: str
    text: str
    """Its effective value, as Kafka writes it."""
    source: str
    """Where brokers have it from."""
    use: ClusterUse
    instead: str = ""
    """If it is overridden: what tierfold uses, and where that comes from."""

    def as_json(self) -> dict[str, Any]:
        """The entry of `--json`."""
        return {"name": self.name, "value": self.text, "source": self.source, "use": self.use}


def beside_cluster(settings: Settings, topic: str) -> list[ClusterSetting]:
    """What the cluster has for a topic; none: it was not asked. Raises as `Settings.effective`."""
    said = settings.of_topics.get(topic)
    if said is None:
        return []
    ours = {one.setting.name: one for one in settings.effective(topic)}
    theirs = {**said.of_brokers, **said.of_topic}
    found = []
    for name, value in said.shown:
        use, instead = ClusterUse.FOLLOWED, ""
        if name in FROM_USER:
            use = ClusterUse.USERS
        elif name not in ours:
            use = ClusterUse.BROKERS
        elif ours[name].value != theirs[ours[name].setting.field].value:
            use, instead = ClusterUse.OVERRIDDEN, f"{ours[name].text} ({ours[name].source})"
        found.append(
            ClusterSetting(
                name=name, text=value.text, source=value.source, use=use, instead=instead
            )
        )
    return found


def overridden(settings: Settings, topics: Iterable[str]) -> dict[str, list[str]]:
    """By sentence about a value of the cluster that is overridden, its topics.

    Not about Kafka's defaults, which are no one's decision.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for topic in topics:
        for one in beside_cluster(settings, topic):
            if one.use is ClusterUse.OVERRIDDEN and one.source != ConfigSource.KAFKA_DEFAULT:
                found[
                    f"{one.name} is {one.instead}, but {one.text} on the brokers"
                    f" ({SOURCE}{one.source})"
                ].append(topic)
    return found
