"""The pictures of the page, by altair: each a Vega-Lite specification without colours of text.

The page gives them the colours of its light or dark side, and its width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import altair as alt
from rich.filesize import decimal

from tierfold.compaction.model.wording import counted, dollars, duration, spaced
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.page.page_model import Page, SegmentMap

Row: TypeAlias = dict[str, Any]
Drawn: TypeAlias = alt.Chart | alt.LayerChart | alt.FacetChart

SVG_WIDTH: Final = 720
"""Pixels of a picture alone; in the page, it is as wide as its column."""

_HEIGHT: Final = 220
_ROW_HEIGHT: Final = 26
_NO_TITLE: Final = None
_BLUE, _GREY, _GREEN, _AMBER, _RED, _VIOLET = (
    "#4c84e8",
    "#9aa7b8",
    "#3da678",
    "#d9962b",
    "#d8584f",
    "#9470d8",
)
"""Readable on white and on near black."""

_REGIONS: Final = {
    "cleaned": _GREEN,
    "dirty": _AMBER,
    "too young": _BLUE,
    "held for uploads": _VIOLET,
    "unstable": _RED,
}
_REASONS: Final = {
    "superseded": _BLUE,
    "aborted": _RED,
    "tombstones expired": _AMBER,
    "markers expired": _VIOLET,
    "without key": _GREY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One picture."""

    name: str
    """Of its file, and of its place in the page."""
    title: str
    spec: dict[str, Any]
    """In Vega-Lite, as wide as its container."""


def figures(page: Page) -> tuple[Figure, ...]:
    """Return the pictures of a page, without those that would be empty."""
    made: tuple[tuple[str, str, Callable[[Page], Drawn | None]], ...] = (
        ("bytes", "Bytes of the logs that runs replaced, before and after", _bytes),
        ("savings", "Saved per month", _savings),
        ("owners", "Storage per month, by owner", _owners),
        ("dirty", "Dirty ratio by topic", _dirty),
        ("removed", "Records removed, by reason", _removed),
        ("staying", "When replaced bytes may go", _staying),
        ("slowest", "Slowest partitions", _slowest),
        ("requests", "Requests to the store", _requests),
    )
    found = [(name, title, make(page)) for name, title, make in made]
    maps = [
        (f"map-{one.partition}", f"Segments of {one.partition}", _map(one)) for one in page.maps
    ]
    return tuple(
        Figure(name=name, title=title, spec=_spec(chart, title))
        for name, title, chart in (*found, *maps)
        if chart is not None
    )


def _spec(chart: Drawn, title: str) -> dict[str, Any]:
    # Altair would name its data by a digest, and add its own theme.
    spec: dict[str, Any] = chart.properties(width="container", description=title).to_dict()
    spec.pop("config", None)
    return spec


def _chart(rows: Sequence[Row], *, height: int = _HEIGHT) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=[*rows]), height=height)


_DAYS: Final = alt.X(
    "day:O",
    title=_NO_TITLE,
    axis=alt.Axis(labelAngle=0, labelOverlap="greedy", labelSeparation=8, grid=False),
)


def _bytes_axis() -> alt.Axis:
    return alt.Axis(labelExpr=_AS_BYTES, tickCount=4)


_AS_BYTES: Final = (
    "datum.value >= 1e12 ? format(datum.value / 1e12, '.3~f') + ' TB'"
    " : datum.value >= 1e9 ? format(datum.value / 1e9, '.3~f') + ' GB'"
    " : datum.value >= 1e6 ? format(datum.value / 1e6, '.3~f') + ' MB'"
    " : datum.value >= 1e3 ? format(datum.value / 1e3, '.3~f') + ' kB'"
    " : format(datum.value, '.3~f')"
)


def _colours(field: str, of: dict[str, str], used: Sequence[str]) -> alt.Color:
    """A legend of what is used, in the order of `of`."""
    names = [name for name in of if name in used]
    scale = alt.Scale(domain=names, range=[of[name] for name in names])
    legend = alt.Legend(title=None, orient="top", columns=alt.expr("width < 420 ? 2 : 0"))
    return alt.Color(field, scale=scale, legend=legend)


_AS_COUNT: Final = "replace(format(datum.value, '~s'), 'G', ' bn')"
_AS_USD: Final = "format(datum.value, datum.value >= 1 ? '$,.2~f' : '$~g')"


def _bytes(page: Page) -> Drawn | None:
    sides = {"before": _GREY, "after": _BLUE}
    rows = [
        {"day": day.day, "side": side, "bytes": size, "size": decimal(size)}
        for day in page.days
        if day.bytes_in
        for side, size in zip(sides, (day.bytes_in, day.bytes_out), strict=True)
    ]
    if not rows:
        return None
    base = _chart(rows).encode(
        x=_DAYS,
        y=alt.Y("bytes:Q", title=_NO_TITLE, axis=_bytes_axis(), stack=None),
        color=_colours("side:N", sides, [*sides]),
        tooltip=[alt.Tooltip("day:O"), alt.Tooltip("side:N"), alt.Tooltip("size:N")],
    )
    # The smaller bar stands before the larger one.
    wide, narrow = (
        base.mark_bar(size=alt.expr(f"min({most}, bandwidth('x') * {share})")).transform_filter(
            alt.datum.side == side
        )
        for side, most, share in (("before", 44, 0.9), ("after", 26, 0.55))
    )
    return alt.layer(wide, narrow)


def _savings(page: Page) -> Drawn | None:
    kinds = {"no longer in live logs": _BLUE, "deleted by vacuum": _GREEN}
    rows = [
        {"day": day.day, "kind": kind, "usd": float(usd), "a month": dollars(usd)}
        for day in page.days
        for kind, usd in zip(
            kinds, map(page.a_month, (day.saved_bytes, day.freed_bytes)), strict=True
        )
    ]
    if not any(row["usd"] for row in rows):
        return None
    drawn: alt.Chart = (
        _chart(rows)
        .mark_line(point=alt.OverlayMarkDef(size=40, filled=True), strokeWidth=2)
        .encode(
            x=_DAYS,
            y=alt.Y("usd:Q", title=_NO_TITLE, axis=alt.Axis(labelExpr=_AS_USD, tickCount=4)),
            color=_colours("kind:N", kinds, [*kinds]),
            tooltip=[alt.Tooltip("day:O"), alt.Tooltip("kind:N"), alt.Tooltip("a month:N")],
        )
    )
    return drawn


def _rows_chart(
    rows: Sequence[Row],
    name: str,
    value: str,
    label: str,
    colour: alt.Color | alt.ColorValue,
    most: float,
) -> Drawn:
    """A bar for each row on a track of `most`, with name and label above it.

    Names may be long, and a phone narrow.
    """
    base = _chart(rows, height=2 * _ROW_HEIGHT * len(rows)).encode(
        y=alt.Y(f"{name}:N", sort=None, title=_NO_TITLE, axis=None),
        tooltip=[alt.Tooltip(f"{name}:N"), alt.Tooltip(f"{label}:N")],
    )
    bar: Row = {"height": 12, "cornerRadius": 3, "yOffset": 9}
    x = alt.X(f"{value}:Q", title=_NO_TITLE, axis=None, scale=alt.Scale(domain=[0, most]))
    track = base.mark_bar(**bar, color=_GREY, opacity=0.18).encode(
        x=alt.value(0), x2=alt.value("width")
    )
    bars = base.mark_bar(**bar).encode(x=x, color=colour)
    style: Row = {"baseline": "middle", "dy": -7, "fontSize": 12}
    room = max(7 * len(row[label]) + 12 for row in rows)
    names = base.mark_text(align="left", **style, limit=alt.expr(f"max(60, width - {room})"))
    names = names.encode(x=alt.value(0), text=f"{name}:N")
    labels = base.mark_text(align="right", **style).encode(
        x=alt.value("width"), text=f"{label}:N"
    )
    return alt.layer(track, bars, names, labels)


def _rows_of(
    rows: Sequence[Row], name: str, value: str, label: str, colour: str
) -> Drawn | None:
    """The same in one colour, the largest bar as long as its track; None without rows."""
    most = max((row[value] for row in rows), default=0)
    return _rows_chart(rows, name, value, label, alt.ColorValue(colour), most) if most else None


def _owners(page: Page) -> Drawn | None:
    rows = [
        {
            "owner": owner.owner or "no label",
            "usd": float(usd),
            "a month": f"{decimal(stored)}, {dollars(usd)} a month",
        }
        for owner in page.owners
        if (usd := page.a_month(stored := owner.live_bytes + owner.retired_bytes))
    ]
    if not any(owner.owner for owner in page.owners):
        return None
    return _rows_of(rows, "owner", "usd", "a month", _BLUE)


def _dirty(page: Page) -> Drawn | None:
    states = {"within its lag": _BLUE, "past max.compaction.lag.ms": _RED}
    rows: list[Row] = [
        {
            "topic": topic.topic,
            "ratio": topic.dirty_ratio,
            "state": [*states][topic.delay_ms > 0],
            "dirty": f"{100 * topic.dirty_ratio:.1f} %"
            + (f", {duration(topic.delay_ms)} late" if topic.delay_ms else ""),
        }
        for topic in page.dirty_topics
    ]
    if not rows:
        return None
    colour = _colours("state:N", states, [row["state"] for row in rows])
    return _rows_chart(rows, "topic", "ratio", "dirty", colour, 1)


def _removed(page: Page) -> Drawn | None:
    rows = [
        {"day": day.day, "reason": reason.replace("_", " "), "records": count}
        for day in page.days
        for reason, count in day.removed.items()
    ]
    return _stacked(rows, "reason", "records", _REASONS)


def _requests(page: Page) -> Drawn | None:
    rows: list[Row] = [
        {"day": day.day, "kind": kind, "requests": count}
        for day in page.days
        for kind, count in day.requests.items()
    ]
    palette = (_BLUE, _GREEN, _AMBER, _VIOLET, _RED, _GREY)
    kinds = sorted({row["kind"] for row in rows})
    return _stacked(
        rows,
        "kind",
        "requests",
        {kind: palette[number % len(palette)] for number, kind in enumerate(kinds)},
    )


def _stacked(rows: list[Row], kind: str, count: str, of: dict[str, str]) -> Drawn | None:
    if not rows:
        return None
    for row in rows:
        row["count"] = spaced(row[count])
    drawn: alt.Chart = (
        _chart(rows)
        .mark_bar(size=alt.expr("min(40, bandwidth('x') * 0.9)"))
        .encode(
            x=_DAYS,
            y=alt.Y(f"{count}:Q", title=_NO_TITLE, axis=alt.Axis(labelExpr=_AS_COUNT, tickCount=4)),
            color=_colours(f"{kind}:N", of, [row[kind] for row in rows]),
            tooltip=[alt.Tooltip("day:O"), alt.Tooltip(f"{kind}:N"), alt.Tooltip("count:N")],
        )
    )
    return drawn


def _staying(page: Page) -> Drawn | None:
    rows = [
        {
            "when": "not known"
            if one.gone_at_ms is None
            else f"after {timestamp_text(one.gone_at_ms)[:16].replace('T', ' ')}",
            "bytes": one.size_bytes,
            "size": decimal(one.size_bytes),
        }
        for one in page.staying
    ]
    return _rows_of(rows, "when", "bytes", "size", _GREY)


def _slowest(page: Page) -> Drawn | None:
    rows = [
        {"partition": one.partition, "s": one.task_ms / 1000, "took": duration(one.task_ms)}
        for one in page.slowest
    ]
    return _rows_of(rows, "partition", "s", "took", _VIOLET)


def _map(one: SegmentMap) -> Drawn:
    rows: list[Row] = []
    start = 0
    for block in one.blocks:
        # A small segment beside a large one is still to be seen.
        end = start + max(block.size_bytes, one.size_bytes // 150, 1)
        rows.append(
            {
                "start": start,
                "end": end,
                "region": block.region,
                "colour": block.region.rpartition(", ")[2],
                "offsets": block.offsets,
                "size": decimal(block.size_bytes),
                "what": f"{counted(block.segments, 'segment')}: {block.action}",
                "why": block.why,
                "opacity": 1.0 if block.action == "rewritten" else 0.45,
            }
        )
        start = end
    shown = [alt.Tooltip(f"{name}:N") for name in ("offsets", "size", "region", "what", "why")]
    drawn: alt.Chart = (
        _chart(rows, height=34)
        .mark_rect(strokeWidth=1)
        .encode(
            x=alt.X("start:Q", title=_NO_TITLE, axis=None, scale=alt.Scale(domain=[0, start])),
            x2="end:Q",
            color=_colours("colour:N", _REGIONS, [row["colour"] for row in rows]),
            opacity=alt.Opacity("opacity:Q", scale=None),
            tooltip=shown,
        )
    )
    return drawn

