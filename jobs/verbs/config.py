"""`tierfold config`: every setting of a topic, and where its value comes from; reads no tier."""

from __future__ import annotations

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.settings.resolution import EffectiveSetting, Settings
from tierfold.storage.kafka.topic_names import is_topic


def settings_of_topic(settings: Settings, topic: str) -> list[EffectiveSetting]:
    """Return the topic's effective settings; raises BadSettings if `topic` is no valid name."""
    if not is_topic(topic):
        raise BadSettings(
            f"{topic!r} is not a valid topic name",
            where="tierfold config",
            remedy="A topic name has only letters, digits, dots, dashes and underscores.",
        )
    return settings.effective(topic)
