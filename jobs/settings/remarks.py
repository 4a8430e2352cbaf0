"""What a person should know of the settings of a run, beside what the run reports.

A remark stops nothing: a mistyped topic, a setting without effect here, two settings that may both
hold and had better not. People read them on stderr, machines in the document.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from rich.console import Console
from rich.text import Text

from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.rules import outlasting
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.scope import Scope, nearest
from tierfold.jobs.settings.resolution import Settings

TOPICS_MAX: Final = 5
"""Topics that a sentence names; what is true of more of them says how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarks:
    """Sentences about the settings."""

    warnings: tuple[str, ...] = ()
    """What is probably not meant."""
    notes: tuple[str, ...] = ()
    """Settings that have no effect here, a sentence for each place."""

    def as_json(self) -> dict[str, list[str]]:
        """Their part of the `--json` document; both lists are always there."""
        return {"warnings": list(self.warnings), "notes": list(self.notes)}

    def print_to(self, console: Console) -> None:
        """One line each."""
        for kind, style, sentences in (
            ("warning", "yellow", self.warnings),
            ("note", "dim", self.notes),
        ):
            for sentence in sentences:
                line = Text(printable(f"{kind}: {sentence}"), style=style)
                console.print(line, soft_wrap=True)


def remarks_on_tier(settings: Settings, context: RunContext) -> Remarks:
    """What every verb about a tier says; raises BadSettings where the tier is none."""
    has_exact = any(table.is_exact for table in settings.tables)
    return _on_tier(settings, context.tier.partitions() if has_exact else ())


def _on_tier(settings: Settings, keys: Iterable[PartitionKey]) -> Remarks:
    topics = {key.topic for key in keys}
    return Remarks(
        warnings=tuple(
            f"{table.where}: the tier has no topic of that name. {nearest(table.pattern, topics)}"
            for table in settings.tables
            if table.is_exact and table.pattern not in topics
        ),
        notes=settings.notes,
    )


def remarks_on_plan(settings: Settings, context: RunContext, scope: Scope) -> Remarks:
    """What `plan` says: as `remarks_on_tier`, and advice for the topics in scope; raises so too."""
    keys = context.tier.partitions()
    found = _on_tier(settings, keys)
    topics = [key.topic for key in scope.chosen(keys)]
    return replace(found, warnings=(*found.warnings, *_advice(settings, topics)))


def remarks_on_topic(settings: Settings, topic: str) -> Remarks:
    """What `config` says, which knows of no tier; raises BadSettings as `Settings.rules_for`."""
    return Remarks(warnings=_advice(settings, [topic]), notes=settings.notes)


def _advice(settings: Settings, topics: Iterable[str]) -> tuple[str, ...]:
    """What KIP-280 advises against, each sentence with all topics that it is true of."""
    found: dict[str, list[str]] = defaultdict(list)
    for topic, rules in settings.rules_by_topic(topics).items():
        fields = outlasting(rules) if rules.is_compacted else ()
        if fields:
            told = {each.setting.field: each.told for each in settings.effective(topic)}
            found[
                f"{' and '.join(told[field] for field in fields)} should be below"
                f" {told['delete_retention_ms']}: a late record may be compacted only after the"
                " tombstone of its key is gone, and bring the key back (KIP-280). Raise"
                " delete.retention.ms, or lower what should be below it."
            ].append(topic)
    return tuple(f"{_named(topics)}: {sentence}" for sentence, topics in found.items())


def _named(topics: list[str]) -> str:
    """Topics as the place that a sentence is about."""
    more = len(topics) - TOPICS_MAX
    names = ", ".join(topics[:TOPICS_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"topic {names}" if len(topics) == 1 else f"topics {names}"
