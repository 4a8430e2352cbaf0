"""The result of `runs`: the last runs, or one of them with each of its partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.wording import counted, duration, spaced
from tierfold.jobs.context.request_prices import usd_text
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.partition_report import OK
from tierfold.jobs.reports.result import BY_URGENCY, OF_PARTITIONS, document_head, fields
from tierfold.jobs.reports.tables import (
    STYLES,
    Column,
    in_words,
    offsets,
    print_omitted,
    print_paragraph,
    print_rows,
    rows_shown,
)
from tierfold.jobs.reports.views import ALL, Columns, Entry, View, csv_of
from tierfold.jobs.settings.remarks import Remarks
from tierfold.jobs.verbs.runs import MOVED, VACUUM, RunPartition, RunSummary
from tierfold.storage.catalog.schema import RunRow

if TYPE_CHECKING:
    import pandas as pd

NAMED_MAX: Final = 3
"""How many partitions a line names; it counts the others."""

PROBLEMS_MAX: Final = 6
"""How many reasons follow the table of runs; `--run` has all."""

_WHEN_GONE: Final = (
    "Saved: by how much live logs shrank. What was replaced stays until the first `tierfold vacuum`"
    " after the grace period."
)

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
        entries, newest, rows_max = self._entries(view), self.runs[0], view.rows_max
        if self.rows:
            if not view.sort:
                entries.sort(key=lambda entry: _urgency(entry["outcome"]))
                rows_max = rows_shown([entry["outcome"] for entry in entries], rows_max)
            title = f"{newest.command} {newest.run}"
            console.print(_totals(newest))
            print_rows(console, title, _OF_PARTITIONS, entries, rows_max=rows_max)
        else:
            print_rows(console, "runs", _OF_RUNS, entries, rows_max=rows_max)
            self._print_problems(console)
        if line := view.line(len(entries), len(self.rows or self.runs)):
            console.print(line)
        if self.rows:
            console.print()
        if working := next((run for run in self.runs if run.slowest), None):
            slowest = [f"{_name(one)} {duration(one.task_ms)}" for one in working.slowest]
            console.print(f"Slowest partitions of {working.run}: {', '.join(slowest)}.")
        if self.rows:
            console.print(_about(newest, self.rows[-1]), style="dim")
            return
        if any(run.saved_bytes > 0 and run.command != VACUUM for run in self.runs):
            console.print(_WHEN_GONE, style="dim")
        console.print("`tierfold runs TIER --run RUN` shows all of one run.", style="dim")

    def _print_problems(self, console: Console) -> None:
        """Print what stopped partitions in the newest run of each verb, the most urgent first."""
        newest = {run.command: run for run in reversed(self.runs)}.values()
        failed = sorted(
            (one for run in newest for one in run.failed),
            key=lambda one: (_urgency(one.outcome), one.topic, one.partition),
        )
        said: dict[tuple[str, str], RunPartition] = {}
        for one in failed:  # Several verbs may be stopped by the same thing.
            said.setdefault((_name(one), one.reason), one)
        problems = [*said.values()]
        for one in problems[:PROBLEMS_MAX]:
            line = f"{_name(one)} {in_words(one.outcome)}: {one.reason}"
            print_paragraph(console, Text(printable(line)))
        print_omitted(console, len(problems) - PROBLEMS_MAX)
        if problems:
            console.print()


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
    failed = [asdict(one) for one in run.failed]
    return "; ".join(one.rstrip(".") for one in (*_reasons(failed), *_more(failed)))


def _urgency(outcome: str) -> int:
    """Its place in `BY_URGENCY`; the last one, if another version of tierfold recorded it."""
    return BY_URGENCY.index(outcome) if outcome in BY_URGENCY else len(BY_URGENCY)


def _reasons(failed: Sequence[Entry]) -> list[str]:
    """The reasons of the first failed partitions of a run, the most urgent first."""
    ordered = sorted(failed, key=lambda one: _urgency(one["outcome"]))
    return [
        f"{one['topic']}-{one['partition']} {in_words(one['outcome'])}: {one['reason']}"
        for one in ordered[:NAMED_MAX]
    ]


def _more(failed: Sequence[object]) -> list[str]:
    more = len(failed) - NAMED_MAX
    return [f"and {spaced(more)} more"] if more > 0 else []


def _in_short(entry: Entry) -> str:
    """Which partitions of a run did not end well, the most urgent first."""
    names: dict[str, list[str]] = defaultdict(list)
    for one in entry["failed"]:
        names[one["outcome"]].append(f"{one['topic']}-{one['partition']}")
    return printable(
        "; ".join(
            f"{', '.join((*those[:NAMED_MAX], *_more(those)))} {in_words(outcome)}"
            for outcome, those in sorted(names.items(), key=lambda item: _urgency(item[0]))
        )
    )


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


def _totals(run: RunSummary) -> str:
    """How its partitions ended, by how much their logs shrank, and what that cost."""
    ordered = sorted(run.partitions, key=_urgency)
    named = ", ".join(f"{spaced(run.partitions[name])} {in_words(name)}" for name in ordered)
    found = [f"{counted(sum(run.partitions.values()), 'partition')}: {named}."]
    if run.bytes_in:
        became = f"{decimal(run.bytes_in)} became {decimal(run.bytes_out)}"
        found.append(": ".join(filter(None, (became, _saved(run.command, run.saved_bytes)))) + ".")
    cost = usd_text(run.cost_usd)
    at_prices = f"{cost} at list prices" if cost else "nothing: the tier is a folder"
    found.append(f"Its requests cost {at_prices}.")
    return " ".join(found)


def _about(run: RunSummary, last: RunRow) -> str:
    """When the run worked, and on what."""
    stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in last.stage_seconds.items())
    shown = {name: n for name, n in last.requests.items() if n and not name.endswith("_bytes")}
    requests = ", ".join(f"{spaced(n)} {name}" for name, n in shown.items())
    return " ".join(
        (
            f"From {timestamp_text(run.started_at_ms)} to {timestamp_text(run.finished_at_ms)},"
            f" by tierfold {run.tierfold_version}.",
            *([f"Stages: {stages}."] if stages else ()),
            *([f"Requests: {requests}."] if requests else ()),
        )
    )


def _bytes(entry: Entry) -> str:
    if not entry["bytes_in"] and not entry["bytes_out"]:
        return ""
    return f"{decimal(entry['bytes_in'])} → {decimal(entry['bytes_out'])}"


def _bytes_and_saved(entry: Entry) -> str:
    saved_bytes: int = entry["saved_bytes"]
    return "\n".join(filter(None, (_bytes(entry), _saved(entry["verb"], saved_bytes))))


def _saved(verb: str, saved_bytes: int) -> str:
    """By how much live logs shrank, or what was deleted; empty: by nothing."""
    word = "freed" if verb == VACUUM else "saved"
    return f"{decimal(saved_bytes)} {word}" if saved_bytes > 0 else ""


def _range(entry: Entry) -> str:
    """The offsets that the run looked at; none of a partition that it could not inspect."""
    next_offset: int = entry["next_offset"]
    return offsets(entry["first_dirty"], next_offset) if next_offset else ""


def _cost(cost_usd: float | None) -> str:
    """What its requests cost; a folder's cost nothing."""
    return usd_text(cost_usd).replace("less than", "<") or "none"


def _size(size_bytes: int | None) -> str:
    return decimal(size_bytes) if size_bytes else ""


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
    ("bytes", "right", _bytes_and_saved),
    ("cost", "right", lambda entry: _cost(entry["cost_usd"])),
    ("took", "right", lambda entry: _took(entry["duration_ms"])),
    ("stopped", "left", _in_short),
)
_OF_PARTITIONS: Final[tuple[Column[Entry], ...]] = (
    ("partition", "left", lambda entry: f"{entry['topic']}-{entry['partition']}"),
    ("outcome", "left", _outcome),
    ("offsets", "right", _range),
    ("bytes", "right", lambda entry: _bytes(entry) if entry["outcome"] in MOVED else ""),
    ("read", "right", lambda entry: _size(entry["bytes_read"])),
    ("took", "right", lambda entry: _took(entry["task_ms"])),
    ("why", "left", _sentence),
)
