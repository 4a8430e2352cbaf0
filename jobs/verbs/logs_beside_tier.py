"""The partitions of a log directory, each beside what the tier has of it; nothing is written."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from tierfold.compaction.discovery.view import PartitionView, Refusal
from tierfold.compaction.model.errors import BadSettings, TierfoldError
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.uploading.local_log import LocalLog
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.known_partition import KnownPartition, refusal_of
from tierfold.jobs.pipeline.survey import READERS, inspected, known_among
from tierfold.jobs.settings.cluster_settings import rules_of
from tierfold.jobs.settings.resolution import Settings
from tierfold.storage.log_dirs.log_directory import LogDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBesideTier:
    """A partition of a log directory, and what the tier has of it."""

    known: KnownPartition
    rules: Rules
    log: LocalLog
    view: PartitionView

    @property
    def key(self) -> PartitionKey:
        """The partition."""
        return self.known.key


class RefusedLog(NamedTuple):
    """A partition that cannot be read, or whose settings conflict."""

    key: PartitionKey
    refusal: Refusal


def logs_beside_tier(
    context: RunContext,
    settings: Settings,
    directory: LogDirectory,
    scope: Scope,
    *,
    is_new: bool = False,
) -> list[LogBesideTier | RefusedLog]:
    """Read each partition of the directory in scope; in order of topic and number.

    `is_new`: there is no tier yet. Raises BadSettings if there is no such directory or a topic's
    settings conflict, and UnreadableObject or CorruptLog if the directory or the catalog cannot be
    read.
    """
    with context.progress.survey():
        keys = scope.chosen(directory.partitions())
        checkpoints = directory.checkpoints()
        everywhere = {*keys, *(() if is_new else context.tier.partitions())}
        known = known_among(context, sorted(everywhere), keys, context.catalog.look(keys))
        rules, wrong = _local_rules_of(settings, [key.topic for key in keys])

        def beside(one: KnownPartition) -> LogBesideTier | RefusedLog:
            if (conflict := wrong.get(one.key.topic)) is not None:
                return RefusedLog(one.key, refusal_of(conflict, one.key.topic))
            try:
                log = directory.log(one.key, checkpoints)
            except TierfoldError as error:
                return RefusedLog(one.key, refusal_of(error, str(one.key)))
            view = inspected(context, one)
            if isinstance(view, Refusal):
                return RefusedLog(one.key, view)
            return LogBesideTier(known=one, rules=rules[one.key.topic], log=log, view=view)

        with ThreadPoolExecutor(READERS) as pool:
            return list(context.progress.inspected(pool.map(beside, known)))


def _local_rules_of(
    settings: Settings, topics: Iterable[str]
) -> tuple[dict[str, Rules], dict[str, BadSettings]]:
    """As `rules_of`, with the conflicts of what only verbs on a log directory follow."""
    rules, wrong = rules_of(settings, topics)
    for topic in rules:
        try:
            settings.check_local(topic)
        except BadSettings as error:
            wrong.setdefault(topic, error)
    return rules, wrong
