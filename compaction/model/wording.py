"""How sentences write numbers: one way, in reasons as in tables.

Bytes and counts are spaced; offsets, epochs and ids are not, for people copy those.
"""

from __future__ import annotations


def spaced(number: int) -> str:
    """Thousands apart, as SI writes them."""
    return f"{number:,}".replace(",", " ")


def counted(number: int, noun: str) -> str:
    """A number and its noun, in the plural where it is not one."""
    return f"{spaced(number)} {noun}{'' if number == 1 else 's'}"
