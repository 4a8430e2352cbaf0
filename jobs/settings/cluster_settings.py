"""Settings of topics with what their cluster says of them; nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tierfold.compaction.brokers.cluster_facts import ClusterSetup, TopicSetup
from tierfold.compaction.brokers.cluster_view import ClusterView
from tierfold.compaction.brokers.missing_rights import lacking
from tierfold.compaction.model.errors import BadSettings, MissingRight, UnreadableObject
from tierfold.compaction.model.rules import Rules
from tierfold.jobs.settings.resolution import Settings
from tierfold.storage.brokers.client_settings import ClientSettings


def settings_beside(settings: Settings, look: ClusterView | None) -> Settings:
    """Return the settings with what a run's look at its cluster showed, if there was one.

    Raises as `settings_on`.
    """
    return settings if look is None else settings_on(settings, look.setup, look.topics)


def rules_of(
    settings: Settings, topics: Iterable[str]
) -> tuple[dict[str, Rules], dict[str, BadSettings]]:
    """Return the rules of topics, and why settings of one conflict, each by topic.

    A topic whose settings conflict with what the cluster says of it has the rules without that, and
    an error of its own. Raises BadSettings for a conflict of what the user writes.
    """
    rules: dict[str, Rules] = {}
    wrong: dict[str, BadSettings] = {}
    alone = replace(settings, of_topics={})
    for topic in dict.fromkeys(topics):
        try:
            rules[topic] = settings.rules_for(topic)
        except BadSettings as error:
            rules[topic] = alone.rules_for(topic)
            wrong[topic] = error
    return rules, wrong


def settings_on(
    settings: Settings, setup: ClusterSetup, topics: Mapping[str, TopicSetup]
) -> Settings:
    """Return the settings with what a cluster says of topics that it describes, by name.

    Raises BadSettings for a value that tierfold cannot follow.
    """
    known = {
        name: topic.configs for name, topic in topics.items() if isinstance(topic.configs, Mapping)
    }
    return settings.of_cluster(known, setup.brokers)


def settings_of_topic(settings: Settings, cluster: ClientSettings, topic: str) -> Settings:
    """Ask a cluster for one topic, and return the settings with what it says.

    Raises BadSettings if the cluster has no such topic or no metadata topic, UnreadableObject if no
    broker answers or a right is missing.
    """
    # Imported here: the client is loaded only where brokers are named.
    from tierfold.storage.brokers.cluster_setup import cluster_setup, topic_setups
    from tierfold.storage.brokers.connection import connected

    with connected(cluster) as connection:
        (found,) = topic_setups(connection, [topic]).values()
        try:
            setup = cluster_setup(connection)
        except MissingRight as error:
            raise lacking((*error.rights, *found.missing_rights), connection.server) from None
    if found.missing_rights:
        raise lacking(found.missing_rights, setup.server)
    for answer in (found.facts, found.configs):
        if isinstance(answer, UnreadableObject):
            raise answer
    if found.configs is None:
        raise BadSettings(
            f"the cluster has no topic {topic}",
            where=f"broker {setup.server}",
            remedy="Check the topic's name, or name the cluster that has it.",
        )
    return settings_on(settings, setup, {topic: found})
