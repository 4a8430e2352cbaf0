"""`tierfold config`: every setting as a topic has it, and who said so; reads no tier."""

from __future__ import annotations

from compaction.errors import BadSettings
from jobs.settings import Effective, Settings
from storage.topic_names import is_topic


def settings_of_topic(settings: Settings, topic: str) -> list[Effective]:
    """Each setting as the topic has it; raises BadSettings where `topic` cannot be a topic."""
    if not is_topic(topic):
        raise BadSettings(
            f"{topic!r} is no topic's name",
            where="tierfold config",
            remedy="Name one topic: letters, digits, dots, dashes and underscores.",
        )
    return settings.effective(topic)


if __name__ == "__main__":
    from jobs.cli import main

    main(prog_name="config_job.py", first_arguments=("config",))
