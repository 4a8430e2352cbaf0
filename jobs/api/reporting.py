"""The function `report`: one page on the nights so far, for people who look."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Unpack

from rich.filesize import decimal

from tierfold.compaction.model.errors import BadSettings, UnreadableObject
from tierfold.compaction.model.wording import counted
from tierfold.jobs.api.keywords import ReportKeywords, takes
from tierfold.jobs.api.opening import opened
from tierfold.jobs.context.documents import read_document
from tierfold.jobs.page.page_model import Page
from tierfold.jobs.page.page_of import MAPS, About, page_of
from tierfold.jobs.page.recorded import COLUMNS_READ, RUNS_READ, recorded
from tierfold.jobs.page.surveyed import most_dirty, segment_map
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.reports.estimate_report import prices_of
from tierfold.jobs.verbs.plan import explained_plan
from tierfold.storage.catalog.runs_table import RunsTable

_DRAWS: Final = ("altair", "vl_convert")


@dataclass(frozen=True, slots=True)
class Report:
    """A page on a tier."""

    page: Page
    """What it shows."""

    def html(self) -> str:
        """Return the page as one HTML file that loads nothing."""
        from tierfold.jobs.page.page_file import html_of

        return html_of(self.page)

    @property
    def needs(self) -> str:
        """How much needs a person, a clause."""
        count = len(self.page.problems) + self.page.problems_left_out
        return f"{counted(count, 'thing')} need{'s' if count == 1 else ''} a person" if count else (
            "nothing needs a person"
        )

    def svgs(self) -> Iterator[tuple[str, str]]:
        """Yield the file name and the text of each picture, as SVG."""
        from tierfold.jobs.page.page_file import svgs_of

        return svgs_of(self.page)


@takes(ReportKeywords)
def report(
    tier: str | Path,
    *,
    run_documents: Sequence[str | Path] = (),
    **given: Unpack[ReportKeywords],
) -> Report:
    """Return a page on what runs did, what they saved, what waits, and what needs a person.

    It surveys the tier as `plan` does and reads the catalog's table `runs`; nothing is changed.
    `run_documents`: paths or URIs of documents of `compact`, which say what key indexes spared.

    >>> Path("report.html").write_text(tierfold.report("/mnt/tier").html())
    """
    ensure_drawable()
    documents = {str(place): _document(str(place)) for place in run_documents}
    tools = opened(tier, given, asks_brokers=True, publishes=True)
    context = tools.context
    plans = survey(context, tools.settings, tools.scope)
    rows = RunsTable(context.catalog_uri, context.catalog_options).last(RUNS_READ, COLUMNS_READ)
    maps = [segment_map(explained_plan(context, plan)) for plan in most_dirty(plans, MAPS)]
    about = About(
        tier=context.tier_uri,
        made_at_ms=context.now_ms,
        price=prices_of(context.scheme, given.get("storage_price")).storage,
        stored_bytes=context.stored.before,
        owner_of=lambda topic: _in_words(tools.settings.labels.of(topic)),
    )
    return Report(page_of(about, plans, recorded(rows), maps=maps, documents=documents))


def _in_words(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items())


def ensure_drawable() -> None:
    """Raise BadSettings if the packages that draw are not installed."""
    missing = [name for name in _DRAWS if find_spec(name) is None]
    if missing:
        raise BadSettings(
            f"{' and '.join(missing)} cannot be imported",
            where="tierfold report",
            remedy="Install what draws the page: pip install 'tierfold[report]'.",
        )


def _document(place: str) -> Mapping[str, Any]:
    """Read a document of a run; raises BadSettings and UnreadableObject."""
    try:
        found = json.loads(read_document(place))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, Mapping):
        raise BadSettings(
            "this is no JSON document",
            where=place,
            remedy="Name what `tierfold compact --document` or `--json` wrote.",
        )
    return found


def written(found: Report, page_path: Path | None, svg_folder: Path | None) -> Iterator[str]:
    """Write what is named, and yield a line for each; raises UnreadableObject."""
    if page_path is not None:
        text = found.html()
        _write(page_path, text)
        yield f"{page_path}: {decimal(len(text.encode()))}, {found.needs}."
    if svg_folder is not None:
        names = []
        for name, text in found.svgs():
            _write(svg_folder / name, text)
            names.append(name)
        yield f"{svg_folder}: {counted(len(names), 'picture')}."


def _write(path: Path, text: str) -> None:
    """Write a file, or replace it at once; raises UnreadableObject."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise UnreadableObject(
            f"cannot be written: {error.strerror}",
            where=str(path),
            remedy="Name another place for the report.",
        ) from error
