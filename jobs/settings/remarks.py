"""Remarks on the settings of a run: probable mistakes that stop nothing.

Examples: a mistyped topic, a setting without effect here, or two settings that are allowed but work
badly together. Remarks are logged, and are part of the result.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tierfold.compaction.model.rules import outlasting
from tierfold.jobs.context.log_dirs import is_log_dir
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope, nearest
from tierfold.jobs.settings.beside_cluster import overridden
from tierfold.jobs.settings.resolution import Settings

_log: Final = logging.getLogger(__name__)

IN_RESULT: Final = {"is_in_result": True}
"""Marks a log record that the result repeats."""

TOPICS_MAX: Final = 5
"""A sentence names at most this many topics, and counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarks:
    """Sentences about the settings."""

    warnings: tuple[str, ...] = ()
    """Probable mistakes."""
    notes: tuple[str, ...] = ()
    """Settings that have no effect here, one sentence per place."""

    def log(self) -> None:
        """Log one line for each remark."""
        for warning in self.warnings:
            _log.warning("%s", warning, extra=IN_RESULT)
        for note in self.notes:
            _log.info("note: %s", note, extra=IN_RESULT)


def remarks_on_tier(
    settings: Settings, context: RunContext, advised: Scope | None = None
) -> Remarks:
    """Return the remarks of a verb that reads a tier, with advice for the topics in `advised`.

    Raises BadSettings if there is no tier, or if `advised` names a topic that does not exist.
    """
    has_exact = any(table.is_exact for table in settings.tables)
    keys = context.tier.partitions() if has_exact or advised is not None else []
    topics = {key.topic for key in keys}
    unknown = [
        f"{table.where}: the tier has no topic of that name. {nearest(table.pattern, topics)}"
        for table in settings.tables
        if table.is_exact and table.pattern not in topics
    ]
    in_scope = [] if advised is None else [key.topic for key in advised.chosen(keys)]
    return Remarks(warnings=(*unknown, *advice(settings, in_scope)), notes=settings.notes)


def on_new_catalog(context: RunContext) -> tuple[str, ...]:
    """Say that `--catalog` names a place where a run would make a catalog; empty: it would not.

    Raises UnreadableObject.
    """
    if not context.catalog_words or context.catalog.exists():
        return ()
    return (
        f"--catalog: there is no catalog in {context.catalog_uri} yet. `compact` makes a new one"
        " there, which knows nothing of what runs with another catalog did to this tier.",
    )


def on_unknown_classes(context: RunContext) -> tuple[str, ...]:
    """Say that the store would not name the classes of what a rewrite replaces; empty: it did.

    If the settings name a class, new objects get that one in any case.
    """
    if not context.classes.refusal or context.tier_options.storage_class:
        return ()
    return (
        f"The storage class of what a rewrite replaces is unknown: {context.classes.refusal}. New"
        " objects get the store's default class, and no fee for early deletion is counted. If the"
        ' sources have another class, name it as "storage.class" in the table [store] of the'
        " settings file.",
    )


def on_missing_log_dirs(context: RunContext) -> tuple[str, ...]:
    """Say which log directories of `--log-dir` are not here, if none was read elsewhere either."""
    missing = [one for one in context.log_dirs if not is_log_dir(one)]
    if not missing or context.near_reads.sum.reads:
        return ()
    return (
        f"--log-dir: {', '.join(missing)}: no broker's log directory, or not readable, on this"
        " machine, and no other one has read a segment there.",
    )


def remarks_on_topic(settings: Settings, topic: str) -> Remarks:
    """Return the remarks of `config`, which reads no tier; raises as `Settings.rules_for`."""
    return Remarks(
        warnings=advice(settings, [topic]),
        notes=(*settings.notes, *notes_on_cluster(settings, [topic])),
    )


def notes_on_cluster(settings: Settings, topics: Iterable[str]) -> tuple[str, ...]:
    """Say where the user's values differ from the cluster's; raises as `Settings.rules_for`."""
    found = overridden(settings, topics)
    return tuple(f"{_named(topics)}: {sentence}" for sentence, topics in found.items())


def advice(settings: Settings, topics: Iterable[str]) -> tuple[str, ...]:
    """Warnings from KIP-280, each with all topics that it applies to; raises as `rules_for`."""
    found: dict[str, list[str]] = defaultdict(list)
    for topic, rules in settings.rules_by_topic(topics).items():
        fields = outlasting(rules) if rules.is_compacted else ()
        if fields:
            clauses = {one.setting.field: one.clause for one in settings.effective(topic)}
            found[
                f"{' and '.join(clauses[field] for field in fields)} should be below"
                f" {clauses['delete_retention_ms']}: a late record may be compacted only after the"
                " tombstone of its key is gone, and bring the key back (KIP-280). Raise"
                " delete.retention.ms, or lower what should be below it."
            ].append(topic)
    return tuple(f"{_named(topics)}: {sentence}" for sentence, topics in found.items())


def policy_warnings(settings: Settings, topics: Iterable[str]) -> tuple[str, ...]:
    """A warning if no topic of a run has a `cleanup.policy`; raises as `Settings.rules_for`."""
    rules = settings.rules_by_topic(topics)
    if not rules or any(one.cleanup_policy for one in rules.values()):
        return ()
    return (
        "No topic here has a cleanup.policy, so nothing is compacted. Give it in a settings file,"
        ' under [topics."NAME"] (--config), or for this run with --set cleanup.policy=compact.',
    )


def _named(topics: list[str]) -> str:
    more = len(topics) - TOPICS_MAX
    names = ", ".join(topics[:TOPICS_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"topic {names}" if len(topics) == 1 else f"topics {names}"
