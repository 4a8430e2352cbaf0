"""What brokers have of partitions: one look at their metadata topic, and their offsets after it.

    metadata topic → replay of all its partitions → what is missing in the tier, listed again
                   → topics → offsets → leader epochs

The offsets are asked for last, after the replay and every listing: in any other order, what an
upload or an expiry changes in between looks wrong. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from tierfold.compaction.brokers.broker_view import BrokerView
from tierfold.compaction.brokers.cluster_facts import (
    Absence,
    ClusterSetup,
    PartitionOffsets,
    TopicSetup,
    UnknownOffsets,
)
from tierfold.compaction.brokers.cluster_view import BrokerPartition, ClusterView
from tierfold.compaction.brokers.epoch_ends import EpochAnswer
from tierfold.compaction.brokers.lineage import epochs_to_ask
from tierfold.compaction.brokers.metadata_fold import MetadataFold
from tierfold.compaction.brokers.missing_rights import lacking
from tierfold.compaction.brokers.topic_retention import local_time_ms
from tierfold.compaction.model.errors import MissingRight, UnreadableObject
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.beside_tier import BesideTier
from tierfold.jobs.context.metadata_replay import MetadataReplay
from tierfold.jobs.context.run_progress import RunProgress
from tierfold.jobs.context.scope import EVERYTHING, Scope
from tierfold.storage.brokers.cluster_setup import cluster_setup, missing_rights, topic_setups
from tierfold.storage.brokers.connection import Connection
from tierfold.storage.brokers.epoch_ends import epoch_ends
from tierfold.storage.brokers.facts import partition_offsets


def no_settings(_topic: str) -> bool:
    """Return that the settings of no topic are needed."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class LookRequest:
    """What one look is to show."""

    beside: BesideTier | None = None
    """The partitions of a tier; None: all that the cluster has in scope."""
    scope: Scope = EVERYTHING
    needs_settings: Callable[[str], bool] = no_settings
    """The topics of which a missing DescribeConfigs is an error, too, if one is raised."""


def cluster_view(
    connection: Connection,
    progress: RunProgress,
    request: LookRequest,
    replay: MetadataReplay | None = None,
) -> tuple[ClusterView, MetadataReplay]:
    """Look at partitions; return what the look showed, and the replay, to go on with later.

    `replay`: of an earlier look at the same partitions; None: from offset 0. Raises as
    `Scope.chosen`; BadSettings if the cluster has no metadata topic that its brokers read,
    CorruptLog if that lost records, UnreadableObject if no broker answers or a right is missing.
    """
    beside = request.beside
    listed = None if beside is None else beside.listed
    topics_listed = {key.topic for key in listed or {}}
    setup = _setup(connection, topics_listed, request.needs_settings)
    replay = _asked(replay, setup, beside)
    replay.go_on(connection, progress)
    fold = replay.fold
    keys = _keys(request, fold)
    views = {key: fold.view(key) for key in keys}
    if beside is not None:
        beside.list_again(views)
    topics = topic_setups(connection, {key.topic for key in keys})
    offsets = _offsets(connection, keys, topics)
    # Beside no tier there is nothing to compare.
    answers = {} if beside is None else _epoch_answers(connection, views, offsets)
    view = ClusterView(
        cluster_id=connection.cluster_id,
        setup=setup,
        topics=topics,
        records=replay.size.records,
        metadata_size=replay.size,
        partitions={
            key: BrokerPartition(
                view=views[key],
                naming=fold.naming(key),
                offsets=offsets[key],
                epoch_answers=answers.get((key.topic, key.partition), {}),
                asked_by=None if beside is None else beside.asked_by,
                local_retention_ms=_local_retention_ms(topics[key.topic], setup),
                metadata_start=replay.start_of(key),
            )
            for key in keys
        },
    )
    return view, replay


def _keys(request: LookRequest, fold: MetadataFold) -> list[PartitionKey]:
    """The partitions to show; of those that the tier lacks, only what brokers have something of."""
    beside = request.beside
    if beside is None:
        return request.scope.chosen(fold.partitions())
    if beside.others is None:
        return request.scope.chosen(beside.listed)
    others = (key for key in fold.partitions() if key not in beside.listed)
    return beside.others.chosen([*beside.listed, *(one for one in others if fold.has_any(one))])


def _asked(
    replay: MetadataReplay | None, setup: ClusterSetup, beside: BesideTier | None
) -> MetadataReplay:
    """The replay, or a new one, once it was asked about the segments of the tier."""
    if replay is None:
        listed = None if beside is None else beside.listed
        folds_all = beside is not None and beside.others is not None
        replay = MetadataReplay(setup.metadata_topic.partitions, listed, folds_all=folds_all)
    if beside is not None:
        for key, segment_ids in beside.listed.items():
            replay.ask(key, segment_ids, beside.asked_by)
    return replay


def _setup(
    connection: Connection, topics: Collection[str], needs_settings: Callable[[str], bool]
) -> ClusterSetup:
    """How the cluster is set up; if a right is missing, the error names those on topics, too."""
    try:
        return cluster_setup(connection)
    except MissingRight as error:
        also = missing_rights(connection, topics, needs_settings)
        raise lacking((*error.rights, *also), connection.server) from None


def _offsets(
    connection: Connection, keys: Collection[PartitionKey], topics: Mapping[str, TopicSetup]
) -> dict[PartitionKey, PartitionOffsets | UnknownOffsets]:
    """By partition its offsets, or why they are unknown: a name may have another id by now."""
    found: dict[PartitionKey, PartitionOffsets | UnknownOffsets] = {}
    denied = [one.facts for one in topics.values() if isinstance(one.facts, MissingRight)]
    rights = [right for error in denied for right in error.rights]
    for key in keys:
        facts = topics[key.topic].facts
        if facts is None:
            found[key] = UnknownOffsets(Absence.NO_TOPIC, f"The cluster has no topic {key.topic}.")
        elif isinstance(facts, MissingRight):
            # The same for all of them: one command grants it on all topics.
            found[key] = _unanswered(lacking(rights, connection.server))
        elif isinstance(facts, UnreadableObject):
            found[key] = _unanswered(facts)
        elif facts.topic_id != key.topic_id:
            ids = f"{facts.topic_id}, not {key.topic_id}"
            why = f"The cluster's topic {key.topic} has the id {ids}."
            found[key] = UnknownOffsets(Absence.NO_TOPIC, why)
        elif key.partition >= facts.partitions:
            why = f"The cluster's topic {key.topic} has no partition {key.partition}."
            found[key] = UnknownOffsets(Absence.NO_PARTITION, why)
    asked = [key for key in keys if key not in found]
    answers = partition_offsets(connection, ((key.topic, key.partition) for key in asked))
    for key in asked:
        answer = answers[key.topic, key.partition]
        found[key] = (
            answer
            if isinstance(answer, PartitionOffsets)
            else _unanswered(answer)
        )
    return found


def _local_retention_ms(topic: TopicSetup, setup: ClusterSetup) -> int | None:
    """How long brokers keep local copies of the topic; None: for ever, or they do not say it."""
    configs = topic.configs
    return local_time_ms(configs, setup.brokers) if isinstance(configs, Mapping) else None


def _epoch_answers(
    connection: Connection,
    views: Mapping[PartitionKey, BrokerView],
    offsets: Mapping[PartitionKey, PartitionOffsets | UnknownOffsets],
) -> dict[tuple[str, int], dict[int, EpochAnswer]]:
    """By topic and partition, where the leader epochs of its segments end in the brokers' log."""
    questions = {
        (key.topic, key.partition): epochs_to_ask(views[key], known.log_start)
        for key, known in offsets.items()
        if isinstance(known, PartitionOffsets)
    }
    return epoch_ends(connection, {one: epochs for one, epochs in questions.items() if epochs})


def _unanswered(error: UnreadableObject) -> UnknownOffsets:
    is_right = isinstance(error, MissingRight)
    return UnknownOffsets(Absence.NO_RIGHT if is_right else Absence.NO_ANSWER, str(error))
