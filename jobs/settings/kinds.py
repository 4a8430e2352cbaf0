"""The kinds of settings: each parses text and describes the allowed values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from tierfold.compaction.model.rules import LONG_MAX

POLICIES: Final = frozenset({"compact", "delete"})

RATE_MIN: Final = Fraction(1, 1_000_000)
RATE_MAX: Final = Fraction(1, 2)

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL: Final = re.compile(
    r"[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,2})?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingKind:
    """What a setting allows, and how its text is parsed."""

    allowed: str
    """The allowed values, as the end of a sentence "Give ...", for messages and pages."""
    unit: str
    parse: Callable[[str], Any]
    """Returns the value of a text; raises ValueError if the text is not allowed."""


def whole_number(least: int, most: int, unit: str) -> SettingKind:
    """Return the kind of an integer within Kafka's own bounds, both included.

    As in Kafka, the text has no unit letters, underscores or fractions.
    """

    def parse(text: str) -> int:
        if _WHOLE.fullmatch(text) is None or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    return SettingKind(allowed=f"a whole number from {least} to {most}", unit=unit, parse=parse)


def limit(least: int, most: int, unit: str) -> SettingKind:
    """Return the kind of a limit; a negative number means no limit and becomes -1, as in Kafka."""
    number = whole_number(-LONG_MAX, most, unit)

    def parse(text: str) -> int:
        value: int = number.parse(text)
        if 0 <= value < least:
            raise ValueError(text)
        return max(value, -1)

    allowed = f"a whole number from {least} to {most}, or -1: no limit"
    return SettingKind(allowed=allowed, unit=unit, parse=parse)


def one_of(names: type[StrEnum], empty: StrEnum | None = None) -> SettingKind:
    """Return the kind of an enum; `empty` is the value of an empty text, if that is allowed."""
    *first, last = names
    allowed = f"{', '.join(first)} or {last}"
    return SettingKind(
        allowed=allowed if empty is None else f"{allowed}; empty: {empty}",
        unit="name",
        parse=lambda text: names(text) if text or empty is None else empty,
    )


def _is_true(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(text)
    return text == "true"


def _ratio(text: str) -> Fraction:
    """Parse short texts only: a huge exponent would take much memory."""
    if _DECIMAL.fullmatch(text) is None or not 0 <= Fraction(text) <= 1:
        raise ValueError(text)
    return Fraction(text)


def _false_positive_rate(text: str) -> Fraction:
    rate = _ratio(text)
    if not RATE_MIN <= rate <= RATE_MAX:
        raise ValueError(text)
    return rate


def _policies(text: str) -> frozenset[str]:
    """Parse names separated by commas, in any order, each at most once, as Kafka does."""
    names = [name.strip() for name in text.split(",")]
    if len(set(names)) != len(names) or not POLICIES.issuperset(names):
        raise ValueError(text)
    return frozenset(names)


def _header_name(text: str) -> str:
    if not text:
        raise ValueError(text)
    text.encode("utf-8")  # Raises ValueError for a lone surrogate, which a terminal may send.
    return text


TRUE_OR_FALSE: Final = SettingKind(allowed="true or false", unit="boolean", parse=_is_true)
RATIO: Final = SettingKind(allowed="a decimal number from 0 to 1", unit="ratio", parse=_ratio)
"""An exact fraction: no decision depends on a float."""

FALSE_POSITIVE_RATE: Final = SettingKind(
    allowed="a decimal number from 0.000001 to 0.5", unit="ratio", parse=_false_positive_rate
)

POLICY_LIST: Final = SettingKind(
    allowed="compact, delete or compact,delete", unit="list", parse=_policies
)
HEADER_NAME: Final = SettingKind(
    allowed="the name of a record header, at least one character", unit="name", parse=_header_name
)
