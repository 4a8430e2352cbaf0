"""Generates docs/architecture.svg and the table in docs/architecture.md.

Both show what one partition becomes in `compact`, read from the code: a step is a function, and its
return annotation has the type that it makes; name, module and sentence are the type's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, get_args, get_origin, get_type_hints

from scripts.reference_tables import table
from tierfold.compaction.cleaning.rounds import group_tasks
from tierfold.compaction.commits.round_commit import proposal_of
from tierfold.compaction.discovery.draft import drafted
from tierfold.compaction.discovery.drafted_view import view_of
from tierfold.compaction.planning.partition_plan import partition_plan
from tierfold.jobs.engines.stage_executor import StageExecutor
from tierfold.jobs.pipeline.claiming import begun_rounds
from tierfold.jobs.pipeline.discovery import facts_of
from tierfold.jobs.pipeline.partition_report import result_report
from tierfold.jobs.pipeline.partition_run import PartitionRun
from tierfold.jobs.pipeline.round_execution import RoundResult, executed
from tierfold.jobs.pipeline.survey import known_partitions
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.segments.overlap_check import prove_overlaps
from tierfold.storage.segments.segment_inspection import inspected

_MAKERS: Final[tuple[Callable[..., object], ...]] = (
    known_partitions,
    inspected,
    facts_of,
    drafted,
    prove_overlaps,
    view_of,
    partition_plan,
    PartitionRun.beginning,
    Catalog.claim,
    begun_rounds,
    StageExecutor.scan,
    group_tasks,
    StageExecutor.rewrite,
    executed,
    proposal_of,
    result_report,
)
"""The functions that make a type each, in the order of a run."""

_FILLS: Final = {"compaction": "#e7f4e4", "storage": "#fdf0d5", "jobs": "#e6edf7"}
"""By the package of the function that makes the type."""

_LEGEND: Final = {
    "compaction": "compaction decides",
    "storage": "storage reads and writes",
    "jobs": "jobs runs",
}

_COLUMNS: Final = 4
_BOX_WIDTH: Final = 192
_BOX_HEIGHT: Final = 66
_ACROSS: Final = 216
_DOWN: Final = 102
_MARGIN: Final = 12

_HEAD: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">
<!-- `make pages` generates this picture; do not edit it. -->
<title>What one partition becomes in compact, step by step</title>
<style>
  text {{ font-size: 13px; text-anchor: middle; fill: #222; }}
  .name {{ font-weight: bold; }}
  .small {{ font-size: 11.5px; fill: #444; }}
  .box {{ stroke: #888; rx: 6px; }}
  .arrow {{ stroke: #555; stroke-width: 1.5; fill: none; marker-end: url(#tip); }}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"
 orient="auto"><path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>
<rect width="{width}" height="{height}" fill="#fff"/>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A type that a partition becomes, and the function that makes it."""

    made: type[Any]
    maker: Callable[..., object]

    @property
    def layer(self) -> str:
        """The package of the function: compaction, storage or jobs."""
        return _path_of(self.maker).split("/")[0]

    @property
    def sentence(self) -> str:
        """The first line of the type's docstring."""
        return (inspect.getdoc(self.made) or "").split("\n")[0]


def steps() -> list[Step]:
    """Return the types that one partition becomes in `compact`, in order.

    Raises LookupError if a function makes no type that is not there yet.
    """
    found: list[Step] = []
    for maker in _MAKERS:
        known = {step.made for step in found}
        made = [one for one in types_in(hints_of(maker)["return"]) if one not in known]
        if not made:
            raise LookupError(f"{maker.__qualname__} makes no new type")
        found.append(Step(made=made[0], maker=maker))
    return found


def hints_of(described: Callable[..., object] | type[Any]) -> dict[str, Any]:
    """Return the annotations of a function or a class, as types."""
    # `partition_report` imports this one for its annotations only.
    return get_type_hints(described, localns={"RoundResult": RoundResult})


def types_in(hint: Any) -> Iterator[type[Any]]:  # noqa: ANN401 - any annotation
    """Yield tierfold's dataclasses in an annotation, in their order; of a dict, in its values."""
    if isinstance(hint, type) and is_dataclass(hint) and hint.__module__.startswith("tierfold."):
        yield hint
    for part in get_args(hint)[get_origin(hint) is dict :]:
        yield from types_in(part)


def with_parts(whole: type[Any]) -> set[type[Any]]:
    """Return a dataclass and all that its fields hold, and so on."""
    found, new = set[type[Any]](), {whole}
    while new:
        found |= new
        hints = [hints_of(one)[field.name] for one in new for field in fields(one)]
        new = {part for hint in hints for part in types_in(hint)} - found
    return found


def life() -> str:
    """Return the table of the types, in order."""
    rows = (
        (
            str(number),
            f"`{step.made.__name__}`",
            f"[{_path_of(step.made)}](../{_path_of(step.made)})",
            step.sentence,
            f"[`{step.maker.__qualname__}`](../{_path_of(step.maker)})",
        )
        for number, step in enumerate(steps(), 1)
    )
    return table(("", "type", "module", "what it is", "made by"), rows)


def picture() -> str:
    """Return the picture as SVG."""
    boxes = steps()
    rows = -(-len(boxes) // _COLUMNS)
    bottom = _MARGIN + rows * _DOWN
    width = 2 * _MARGIN + (_COLUMNS - 1) * _ACROSS + _BOX_WIDTH
    parts = [_HEAD.format(width=width, height=bottom + 30)]
    for number, step in enumerate(boxes):
        x, y = _place(number)
        parts += _box(x, y, number + 1, step)
        if number + 1 < len(boxes):
            parts.append(f'<path class="arrow" d="{_way(number)}"/>\n')
    for column, (layer, what) in enumerate(_LEGEND.items()):
        x, middle = _MARGIN + column * _ACROSS, bottom + 5
        parts.append(f'<rect class="box" x="{x}" y="{middle - 9}" width="18" height="18"')
        parts.append(f' fill="{_FILLS[layer]}"/>\n')
        style = "text-anchor: start"
        parts.append(f'<text class="small" x="{x + 26}" y="{middle + 4}" style="{style}">')
        parts.append(f"{what}</text>\n")
    return "".join([*parts, "</svg>\n"])


def _place(number: int) -> tuple[int, int]:
    row, column = divmod(number, _COLUMNS)
    return _MARGIN + column * _ACROSS, _MARGIN + row * _DOWN


def _box(x: int, y: int, number: int, step: Step) -> Iterator[str]:
    middle = x + _BOX_WIDTH // 2
    yield f'\n<rect class="box" x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}"'
    yield f' fill="{_FILLS[step.layer]}"/>\n'
    yield f'<text class="name" x="{middle}" y="{y + 28}">{number}. {step.made.__name__}</text>\n'
    yield f'<text class="small" x="{middle}" y="{y + 49}">{step.maker.__qualname__}</text>\n'


def _way(number: int) -> str:
    """The path of the arrow from a box to the next one, which may be in the next row."""
    (x, y), (to_x, to_y) = _place(number), _place(number + 1)
    if to_y == y:
        return f"M{x + _BOX_WIDTH} {y + _BOX_HEIGHT // 2}H{to_x - 4}"
    half, between = _BOX_WIDTH // 2, (y + _BOX_HEIGHT + to_y) // 2
    return f"M{x + half} {y + _BOX_HEIGHT}V{between}H{to_x + half}V{to_y - 4}"


def _path_of(described: Callable[..., object] | type[Any]) -> str:
    return described.__module__.removeprefix("tierfold.").replace(".", "/") + ".py"
