"""How messages and tables write numbers.

Sizes and counts get spaces between thousands. Offsets, epochs and ids do not: people copy those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

_PLACES_MAX: Final = 3
_CENT_TENTH: Final = Fraction(1, 1000)

_UNITS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def spaced(number: int) -> str:
    """The number with spaces between thousands, as in SI."""
    return f"{number:,}".replace(",", " ")


def counted(number: int, noun: str) -> str:
    """A number and its noun, in the plural unless the number is 1."""
    return f"{spaced(number)} {noun}{'' if number == 1 else 's'}"


def dollars(amount: Fraction) -> str:
    """US dollars, in cents from one dollar on, below it with two digits that count."""
    if amount >= 1 or not amount:
        return f"${spaced(int(amount))}.{int(amount * 100) % 100:02}"
    return f"${float(amount):.2g}" if amount >= _CENT_TENTH else "less than $0.001"


def alike(sentences: Iterable[str]) -> tuple[str, ...]:
    """Sentences `PLACE: WHAT`; those that differ in the place alone become one.

    It names the first places: `a.log, b.log, c.log and 22 more: no key is named`.
    """
    places: dict[str, list[str]] = {}
    for sentence in dict.fromkeys(sentences):
        place, _, what = sentence.partition(": ")
        places.setdefault(what or sentence, []).append(place if what else "")
    return tuple(
        f"{_first_of(found)}: {what}" if found[0] else what for what, found in places.items()
    )


def _first_of(places: Sequence[str]) -> str:
    more = len(places) - _PLACES_MAX
    return ", ".join(places[:_PLACES_MAX]) + (f" and {spaced(more)} more" if more > 0 else "")


def duration(time_ms: int) -> str:
    """A time that is not negative, rounded down: `3.5 d`, `20 s`, `7 ms`."""
    for unit, unit_ms in _UNITS_MS:
        if time_ms >= unit_ms:
            tenths = time_ms * 10 // unit_ms
            fraction = f".{tenths % 10}" if tenths % 10 else ""
            return f"{tenths // 10}{fraction} {unit}"
    return f"{time_ms} ms"
