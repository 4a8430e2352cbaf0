"""The kinds of settings: each parses text and describes the allowed values.

A kind's `parse` raises `ValueError` for a text that is not allowed; the caller adds the setting and
its place to the message (`jobs.settings.resolution`).
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
    """Parses the text of one setting."""

    @property
    def allowed(self) -> str:
        """The allowed values, as the end of a sentence "Give ...", for messages and pages."""

    def parse(self, text: str) -> object:
        """Return the value; raises `ValueError` if the text is not allowed."""


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
        """Return the number; Kafka allows no unit letters, underscores or fractions."""
        if _WHOLE.fullmatch(text) is None:
            raise ValueError(text)
        number = int(text)
        if not self.least <= number <= self.most:
            raise ValueError(text)
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A whole number as a limit; a negative one means no limit, as in Kafka."""

    least: int
    most: int

    @property
    def allowed(self) -> str:
        """The bounds, and how to set no limit."""
        return f"a whole number from {self.least} to {self.most}, or -1: no limit"

    def parse(self, text: str) -> int:
        """Return the number; -1 for any negative number."""
        number = WholeNumber(least=-LONG_MAX, most=self.most).parse(text)
        if 0 <= number < self.least:
            raise ValueError(text)
        return max(number, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A decimal number from 0 to 1, kept exact: no decision depends on a float."""

    @property
    def allowed(self) -> str:
        """The bounds."""
        return "a decimal number from 0 to 1"

    def parse(self, text: str) -> Fraction:
        """Return the exact ratio; the text is short, so that no exponent costs memory."""
        if _DECIMAL.fullmatch(text) is None:
            raise ValueError(text)
        ratio = Fraction(text)
        if not 0 <= ratio <= 1:
            raise ValueError(text)
        return ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyList:
    """Kafka's `cleanup.policy`: names separated by commas, each at most once."""

    @property
    def allowed(self) -> str:
        """The three possible lists."""
        return "compact, delete or compact,delete"

    def parse(self, text: str) -> frozenset[str]:
        """Return the set of policies; the order does not matter, as in Kafka."""
        names = [name.strip() for name in text.split(",")]
        if len(set(names)) != len(names) or not POLICIES.issuperset(names):
            raise ValueError(text)
        return frozenset(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """One of a few names."""

    of: type[StrEnum]
    empty: StrEnum | None = None
    """The value of an empty text; None: an empty text is not allowed."""

    @property
    def allowed(self) -> str:
        """All names."""
        *first, last = self.of
        names = f"{', '.join(first)} or {last}"
        return names if self.empty is None else f"{names}; empty: {self.empty}"

    def parse(self, text: str) -> StrEnum:
        """Return the member of that name."""
        return self.empty if self.empty is not None and not text else self.of(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderName:
    """The name of a record header: any non-empty text that Kafka can store."""

    @property
    def allowed(self) -> str:
        """Any non-empty text."""
        return "the name of a record header, at least one character"

    def parse(self, text: str) -> str:
        """Return the name unchanged."""
        if not text:
            raise ValueError(text)
        text.encode("utf-8")  # half a character, as a terminal may send it, is a ValueError
        return text
