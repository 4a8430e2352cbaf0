"""The function `config`: the settings of one topic."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Unpack

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.api.keywords import ConfigKeywords, takes
from tierfold.jobs.api.opening import settings_of
from tierfold.jobs.reports.config_report import ConfigResult
from tierfold.jobs.settings.beside_cluster import beside_cluster
from tierfold.jobs.settings.cluster_settings import settings_of_topic
from tierfold.jobs.settings.cluster_table import cluster_of
from tierfold.jobs.settings.remarks import remarks_on_topic
from tierfold.jobs.settings.resolution import Settings
from tierfold.storage.kafka.topic_names import is_topic


@takes(ConfigKeywords)
def config(topic: str, **given: Unpack[ConfigKeywords]) -> ConfigResult:
    """Return every setting of a topic and where its value comes from; needs no tier.

    With brokers, also what they have for the topic.

    >>> tierfold.config("orders", config="tierfold.toml").settings
    """
    settings = _resolved(given, topic)
    remarks = remarks_on_topic(settings, topic)
    remarks.log()
    return ConfigResult(
        topic=topic,
        settings=settings.effective(topic),
        brokers=beside_cluster(settings, topic),
        remarks=remarks,
    )


def _resolved(given: Mapping[str, Any], topic: str) -> Settings:
    """Resolve the settings of a topic, with what brokers say if any are named.

    Raises BadSettings, and UnreadableObject if no broker answers or a right is missing.
    """
    settings = settings_of(given)
    if not is_topic(topic):
        raise BadSettings(
            f"{topic!r} is not a valid topic name",
            where="TOPIC",
            remedy="A topic name has only letters, digits, dots, dashes and underscores.",
        )
    cluster = cluster_of(given, settings.cluster, os.environ)
    return settings if cluster is None else settings_of_topic(settings, cluster, topic)
