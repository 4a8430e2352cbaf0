"""The result of `runs`: the last runs, or one of them with each of its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.wording import dollars, duration, spaced
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.partition_report import OK
from tierfold.jobs.reports.result import BY_URGENCY, OF_PARTITIONS, document_head, fields
from tierfold.jobs.reports.tables import STYLES, Column, in_words, offsets, print_rows
from tierfold.jobs.reports.views import ALL, Columns, Entry, View, csv_of
from tierfold.jobs.settings.remarks import Remarks
from tierfold.jobs.verbs.runs import MOVED, RunPartition, RunSummary
from tierfold.storage.catalog.schema import RunRow

if TYPE_CHECKING:
    import pandas as pd

NAMED_MAX: Final = 3
"""How many partitions a line names; it counts the others."""

RUN_COLUMNS: Final[Columns] = {
    "run": ("run",),
    "verb": ("verb",),
    "outcome": ("outcome",),
    "bytes": ("bytes_in", "bytes_out"),
    "saved": ("saved_bytes",),
    "cost": ("cost_usd",),
    "took": ("duration_ms",),
    "why": ("reason",),
}
"""The columns of the table of runs."""

PARTITION_COLUMNS: Final[Columns] = {
    "partition": ("topic", "partition", "topic_id"),
    "outcome": ("outcome",),
    "offsets": ("first_dirty", "next_offset"),
    "bytes": ("bytes_in", "bytes_out"),
    "saved": ("saved_bytes",),
    "read": ("bytes_read",),
    "took": ("task_ms",),
    "why": ("reason",),
}
"""The columns of the table of one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsResult:
    """What the last runs did; of one run, also each partition and chunk."""

    tier: str
    """The tier's folder or URI, as it was given."""
    runs: tuple[RunSummary, ...]
    """The newest first."""
    rows: tuple[RunRow, ...] = ()
    """All rows of the only run, oldest first; none: no run was named."""
    remarks: Remarks

    outcome: ClassVar[str] = OK

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `-o json` prints."""
        return self.document(ALL)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per run; of one run, per partition and chunk."""
        import pandas as pd

        return pd.json_normalize(self._entries(ALL))

    def document(self, view: View) -> dict[str, Any]:
        """Return the document, with the entries that the view shows."""
        runs: Sequence[Entry] = list(map(_entry, self.runs))
        return {
            **document_head("runs"),
            "outcome": OK,
            "reason": "",
            "warnings": [*self.remarks.warnings],
            "notes": [*self.remarks.notes],
            "tier": self.tier,
            **({"only": [*view.only]} if view.only else {}),
            "runs": runs if self.rows else self._entries(view),
            **(self._of_one_run(view) if self.rows else {}),
        }

    def _of_one_run(self, view: View) -> dict[str, Any]:
        about = fields(self.rows[-1], "now_ms", "requests", "stage_seconds")
        return {**about, "partitions": self._entries(view)}

    def columns(self) -> Columns:
        """Return the columns of the table."""
        return PARTITION_COLUMNS if self.rows else RUN_COLUMNS

    def csv(self, view: View) -> str:
        """Return the table as CSV."""
        return csv_of(self._entries(view), self.columns())

    def _entries(self, view: View) -> list[Entry]:
        """The entries of the table's rows that the view shows; raises BadSettings."""
        columns = self.columns()
        if view.sort and view.sort not in columns:
            raise BadSettings(
                f"the table has no column {view.sort}",
                where="--sort",
                remedy=f"It has {', '.join(columns)}.",
            )
        found = map(_row_entry, self.rows) if self.rows else map(_entry, self.runs)
        return view.selected(found, lambda entry: entry, columns, OF_PARTITIONS)

    def show(self, console: Console, view: View) -> None:
        """Print the table, and which partitions of the newest run failed or took longest."""
        if not self.runs:
            console.print("No run is recorded.")
            return
        entries, newest = self._entries(view), self.runs[0]
        title = f"{newest.command} {newest.run}" if self.rows else "runs"
        table = _OF_PARTITIONS if self.rows else _OF_RUNS
        print_rows(console, title, table, entries, rows_max=view.rows_max)
        if line := view.line(len(entries), len(self.rows or self.runs)):
            console.print(line)
        if newest.slowest:
            slowest = [f"{_name(one)} {duration(one.task_ms)}" for one in newest.slowest]
            console.print(f"Slowest partitions of {newest.run}: {', '.join(slowest)}.")
        if self.rows:
            console.print(_about(newest, self.rows[-1]), style="dim")
        else:
            console.print("`tierfold runs TIER --run RUN` shows all of one run.", style="dim")


def _entry(run: RunSummary) -> dict[str, Any]:
    counts = {name: run.partitions.get(name, 0) for name in OF_PARTITIONS}
    return {
        **fields(run, "run"),
        "verb": run.command,
        "outcome": next((one for one in BY_URGENCY if counts.get(one)), OK),
        "reason": _why(run),
        "started_at": timestamp_text(run.started_at_ms),
        **fields(run, "started_at_ms", "finished_at_ms", "duration_ms"),
        "partitions": counts,
        **fields(run, "bytes_in", "bytes_out", "saved_bytes", "bytes_read", "bytes_written"),
        **fields(run, "cost_usd", "tierfold_version"),
        "failed": list(map(asdict, run.failed)),
        "slowest": list(map(asdict, run.slowest)),
    }


def _why(run: RunSummary) -> str:
    """The reasons of its failed partitions, the most urgent first, as one sentence."""
    failed = sorted(run.failed, key=lambda one: BY_URGENCY.index(one.outcome))
    named = [f"{_name(one)} {in_words(one.outcome)}: {one.reason}" for one in failed[:NAMED_MAX]]
    more = len(failed) - NAMED_MAX
    return "; ".join(named) + (f" (and {spaced(more)} more)" if more > 0 else "")


def _row_entry(row: RunRow) -> dict[str, Any]:
    return {
        **fields(row, "topic", "partition", "topic_id", "chunk", "outcome", "reason", "epoch"),
        **fields(row, "first_dirty", "next_offset", "started_at_ms", "finished_at_ms"),
        **fields(row, "segments_in", "segments_out", "bytes_in", "bytes_out"),
        "saved_bytes": row.bytes_in - row.bytes_out if row.outcome in MOVED else 0,
        **fields(row, "bytes_read", "bytes_written", "dirty_ratio", "delay_ms", "task_ms"),
        **fields(row, "counts", "verified"),
    }


def _name(one: RunPartition) -> str:
    return f"{one.topic}-{one.partition}"


def _about(run: RunSummary, last: RunRow) -> str:
    """When the run worked, on what, and what it cost."""
    stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in last.stage_seconds.items())
    requests = ", ".join(f"{spaced(n)} {name}" for name, n in last.requests.items() if n)
    return " ".join(
        (
            f"From {timestamp_text(run.started_at_ms)} to {timestamp_text(run.finished_at_ms)},"
            f" by tierfold {run.tierfold_version}.",
            *([f"Stages: {stages}."] if stages else ()),
            *([f"Requests: {requests}; {_cost(run.cost_usd)} at list prices."] if requests else ()),
        )
    )


def _bytes(entry: Entry) -> str:
    if not entry["bytes_in"] and not entry["bytes_out"]:
        return ""
    return f"{decimal(entry['bytes_in'])} → {decimal(entry['bytes_out'])}"


def _cost(cost_usd: float | None) -> str:
    return "" if cost_usd is None else dollars(Fraction(cost_usd))


def _outcome(entry: Entry) -> Text:
    name: str = entry["outcome"]
    return Text(in_words(name), style=STYLES.get(name, ""))


def _outcomes(entry: Entry) -> Text:
    counts: Mapping[str, int] = entry["partitions"]
    named = [(name, counts[name]) for name in BY_URGENCY if counts.get(name)]
    texts = [Text(f"{spaced(n)} {in_words(name)}", style=STYLES.get(name, "")) for name, n in named]
    return Text("\n").join(texts)


def _took(time_ms: int | None) -> str:
    return duration(time_ms) if time_ms else ""


def _sentence(entry: Entry) -> Text:
    return Text(printable(entry["reason"]))


_OF_RUNS: Final[tuple[Column[Entry], ...]] = (
    ("run", "left", lambda entry: str(entry["run"])),
    ("verb", "left", lambda entry: str(entry["verb"])),
    ("partitions", "left", _outcomes),
    ("bytes", "right", _bytes),
    ("cost", "right", lambda entry: _cost(entry["cost_usd"])),
    ("took", "right", lambda entry: _took(entry["duration_ms"])),
    ("why", "left", _sentence),
)
_OF_PARTITIONS: Final[tuple[Column[Entry], ...]] = (
    ("partition", "left", lambda entry: f"{entry['topic']}-{entry['partition']}"),
    ("outcome", "left", _outcome),
    ("offsets", "right", lambda entry: offsets(entry["first_dirty"], entry["next_offset"])),
    ("bytes", "right", _bytes),
    ("read", "right", lambda entry: decimal(entry["bytes_read"] or 0)),
    ("took", "right", lambda entry: _took(entry["task_ms"])),
    ("why", "left", _sentence),
)
