"""What a setting's value may be: a few kinds, each of which reads text and says what it allows.

A kind's `parse` raises `ValueError` for a text that it does not allow; the caller knows which
setting that was, and from where, and says so (`jobs.settings.resolution`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final, Protocol

from tierfold.compaction.model.rules import LONG_MAX

POLICIES: Final = frozenset({"compact", "delete"})

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL: Final = re.compile(
    r"[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,2})?"
)


class SettingKind(Protocol):
    """Reads one setting's text."""

    @property
    def allowed(self) -> str:
        """What a value may be, as the end of the sentence "Give ...": for messages and pages."""

    def parse(self, text: str) -> object:
        """The value; raises `ValueError` where the text is not allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeNumber:
    """An integer within Kafka's own bounds for the setting, both ends included."""

    least: int
    most: int

    @property
    def allowed(self) -> str:
        """The bounds."""
        return f"a whole number from {self.least} to {self.most}"

    def parse(self, text: str) -> int:
        """The number; Kafka takes no unit letters, no underscores, no fractions."""
        if _WHOLE.fullmatch(text) is None:
            raise ValueError(text)
        number = int(text)
        if not self.least <= number <= self.most:
            raise ValueError(text)
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A whole number that bounds something, or a negative one, which is no bound in Kafka."""

    least: int
    most: int

    @property
    def allowed(self) -> str:
        """The bounds, and how to say that there is no limit."""
        return f"a whole number from {self.least} to {self.most}, or -1: no limit"

    def parse(self, text: str) -> int:
        """The number; -1 for all that are negative."""
        number = WholeNumber(least=-LONG_MAX, most=self.most).parse(text)
        if 0 <= number < self.least:
            raise ValueError(text)
        return max(number, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A decimal number from 0 to 1, kept exact: no float decides which partition is compacted."""

    @property
    def allowed(self) -> str:
        """The bounds."""
        return "a decimal number from 0 to 1"

    def parse(self, text: str) -> Fraction:
        """The ratio, exactly as written; the text is short, so that no exponent costs memory."""
        if _DECIMAL.fullmatch(text) is None:
            raise ValueError(text)
        ratio = Fraction(text)
        if not 0 <= ratio <= 1:
            raise ValueError(text)
        return ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyList:
    """Kafka's `cleanup.policy`: names with commas between them, each at most once."""

    @property
    def allowed(self) -> str:
        """The three lists there are."""
        return "compact, delete or compact,delete"

    def parse(self, text: str) -> frozenset[str]:
        """The set of policies; the order means nothing, as in Kafka."""
        names = [name.strip() for name in text.split(",")]
        if len(set(names)) != len(names) or not POLICIES.issuperset(names):
            raise ValueError(text)
        return frozenset(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """One of a few names."""

    of: type[StrEnum]
    empty: StrEnum | None = None
    """What an empty text stands for; None: it is not allowed."""

    @property
    def allowed(self) -> str:
        """All there are."""
        *first, last = self.of
        names = f"{', '.join(first)} or {last}"
        return names if self.empty is None else f"{names}; empty: {self.empty}"

    def parse(self, text: str) -> StrEnum:
        """The member of that name."""
        return self.empty if self.empty is not None and not text else self.of(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderName:
    """The name of a record header: any text that Kafka can store, but none that is empty."""

    @property
    def allowed(self) -> str:
        """Nearly everything."""
        return "the name of a record header, at least one character"

    def parse(self, text: str) -> str:
        """The name as it is written."""
        if not text:
            raise ValueError(text)
        text.encode("utf-8")  # half a character, as a terminal may send it, is a ValueError
        return text
