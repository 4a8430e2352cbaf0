"""`tierfold rebuild`: names again what a lost metadata topic had, before brokers forget it.

    rows, listings, metadata topic, offsets -> what is lost -> a record at the log start -> decision
    -> claim -> look again, STARTED of all, FINISHED of what is live -> read back -> the row notes
    the topic as it is -> release -> report

Nothing is sent unless one of the two safe orders applies (docs/kafka.md). Without Spark.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from tierfold.compaction.brokers.topic_retention import is_copying
from tierfold.compaction.deletion.served_grace import least_grace_ms
from tierfold.compaction.discovery.broker_refusals import cluster_refusal
from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.errors import BadSettings, TierfoldError
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.planning.rebuild_refusals import copying_again, unknown_note
from tierfold.compaction.publishing.look import PublishingLimits
from tierfold.compaction.publishing.lost_metadata import NameAgain, RebuildStep
from tierfold.jobs.context.publishing_settings import Publishing
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stage_seconds import TimedStage
from tierfold.jobs.context.stopping import deferred
from tierfold.jobs.context.tier_identity import run_binding, tier_identity
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.claim_report import claim_report
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.known_partition import KnownPartition, left_alone, refusal_of
from tierfold.jobs.pipeline.partition_report import (
    LEFT,
    NOTHING_TO_DO,
    PLANNED,
    PUBLISHED,
    PartitionReport,
    Reporting,
)
from tierfold.jobs.pipeline.publication import with_publication
from tierfold.jobs.pipeline.run_records import keep_record
from tierfold.jobs.pipeline.survey import READERS, known_partitions
from tierfold.jobs.publishing.joint_rebuild import named_again
from tierfold.jobs.publishing.looks import limits_of
from tierfold.jobs.publishing.publishing_run import publishing_run_of, some_at_a_time
from tierfold.jobs.publishing.rebuild_looks import (
    RebuildDecision,
    RebuildLook,
    decided,
    rebuild_look,
    with_rebuilt_identity,
)
from tierfold.jobs.settings.cluster_settings import rules_of, settings_beside
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs.row_change import refused
from tierfold.storage.clock import now_ms

_ALL_NAMED: Final = "the metadata topic names all that consumers read from the tier"
_TAKEN_OUT: Final = "publish = false is set for the topic, so nothing of it is sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt(Reporting):
    """What a metadata topic lost of one partition, and what was done or is to be done."""

    report: PartitionReport
    seen: RebuildLook | None = None
    """The look that was decided from; None: the partition could not be looked at."""
    decision: RebuildDecision | None = None
    """None: there was no look."""
    metadata_start: int = 0
    """The first offset of the metadata partition with its events."""
    commands: tuple[str, ...] = ()
    """What a person is to run next, in this order."""

    @property
    def is_created_again(self) -> bool:
        """Whether the metadata topic is another one: it lost events, and begins at 0."""
        return isinstance(self.step, NameAgain) and self.metadata_start == 0

    @property
    def step(self) -> RebuildStep | None:
        """What was decided; None: there was no look."""
        return None if self.decision is None else self.decision.step


def rebuild(
    context: RunContext,
    settings: Settings,
    scope: Scope,
    repeated: Sequence[str] = (),
    *,
    is_dry_run: bool,
) -> list[Rebuilt]:
    """Say of each partition in scope what the metadata topic lost, and name it again if it may be.

    `repeated`: options of this run that the command which it prints has, too. A dry run, or one
    that does not publish, changes nothing. Raises BadSettings, also if no brokers are named, and as
    `known_partitions`; an error in one partition is in its report.
    """
    if context.cluster is None:
        raise BadSettings(
            "no brokers are named, and only they know what their metadata topic lost",
            where="--bootstrap-server",
            remedy="Name them with --bootstrap-server HOST:PORT or as bootstrap.servers under"
            " [cluster].",
        )
    started_at_ms = now_ms()
    with context.seconds.timed(TimedStage.SURVEY), context.progress.survey():
        known = known_partitions(context, scope)
        of_cluster = settings_beside(settings, context.cluster_view)
        rules, _ = rules_of(of_cluster, [one.key.topic for one in known])
        words = (*_words(context, scope), *repeated)
        found = _inspected(context, settings, known, rules, words)
    due = [one for one in found if one.outcome == PLANNED and one.seen is not None]
    if is_dry_run or not due or context.publishing_state is not Publishing.ON:
        return found
    with deferred():
        done = {one.key: one for one in _named(context, settings, due, rules)}
        found = [done.get(one.key, one) for one in found]
        keep_record(context, [(0, one.report) for one in found], started_at_ms, "rebuild")
    return found


def _inspected(
    context: RunContext,
    settings: Settings,
    known: Sequence[KnownPartition],
    rules: Mapping[str, Rules],
    words: Sequence[str],
) -> list[Rebuilt]:
    """Look at each partition, and decide; `words`: of the command that publishes."""
    look, publishing = context.cluster_view, context.publishing
    if look is None or publishing is None:
        raise ValueError("the run has looked at its cluster")
    identity = tier_identity(context, run_binding(context), deletes=True)
    grace_ms = least_grace_ms(publishing.message_timeout_ms)
    declared = settings.cluster.kafka_version
    of_cluster = cluster_refusal(look.setup, declared=declared, grace_ms=grace_ms)
    limits = limits_of(context, grace_ms)

    def inspected(one: KnownPartition) -> Rebuilt:
        if one.is_left_alone:
            return Rebuilt(report=_nothing(one.key, left_alone(one)))
        found = _looked_at(context, with_rebuilt_identity(context, one, identity), limits, words)
        if found.outcome == PLANNED and of_cluster is not None:
            return replace(found, report=refused(one.key, of_cluster), commands=())
        if found.outcome == PLANNED and not rules[one.key.topic].publish:
            return replace(found, report=replace(found.report, outcome=LEFT, reason=_TAKEN_OUT))
        return found

    with ThreadPoolExecutor(READERS) as pool:
        return list(context.progress.inspected(pool.map(inspected, known)))


def _looked_at(
    context: RunContext, known: KnownPartition, limits: PublishingLimits, words: Sequence[str]
) -> Rebuilt:
    key = known.key
    seen = rebuild_look(context, known, limits)
    if isinstance(seen, Refusal):
        return Rebuilt(report=refused(key, seen))
    try:
        decision = decided(context, seen.look, seen.configs)
    except TierfoldError as error:
        return Rebuilt(report=refused(key, refusal_of(error, str(key))), seen=seen)
    refusal = decision.refusal(context, key.topic, seen.configs)
    if refusal is not None:
        report = refused(key, refusal.at(context.place(key)))
    elif isinstance(decision.step, NameAgain):
        report = _planned(seen, events=decision.step.events_left)
    elif seen.is_unnoted:
        report = _planned(seen, events=0)
    else:
        report = _nothing(key, _ALL_NAMED + _restart_due(known))
    commands = _commands(context, seen, words) if report.outcome == PLANNED else ()
    epoch = 0 if known.state is None else known.state.epoch
    notes = (unknown_note(seen.unknown, key),) if seen.unknown else ()
    report = replace(report, epoch=epoch, notes=notes)
    return Rebuilt(
        report=report,
        seen=seen,
        decision=decision,
        metadata_start=0 if known.brokers is None else known.brokers.metadata_start,
        commands=commands,
    )


def _restart_due(known: KnownPartition) -> str:
    """The clause on brokers that may still read the old topic; empty: there is none."""
    row, brokers = known.state, known.brokers
    if row is None or row.rebuilt_at_ms < 0 or brokers is None or brokers.metadata_start:
        return ""
    return (
        f". It was created again before {timestamp_text(row.rebuilt_at_ms)}: brokers that have not"
        " restarted since are to restart, one after the other, before `compact`"
    )


def _nothing(key: PartitionKey, why: str) -> PartitionReport:
    return PartitionReport(key=key, outcome=NOTHING_TO_DO, reason=why)


def _planned(seen: RebuildLook, *, events: int) -> PartitionReport:
    row = seen.look.row
    return PartitionReport(
        key=row.key, outcome=PLANNED, next_offset=row.next_offset, events_planned=events
    )


def _words(context: RunContext, scope: Scope) -> tuple[str, ...]:
    """The arguments of this run, to repeat them in a command."""
    chosen = (("--topic", scope.topics), ("--partition", scope.partitions))
    patterns = [
        word for option, some in chosen if some != ("*",) for one in some for word in (option, one)
    ]
    return (context.tier_uri, *context.catalog_words, *context.layout_words, *patterns)


def _commands(context: RunContext, seen: RebuildLook, words: Sequence[str]) -> tuple[str, ...]:
    """What a person runs next: the verb itself, and what lets copying go on."""
    look = context.cluster_view
    server = "" if look is None else look.setup.server
    publish = shlex.join(
        ("tierfold", "rebuild", *words, "--bootstrap-server", server, "--publish")
    )
    if is_copying(seen.configs):
        return (publish,)
    return publish, copying_again(seen.configs, seen.look.row.key.topic, server)


def _named(
    context: RunContext,
    settings: Settings,
    due: Sequence[Rebuilt],
    rules: Mapping[str, Rules],
) -> list[Rebuilt]:
    """Claim these partitions, and name them again."""
    run = publishing_run_of(context, settings)
    if (lacking := _lacks_write(context)) is not None:
        return [replace(one, report=refused(one.key, lacking)) for one in due]
    done: list[Rebuilt] = []
    with HeldPartitions(context=context, verb="rebuild") as held:
        for some in some_at_a_time(due):
            rows = [one.seen.to_claim for one in some if one.seen is not None]
            not_claimed = held.claim(rows, [*held.by_key])
            keys = [one.key for one in some if one.key not in not_claimed]
            ended = named_again(run, held, {key: rules[key.topic] for key in keys})
            for one in some:
                if one.key in not_claimed:
                    report = claim_report(one.report, not_claimed[one.key])
                else:
                    epoch = held.by_key[one.key].row.epoch
                    begun = replace(one.report, outcome=NOTHING_TO_DO, epoch=epoch)
                    report = with_publication(begun, ended[one.key])
                # The first one is done.
                commands = one.commands[1:] if report.outcome == PUBLISHED else one.commands
                done.append(replace(one, report=report, commands=commands))
    return done


def _lacks_write(context: RunContext) -> Refusal | None:
    """Return the refusal if brokers would take nothing from this user."""
    look = context.cluster_view
    denied = None if look is None else look.setup.lacks_write
    return None if denied is None else refusal_of(denied, denied.where)
