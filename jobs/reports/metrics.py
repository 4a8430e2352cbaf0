"""A run's metrics, computed from its document; docs/metrics.md lists them.

Kafka's own names where it has them: the gauges of `LogCleanerManager` and `LogCleaner`, with
underscores and a prefix, as Prometheus wants them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from shlex import quote
from textwrap import shorten
from typing import Any, Final, TypeAlias

from tierfold.compaction.model.errors import UNCHANGED
from tierfold.compaction.model.redaction import printable
from tierfold.jobs.context.request_prices import Worked, shared_out
from tierfold.jobs.pipeline.partition_report import COMPACTED, FAILED, REFUSED, UNKNOWN
from tierfold.jobs.reports.result import NEEDS_A_PERSON, NEEDS_ANOTHER_RUN
from tierfold.jobs.reports.tables import STEP

LAST_SUCCESS: Final = "tierfold_last_success_timestamp_seconds"
"""The only metric that a run may lack: where it failed, the earlier value stays."""

STOPPED: Final = "tierfold_stopped_partition"
"""The only metric of single partitions: an alert must say which one, why, and what to do."""

STOPPED_MAX: Final = 20
"""How many of them a run has: a night in which all fail makes no thousands of series."""

TEXT_MAX: Final = 600
"""Characters of a label that holds sentences; a longer one ends in `…`."""

HELP: Final[Mapping[str, str]] = {
    "tierfold_run_saved_bytes": "By how many bytes live logs shrank; the replaced ones stay until"
    " `tierfold vacuum`",
    "tierfold_run_cost_usd": "What the run's requests cost",
    STOPPED: "Needs a person: why, and what to do first",
    "tierfold_run_compacted_bytes": "Bytes of the logs that the run replaced",
    "tierfold_max_dirty_percent": "The highest dirty ratio of a partition, 0 to 100",
    "tierfold_max_compaction_delay_secs": "How far the most overdue partition was past"
    " max.compaction.lag.ms when the run began",
    "tierfold_uncleanable_partitions_count": "Partitions that failed or were refused",
    "tierfold_cleaner_recopy_percent": "Bytes of the logs that the run wrote, per 100 that it"
    " compacted",
    "tierfold_run_duration_seconds": "How long the run took",
    "tierfold_compacted_bytes": "Bytes of the topic's logs that the run replaced",
    "tierfold_saved_bytes": "By how many bytes these logs shrank",
    "tierfold_cost_usd": "The topic's share of tierfold_run_cost_usd, by bytes read and written",
    "tierfold_refused_partitions": "Partitions that wait for a person",
    "tierfold_failed_partitions": "Partitions that were tried and stopped",
    "tierfold_publish_lag_events": "Events that brokers are still to be sent",
    "tierfold_unfinished_swaps": "Partitions of which brokers are still to be sent events",
    "tierfold_superseded_overdue_seconds": "How long replaced segments could have been deleted"
    " when the run ended",
    LAST_SUCCESS: "When a run last ended with no partition of the topic failed or refused",
}
"""Every metric and what it is, in the order of a textfile: what is read first comes first."""

_Entries: TypeAlias = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A value of one metric; all are gauges."""

    name: str
    """One of `HELP`."""
    value: float
    labels: Mapping[str, str]
    """Those of its group, and of the topic by owner; of `STOPPED` more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The metrics of a run as a whole, or of one topic."""

    key: Mapping[str, str]
    """`tier` and `verb`, and of a topic its `topic`."""
    samples: tuple[Sample, ...]


def metrics_of(document: Mapping[str, Any]) -> tuple[Group, ...]:
    """Return the metrics of a document of `compact`, `vacuum` or `verify`: the run's, then topics'.

    Those that the verb knows nothing of are left out. Of single partitions there is only `STOPPED`,
    in the run's group: five thousand of each would be too many series.
    """
    by_topic: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for entry in document["partitions"]:
        by_topic[entry["topic"]].append(entry)
    key = {"tier": document["tier"], "verb": document["verb"]}
    cost_usd = document.get("requests", {}).get("cost_usd")
    worked = {topic: _worked(entries) for topic, entries in by_topic.items()}
    shares = {} if cost_usd is None else shared_out(cost_usd, worked)
    of_run = _of_run(document) | ({} if cost_usd is None else {"tierfold_run_cost_usd": cost_usd})
    run = _group(key, {}, of_run)
    groups = [replace(run, samples=(*run.samples, *_stopped(key, document["partitions"])))]
    for topic, entries in sorted(by_topic.items()):
        values = dict(_of_topic(document, entries))
        if topic in shares:
            values["tierfold_cost_usd"] = shares[topic]
        groups.append(_group({**key, "topic": topic}, entries[0].get("labels", {}), values))
    return tuple(groups)


def _group(
    key: Mapping[str, str], labels: Mapping[str, str], values: Mapping[str, float]
) -> Group:
    named = {**key, **labels}
    samples = (Sample(name=name, value=value, labels=named) for name, value in values.items())
    return Group(key=key, samples=tuple(samples))


def _stopped(key: Mapping[str, str], entries: _Entries) -> Iterator[Sample]:
    """A sample for each partition that needs a person, in the order of `runs`."""
    found = [entry for entry in entries if entry["outcome"] in NEEDS_A_PERSON]
    found.sort(key=lambda entry: NEEDS_A_PERSON.index(entry["outcome"]))
    named: dict[str, Mapping[str, Any]] = {}
    for entry in found:  # A topic that was made again has two ids under one name.
        named.setdefault(f"{entry['topic']}-{entry['partition']}", entry)
    for name, entry in [*named.items()][:STOPPED_MAX]:
        labels = {**key, **entry.get("labels", {}), "topic": entry["topic"], "partition": name}
        labels |= {"outcome": entry["outcome"], **_why(entry, key["tier"])}
        yield Sample(name=STOPPED, value=1, labels=labels)


def _why(entry: Mapping[str, Any], tier: str) -> dict[str, str]:
    """The cause and the first step; without a `remedy`, `reason` is all that is known.

    A first step may be right only under its condition, so it names where the others are.
    """
    alone = {"detail": entry["reason"], "remedy": ""}
    first, *others = entry.get("refusals") or [alone]
    more = f" (and {len(others)} more)" if others else ""
    remedy = " ".join(first["remedy"].replace(UNCHANGED, "").split())
    step, *steps = STEP.split(remedy.removeprefix("1. "))
    if steps:
        step += f" Otherwise: `tierfold runs {quote(tier)}`."
    texts = {"reason": first["detail"].rstrip(".") + more, "remedy": step}
    return {
        name: shorten(printable(text), TEXT_MAX, placeholder=" …") for name, text in texts.items()
    }


def _worked(entries: _Entries) -> Worked:
    names = ("bytes_read", "bytes_written")
    size_bytes = sum(entry.get(name) or 0 for entry in entries for name in names)
    return Worked(size_bytes=size_bytes, partitions=len(entries))


def _of_run(document: Mapping[str, Any]) -> dict[str, float]:
    entries: _Entries = document["partitions"]
    found: dict[str, float] = {
        "tierfold_uncleanable_partitions_count": _count(entries, NEEDS_A_PERSON),
        "tierfold_run_duration_seconds": document["duration_ms"] / 1000,
    }
    if "max_compaction_delay_secs" not in document:
        return found
    compacted = [entry for entry in entries if entry["outcome"] == COMPACTED]
    bytes_in, bytes_out = (sum(one[of] for one in compacted) for of in ("bytes_in", "bytes_out"))
    return found | {
        "tierfold_run_saved_bytes": bytes_in - bytes_out,
        "tierfold_run_compacted_bytes": bytes_in,
        "tierfold_max_dirty_percent": max(map(_dirty_percent, entries), default=0),
        "tierfold_max_compaction_delay_secs": document["max_compaction_delay_secs"],
        "tierfold_cleaner_recopy_percent": 100 * bytes_out / bytes_in if bytes_in else 0,
    }


def _of_topic(
    document: Mapping[str, Any], entries: _Entries
) -> Iterator[tuple[str, float]]:
    ended_s = document["finished_at_ms"] / 1000
    yield "tierfold_refused_partitions", _count(entries, (REFUSED,))
    yield "tierfold_failed_partitions", _count(entries, (FAILED, UNKNOWN))
    if "max_compaction_delay_secs" in document:
        yield from _of_compacted(entries, ended_s)
    if any("events_planned" in entry for entry in entries):
        lags = [max(0, one["events_planned"] - one["events_sent"]) for one in entries]
        yield "tierfold_publish_lag_events", sum(lags)
        yield "tierfold_unfinished_swaps", sum(lag > 0 for lag in lags)
    if not _count(entries, (*NEEDS_A_PERSON, *NEEDS_ANOTHER_RUN)):
        yield LAST_SUCCESS, ended_s


def _of_compacted(entries: _Entries, ended_s: float) -> Iterator[tuple[str, float]]:
    done = [entry for entry in entries if entry["outcome"] == COMPACTED]
    yield "tierfold_compacted_bytes", sum(entry["bytes_in"] for entry in done)
    yield "tierfold_saved_bytes", sum(entry["bytes_in"] - entry["bytes_out"] for entry in done)
    due = (entry.get("superseded_gone_at") for entry in entries)
    overdue = [ended_s - datetime.fromisoformat(at).timestamp() for at in due if at]
    yield "tierfold_superseded_overdue_seconds", max((0.0, *overdue))


def _dirty_percent(entry: Mapping[str, Any]) -> float:
    ratio = entry.get("ratio") or {"clean_bytes": 0, "cleanable_bytes": 0}
    total = ratio["clean_bytes"] + ratio["cleanable_bytes"] + ratio.get("local_bytes", 0)
    return 100 * ratio["cleanable_bytes"] / total if total else 0


def _count(entries: Iterable[Mapping[str, Any]], outcomes: Sequence[str]) -> int:
    return sum(entry["outcome"] in outcomes for entry in entries)
