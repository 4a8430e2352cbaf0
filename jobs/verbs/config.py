"""`tierfold config`: every setting as a topic has it, and who said so; reads no tier."""

from __future__ import annotations

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.settings.resolution import EffectiveSetting, Settings
from tierfold.storage.kafka.topic_names import is_topic


def settings_of_topic(settings: Settings, topic: str) -> list[EffectiveSetting]:
    """Each setting as the topic has it; raises BadSettings where `topic` cannot be a topic."""
    if not is_topic(topic):
        raise BadSettings(
            f"{topic!r} is no topic's name",
            where="tierfold config",
            remedy="Name one topic: letters, digits, dots, dashes and underscores.",
        )
    return settings.effective(topic)
