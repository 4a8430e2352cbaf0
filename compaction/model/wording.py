"""How messages and tables write numbers.

Bytes and counts are spaced; offsets, epochs and ids are not, as people copy those.
"""

from __future__ import annotations


def spaced(number: int) -> str:
    """The number with spaces between thousands, as in SI."""
    return f"{number:,}".replace(",", " ")


def counted(number: int, noun: str) -> str:
    """A number and its noun, in the plural unless the number is 1."""
    return f"{spaced(number)} {noun}{'' if number == 1 else 's'}"
