"""The page as one HTML file that loads nothing, and its pictures as SVG files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Final

import jinja2
import vl_convert
from markupsafe import Markup, escape
from rich.filesize import decimal

from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.wording import counted, dollars, duration, spaced
from tierfold.jobs.context.request_prices import usd_text
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.page.figures import SVG_WIDTH, figures
from tierfold.jobs.page.page_model import LastRun, Page, Urgency
from tierfold.jobs.reports.tables import STEP, in_words

_SERIOUS: Final = (Urgency.FAILED, Urgency.REFUSED)
_MAP: Final = "map-"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    name: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def shown(self) -> _Table:
        """The table without columns in which no row has anything."""
        places = [place for place in range(len(self.columns)) if any(r[place] for r in self.rows)]
        return replace(
            self,
            columns=tuple(self.columns[place] for place in places),
            rows=tuple(tuple(row[place] for place in places) for row in self.rows),
        )


def html_of(page: Page) -> str:
    """Return the page; everything that comes from outside is escaped."""
    drawn = figures(page)
    ids = {figure.name: f"figure-{number}" for number, figure in enumerate(drawn)}
    specs = {ids[figure.name]: figure.spec for figure in drawn}
    shown = {
        figure.name: {"title": figure.title, "id": ids[figure.name]}
        for figure in drawn
        if not figure.name.startswith(_MAP)
    }
    text = resources.files("tierfold.conf").joinpath("report.html").read_text("utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(text).render(
        tier=printable(page.tier),
        made_at=_time(page.made_at_ms),
        scope=f"{counted(page.partitions, 'partition')} of"
        f" {counted(page.topics_in_all, 'topic')} that are compacted",
        tiles=[*_tiles(page)],
        problems=[*_problems(page)],
        problems_left_out=_left_out(page),
        figures=shown,
        captions=_captions(page),
        tables={table.name: table.shown for table in (_runs(page), _owners(page), _topics(page))},
        sentences=[*map(_with_code, _sentences(page))],
        maps=[*_maps(page, ids)],
        specs=_in_script(json.dumps(specs)),
        vega=_vega(),
    )


@cache
def _vega() -> Markup:
    """Vega, Vega-Lite and Vega-Embed as one script, as the package has them."""
    # None is the default, which its type lacks.
    bundle = vl_convert.javascript_bundle(None)  # type: ignore[arg-type]
    return Markup(bundle.replace("</script", "<\\/script"))


def svgs_of(page: Page) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each picture alone, on a white ground."""
    for figure in figures(page):
        spec = figure.spec | {"width": SVG_WIDTH, "background": "white", "title": figure.title}
        yield f"{figure.name}.svg", vl_convert.vegalite_to_svg(spec)


def _in_script(text: str) -> Markup:
    """JSON for a script element, which a name cannot end: no character of HTML is left."""
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)


def _time(time_ms: int) -> str:
    return f"{timestamp_text(time_ms)[:16].replace('T', ' ')} UTC"


def _signed(size_bytes: int) -> str:
    return decimal(size_bytes) if size_bytes >= 0 else f"−{decimal(-size_bytes)}"


def _a_month(page: Page, size_bytes: int) -> str:
    usd = page.a_month(abs(size_bytes))
    return ("−" if size_bytes < 0 else "") + dollars(usd)


def _tiles(page: Page) -> Iterator[dict[str, str]]:
    count = len(page.problems) + page.problems_left_out
    yield {
        "mood": "bad" if count else "good",
        "name": "Needs a person",
        "value": counted(count, "thing") if count else "Nothing",
        "text": _kinds(page) if count else "no failure, no refusal, nothing late",
    }
    compact = next((run for run in page.last_runs if run.verb == "compact"), None)
    if compact is not None:
        first, *others = _outcomes(compact)
        more = f"{', '.join(others)}; " if others else ""
        yield {
            "mood": "",
            "name": "Last compaction",
            "value": first,
            "text": f"{more}{_time(compact.started_at_ms)}, took {duration(compact.duration_ms)}",
        }
    yield {
        "mood": "",
        "name": "Saves per month",
        "value": _a_month(page, page.saved_bytes),
        "text": f"{_signed(page.saved_bytes)} less in live logs; {decimal(page.staying_bytes)} that"
        " were replaced are still there",
    }
    cost = page.cost_usd
    since = f"since {page.days[0].day}" if page.days else "no run is recorded"
    last = "" if compact is None else f"; the last compaction {usd_text(compact.cost_usd)}"
    yield {
        "mood": "",
        "name": "Cost of requests",
        "value": "None" if cost is None else usd_text(cost),
        "text": "the tier is a folder" if cost is None else f"{since}, at list prices{last}",
    }
    if page.stored_bytes is not None:
        usd = dollars(page.a_month(page.stored_bytes))
        yield {
            "mood": "",
            "name": "Stored now",
            "value": decimal(page.stored_bytes),
            "text": f"all objects, replaced ones included: {usd} a month",
        }


def _kinds(page: Page) -> str:
    counts = {
        urgency: sum(one.partitions for one in page.problems if one.urgency is urgency)
        for urgency in Urgency
    }
    return ", ".join(f"{spaced(count)} {kind}" for kind, count in counts.items() if count)


def _outcomes(run: LastRun) -> list[str]:
    """How many partitions have each outcome, the most urgent first."""
    return [f"{spaced(count)} {in_words(one)}" for one, count in run.outcomes.items()]


def _problems(page: Page) -> Iterator[dict[str, Any]]:
    for problem in page.problems:
        yield {
            "urgency": problem.urgency.value,
            "mood": "bad" if problem.urgency in _SERIOUS else "",
            "where": printable(problem.where),
            "why": _with_code(problem.why),
            "remedy": Markup("<br>").join(map(_with_code, STEP.split(problem.remedy))),
        }


def _with_code(text: str) -> Markup:
    """The text, escaped, with its commands in backticks as code."""
    parts = printable(text).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


def _left_out(page: Page) -> Markup:
    left = page.problems_left_out
    text = f"… and {spaced(left)} more; `tierfold plan` and `tierfold runs` list all of them."
    return _with_code(text if left else "")


def _captions(page: Page) -> dict[str, str]:
    first = f"since {page.days[0].day}" if page.days else ""
    owners = page.owners_in_all - len(page.owners)
    topics = page.topics_in_all - len(page.dirty_topics)
    return {
        "bytes": "By the day on which the runs began, in UTC.",
        "savings": f"What bytes removed {first} would cost ({page.price.source}). Vacuum deletes"
        " later what runs replaced, and also what has expired.",
        "owners": "Live logs and replaced segments, by the labels of topics."
        + (f" {spaced(owners)} smaller owners are left out." if owners else ""),
        "dirty": "Cleanable bytes divided by clean and cleanable ones, and how late the most"
        " overdue partition is; the latest and dirtiest first."
        + (f" {spaced(topics)} cleaner topics are left out." if topics else ""),
        "removed": "What compaction took out of logs, by day.",
        "staying": "Replaced segments that are still in the tier.",
        "slowest": "Time of all tasks in the newest run that had any.",
        "requests": "To the tier's store, by day, without those to the catalog.",
    }


def _runs(page: Page) -> _Table:
    return _Table(
        name="runs",
        title="Last run of each verb",
        caption="Bytes are those of the logs that were replaced or deleted, and of what came in"
        " their place.",
        columns=("verb", "began", "took", "partitions", "bytes", "requests"),
        rows=tuple(
            (
                f"{run.verb} {run.run}",
                _time(run.started_at_ms),
                duration(run.duration_ms),
                ", ".join(_outcomes(run)),
                f"{decimal(run.bytes_in)} → {decimal(run.bytes_out)}" if run.bytes_in else "",
                usd_text(run.cost_usd),
            )
            for run in page.last_runs
        ),
    )


def _owners(page: Page) -> _Table:
    is_labelled = any(one.owner for one in page.owners)
    return _Table(
        name="owners",
        title="Cost by owner",
        caption="Storage is of live logs and replaced segments. Of a run's requests each owner has"
        " the share of the bytes read and written of its topics.",
        columns=(
            *("owner", "topics", "partitions", "live"),
            *("storage/month", "saves/month", "requests"),
        ),
        rows=tuple(
            (
                printable(one.owner) or "no label",
                spaced(one.topics),
                spaced(one.partitions),
                decimal(one.live_bytes),
                _a_month(page, one.live_bytes + one.retired_bytes),
                _a_month(page, one.saved_bytes),
                usd_text(one.request_usd),
            )
            for one in page.owners
            if is_labelled
        ),
    )


def _topics(page: Page) -> _Table:
    return _Table(
        name="topics",
        title="Topics",
        caption=f"The latest and dirtiest {len(page.topics)} of {spaced(page.topics_in_all)}.",
        columns=("topic", "owner", "partitions", "live", "dirty", "late", "replaced, stays"),
        rows=tuple(
            (
                one.topic,
                printable(one.owner),
                spaced(one.partitions),
                decimal(one.live_bytes),
                f"{100 * one.dirty_ratio:.1f} %",
                duration(one.delay_ms) if one.delay_ms else "",
                decimal(one.retired_bytes) if one.retired_bytes else "",
            )
            for one in page.topics
        ),
    )


def _sentences(page: Page) -> Iterator[str]:
    horizon = page.oldest_horizon
    if horizon is None:
        yield "No live segment has a tombstone or marker that waits for its delete horizon."
    else:
        past_ms = page.made_at_ms - horizon.due_at_ms
        when = f"passed {duration(past_ms)} ago" if past_ms >= 0 else f"in {duration(-past_ms)}"
        yield (
            f"The oldest tombstone or marker is in {horizon.partition}: its delete horizon,"
            f" {_time(horizon.due_at_ms)}, {when}."
        )
    for one in page.staying:
        yield f"{one.sentence}."
    for seen in page.skipped:
        yield (
            f"Run {seen.run}: key indexes spared reading {spaced(seen.skipped)} of"
            f" {counted(seen.asked, 'clean segment')}; {counted(seen.read_once, 'segment')} lost"
            " nothing and were read once."
        )
    if not any(one.owner for one in page.owners):
        yield "No topic has labels in the settings, so there is no cost by owner."
    if not page.skipped:
        yield "Reads that key indexes spared are in a run's document: name it with --run-document."


def _maps(page: Page, ids: dict[str, str]) -> Iterator[dict[str, str]]:
    for one in page.maps:
        segments = sum(block.segments for block in one.blocks)
        yield {
            "partition": one.partition,
            "text": f"{counted(segments, 'segment')}, {decimal(one.size_bytes)}",
            "decision": printable(one.decision),
            "id": ids[f"{_MAP}{one.partition}"],
        }

