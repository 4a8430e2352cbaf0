"""An SVG of small plots side by side: measured points, and the line fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_WIDTH: Final = 240
_HEIGHT: Final = 180
_MARGIN: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Points of seconds (`ys`) by one number (`xs`), and the line `base + slope * x`."""

    name: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    slope: float
    base: float


def plot(axes: Sequence[Axis]) -> str:
    """The SVG; both axes of each plot start at zero."""
    plots = "\n".join(_one(axis, number * _WIDTH) for number, axis in enumerate(axes))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH * len(axes)} {_HEIGHT}"'
        f' font-family="sans-serif" font-size="10">\n{plots}\n</svg>\n'
    )


def _one(axis: Axis, left: int) -> str:
    x_max, y_max = max(axis.xs), max(axis.ys)
    inner = (_WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN)

    def place(x: float, y: float) -> tuple[float, float]:
        across, up = inner[0] * x / x_max, inner[1] * y / y_max
        return round(left + _MARGIN + across, 1), round(_HEIGHT - _MARGIN - up, 1)

    dots = "".join(
        f'<circle cx="{place(x, y)[0]}" cy="{place(x, y)[1]}" r="3" fill="#246"/>'
        for x, y in zip(axis.xs, axis.ys, strict=True)
    )
    begin, end = place(0, max(0.0, axis.base)), place(x_max, axis.base + axis.slope * x_max)
    low, high = place(0, 0), place(x_max, y_max)
    return (
        f'<path d="M{low[0]} {high[1]}V{low[1]}H{high[0]}" fill="none" stroke="#888"/>'
        f'<path d="M{begin[0]} {begin[1]}L{end[0]} {end[1]}" stroke="#c60"/>{dots}'
        f'<text x="{left + _WIDTH / 2}" y="{_HEIGHT - 10}" text-anchor="middle">{axis.name}</text>'
        f'<text x="{high[0]}" y="{low[1] + 14}" text-anchor="middle">{x_max:g}</text>'
        f'<text x="{low[0]}" y="{high[1] - 6}" text-anchor="middle">{y_max:.1f} s</text>'
    )
