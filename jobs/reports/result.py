"""The result of a verb: one value with a side for programs and a side for people."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

from rich.console import Console
from rich.filesize import decimal

from tierfold.compaction.model.errors import BadSettings, TierfoldError
from tierfold.compaction.model.kafka_versions import KAFKA_VERSIONS
from tierfold.compaction.model.refusal_parts import RefusalPart, part_of
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.compaction.model.wording import counted, duration
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    FENCED,
    FORGOTTEN,
    LEFT,
    LOST_RACE,
    NOTHING_TO_DO,
    OK,
    PLANNED,
    PUBLISHED,
    REFUSED,
    RESTORED,
    SOUND,
    UNKNOWN,
    UPLOADED,
    VACUUMED,
)
from tierfold.jobs.reports.request_report import Spent, near_sentence
from tierfold.jobs.reports.screen import Screen
from tierfold.jobs.reports.views import ALL, Columns, View, csv_of
from tierfold.jobs.settings.owner_labels import NO_LABELS, OwnerLabels
from tierfold.storage.tiers.near_reads import NearReads

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION: Final = 2
"""Of the JSON document; a field that changes its meaning, or goes, raises it."""

BAD_SETTINGS: Final = "bad_settings"
"""A setting or an argument is wrong; nothing was read or written."""
UNREADABLE: Final = "unreadable"
"""The tier or the catalog could not be read."""

NEEDS_A_PERSON: Final = (UNREADABLE, FAILED, UNKNOWN, REFUSED)
NEEDS_ANOTHER_RUN: Final = (FENCED, LOST_RACE)

BY_URGENCY: Final = (
    BAD_SETTINGS,
    *NEEDS_A_PERSON,
    *NEEDS_ANOTHER_RUN,
    LEFT,
    COMPACTED,
    PUBLISHED,
    VACUUMED,
    UPLOADED,
    RESTORED,
    FORGOTTEN,
    PLANNED,
    NOTHING_TO_DO,
    SOUND,
    OK,
)
"""The outcome of a verb is the first of these that a partition has."""

OF_PARTITIONS: Final = tuple(one for one in BY_URGENCY if one not in {BAD_SETTINGS, UNREADABLE})
"""The outcomes that a partition may have."""

_MOVED: Final = frozenset({COMPACTED, PLANNED, RESTORED, FORGOTTEN, UPLOADED, VACUUMED})
"""The outcomes with which logs were replaced, or will be."""

HTML_COLUMNS: Final = 140
"""Width of a result in a notebook."""


_ON_NO_SCREEN: Final[dict[str, Any]] = {"highlight": False, "force_jupyter": False}
"""In a notebook's kernel, rich would display what is printed, instead of writing it."""


class Reported(Protocol):
    """What every partition of a result has."""

    @property
    def key(self) -> PartitionKey:
        """The partition."""

    @property
    def outcome(self) -> str:
        """One of `BY_URGENCY`."""

    @property
    def reason(self) -> str:
        """Why, as a sentence; empty if the outcome needs no reason."""


_Partition = TypeVar("_Partition", bound=Reported)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result(ABC, Generic[_Partition]):
    """What a verb did or found; frozen, and it can be pickled.

    `print(result)` shows the tables of the command line, a notebook shows them in colour.
    """

    tier: str
    """The tier's folder or URI, as it was given; empty: the verb had none."""
    run_id: str = ""
    """The run's name in the catalog; empty: the verb changes nothing."""
    partitions: tuple[_Partition, ...]
    """In scope, by topic and number."""
    warnings: tuple[str, ...] = ()
    """Probable mistakes; they stop nothing."""
    notes: tuple[str, ...] = ()
    """Settings that have no effect here."""
    spent: Spent | None = None
    """The requests to the object store and their price; None: the tier is a folder."""
    near: NearReads | None = None
    """What was read from log directories in place of the tier; None: none were named."""
    started_at_ms: int = 0
    """When the verb began, by the machine's clock, epoch milliseconds."""
    finished_at_ms: int = 0
    """When it ended."""
    duration_ms: int = 0
    """How long it took, also if the clock was set meanwhile."""
    stored_bytes_before: int | None = None
    """Bytes of all objects of the partitions, replaced segments and orphans included, as the verb
    listed them; None: it did not, or could not list all."""
    labels: OwnerLabels = NO_LABELS
    """The labels of topics by owner."""

    verb: ClassVar[str]

    @property
    def outcome(self) -> str:
        """The most urgent outcome of a partition; `ok` without partitions."""
        outcomes = {partition.outcome for partition in self.partitions}
        return next((one for one in BY_URGENCY if one in outcomes), OK)

    @property
    def reason(self) -> str:
        """Why the most urgent partitions have their outcome; empty if that needs no reason."""
        outcome = self.outcome
        reasons = [
            f"{partition.key}: {partition.reason}"
            for partition in self.partitions
            if partition.outcome == outcome and partition.reason
        ]
        more = len(reasons) - 1
        return f"{reasons[0]}{f' (and {more} more)' if more > 0 else ''}" if reasons else ""

    @property
    def bytes_in(self) -> int:
        """Bytes of the logs that were replaced, or will be."""
        return self._summed("bytes_in", _MOVED)

    @property
    def bytes_out(self) -> int:
        """Bytes of the logs that replace those of `bytes_in`; of a plan, an estimate."""
        return self._summed("bytes_out", _MOVED)

    @property
    def stored_bytes_after(self) -> int | None:
        """The same after the verb, by what it wrote and deleted; None: unknown, or a plan."""
        before = self.stored_bytes_before
        if before is None or any(one.outcome == PLANNED for one in self.partitions):
            return None
        return before + sum(map(self.stored_bytes_added, self.partitions))

    def stored_bytes_added(self, _partition: _Partition) -> int:
        """Return the bytes of objects written minus those deleted."""
        return 0

    @property
    def _compacted_bytes(self) -> int:
        """Bytes of the logs that were compacted, by which the cost of requests is divided."""
        return self._summed("bytes_in", frozenset({COMPACTED}))

    def _summed(self, name: str, outcomes: frozenset[str]) -> int:
        moved = (one for one in self.partitions if one.outcome in outcomes)
        # In some results, the report is only a part of what is said of the partition.
        return sum(getattr(getattr(one, "report", one), name, 0) for one in moved)

    def to_dict(self, *, segments: bool = False) -> dict[str, Any]:
        """Return the document that `-o json` prints; `segments`: with its lists of segments."""
        return self.document(View(has_segments=segments))

    def document(self, view: View) -> dict[str, Any]:
        """Return the document with the partitions that the view shows."""
        about = {
            **document_head(self.verb),
            "tier": self.tier or None,
            "run": self.run_id or None,
            "outcome": self.outcome,
            "reason": self.reason,
            "warnings": [*self.warnings],
            "notes": [*self.notes],
            **fields(self, "started_at_ms", "finished_at_ms", "duration_ms"),
            "totals": self._totals(),
            **({"only": [*view.only]} if view.only else {}),
        }
        shown = self.shown(view)
        entry = self.entry if view.has_segments else self.without_segments
        entries = [_with_lists(entry(one)) | self._labelled(one.key.topic) for one in shown]
        document = about | self.details() | {"partitions": entries}
        if self.spent is not None:
            document["requests"] = self.spent.entry(self._compacted_bytes)
        if self.near is not None:
            document["log_dirs"] = asdict(self.near)
        return document

    def _labelled(self, topic: str) -> dict[str, Any]:
        labels = self.labels.of(topic)
        return {"labels": labels} if labels else {}

    def _totals(self) -> dict[str, Any]:
        outcomes = Counter(partition.outcome for partition in self.partitions)
        sizes = ("bytes_in", "bytes_out", "stored_bytes_before", "stored_bytes_after")
        counts = {outcome: outcomes[outcome] for outcome in OF_PARTITIONS}
        return {"partitions": counts, **fields(self, *sizes)}

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per partition: the document's entries, with `counts.kept` and the like."""
        import pandas as pd

        return pd.json_normalize(self.to_dict()["partitions"])

    def csv(self, view: View) -> str:
        """Return the table of partitions as CSV."""
        return csv_of(self.document(view)["partitions"], self.columns())

    def show(self, console: Console, view: View = ALL) -> None:
        """Print the tables; below them the time, the stored bytes and the requests."""
        self.print_tables(console, view)
        if left_out := view.line(len(self.shown(view)), len(self.partitions)):
            console.print(left_out)
        if self.duration_ms:
            console.print(f"Took {duration(self.duration_ms)}.{self._stored}", style="dim")
        if self.near is not None and self.near.reads:
            console.print(near_sentence(self.near, in_bucket=self.spent is not None), style="dim")
        if self.spent is not None:
            console.print(self.spent.sentence(self._compacted_bytes), style="dim")

    @property
    def _stored(self) -> str:
        """What the partitions take, as a sentence; empty: unknown."""
        before, after = self.stored_bytes_before, self.stored_bytes_after
        if before is None:
            return ""
        changed = "" if after in {None, before} else f" → {decimal(after)}"
        partitions = counted(len(self.partitions), "partition")
        return f" All objects of {partitions}: {decimal(before)}{changed}."

    def shown(self, view: View) -> list[_Partition]:
        """Return the partitions that the view shows, by topic and number unless it orders them."""
        columns = self.columns()
        return view.selected(self.partitions, self.without_segments, columns, OF_PARTITIONS)

    @abstractmethod
    def entry(self, partition: _Partition) -> dict[str, Any]:
        """Return the partition's entry in the document."""

    def without_segments(self, partition: _Partition) -> dict[str, Any]:
        """Return its entry without the lists of segments that a document has only on demand."""
        return self.entry(partition)

    def columns(self) -> Columns:
        """Return the columns of the verb's table of partitions; empty: it prints none."""
        return {}

    def details(self) -> dict[str, Any]:
        """Return what else the verb says of all partitions together."""
        return {}

    @abstractmethod
    def print_tables(self, console: Console, view: View = ALL) -> None:
        """Print the tables, for people."""

    def __repr__(self) -> str:
        count = len(self.partitions)
        return f"<{type(self).__name__} of {self.tier}: {self.outcome}, partitions: {count}>"

    def __str__(self) -> str:
        text = io.StringIO()
        self.show(Screen(text, width=HTML_COLUMNS, **_ON_NO_SCREEN))
        return text.getvalue()

    def _repr_html_(self) -> str:
        unseen = io.StringIO()
        console = Screen(unseen, record=True, width=HTML_COLUMNS, **_ON_NO_SCREEN)
        self.show(console)
        block = '<pre style="line-height:1.2;overflow-x:auto">{code}</pre>'
        return console.export_html(inline_styles=True, code_format=block)


def document_head(verb: str) -> dict[str, Any]:
    """Return the first fields of every document."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kafka_versions": [*KAFKA_VERSIONS],
        "verb": verb,
    }


def document_of_error(verb: str, error: TierfoldError) -> dict[str, Any]:
    """Return the document of a verb that an error stopped before it reached any partition."""
    outcome = BAD_SETTINGS if isinstance(error, BadSettings) else UNREADABLE
    return _document_of_error(verb, outcome, str(error), part_of(error))


def document_of_usage_error(verb: str, message: str) -> dict[str, Any]:
    """Return the document of a verb whose command line is wrong."""
    part = RefusalPart(code=BAD_SETTINGS, detail=message, remedy="")
    return _document_of_error(verb, BAD_SETTINGS, message, part)


def _document_of_error(verb: str, outcome: str, reason: str, part: RefusalPart) -> dict[str, Any]:
    return {
        **document_head(verb),
        "outcome": outcome,
        "reason": reason,
        "warnings": [],
        "notes": [],
        "refusals": [asdict(part)],
        "partitions": [],
    }


def _with_lists(value: Any) -> Any:  # noqa: ANN401 - of any type that JSON has
    """Return the value as JSON would give it back: without tuples."""
    match value:
        case dict():
            return {name: _with_lists(one) for name, one in value.items()}
        case list() | tuple():
            return [_with_lists(one) for one in value]
        case _:
            return value


def named(key: PartitionKey) -> dict[str, Any]:
    """Return the fields that name the partition of an entry."""
    return fields(key, "topic", "partition", "topic_id")


def concluded(
    partition: Reported, notes: Iterable[str] = (), refusals: Iterable[RefusalPart] = ()
) -> dict[str, Any]:
    """Return the fields that every entry begins with."""
    return {
        **named(partition.key),
        **fields(partition, "outcome", "reason"),
        "notes": [*notes],
        "refusals": list(map(asdict, refusals)),
    }


def named_segment(segment: Segment, *more: str) -> dict[str, Any]:
    """Return the segment's id, offsets and bytes, and the fields `more`."""
    found = fields(segment, "start_offset", "end_offset", "size_bytes", *more)
    return {"id": segment.segment_id, **found}


def fields(value: object, *names: str) -> dict[str, Any]:
    """Return these fields of `value`."""
    return {name: getattr(value, name) for name in names}
