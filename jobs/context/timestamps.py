"""Parses and prints timestamps: ISO 8601 with milliseconds, in UTC by default."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from tierfold.compaction.model.errors import BadSettings

_DATE_START: Final = re.compile(r"[0-9]{4}-[0-9]")
"""No other value of the same argument starts like this."""

_MILLISECONDS: Final = re.compile(r"[0-9]{13,19}")
"""Timestamps since 2001 have 13 digits; fewer may be a prefix of a run's name. Kafka's timestamps
have at most 19 digits."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def timestamp_text(time_ms: int) -> str:
    """Return epoch milliseconds as ISO 8601 in UTC; from the year 10000 on, as the number."""
    try:
        text = (_EPOCH + time_ms * _MILLISECOND).isoformat(timespec="milliseconds")
    except OverflowError:
        return str(time_ms)
    return text.replace("+00:00", "Z")


def timestamp_ms_of(text: str, *, where: str) -> int | None:
    """Return ISO 8601 or a whole number as epoch milliseconds; None: `text` is something else.

    Raises BadSettings for a date that does not exist; `where` is the argument that held it.
    """
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    if not _DATE_START.match(text):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadSettings(
            f"{text!r} is not a timestamp: {error}",
            where=where,
            remedy="Write it as 2026-11-21T15:30:46.123Z, or as epoch milliseconds.",
        ) from error
    in_zone = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return (in_zone - _EPOCH) // _MILLISECOND
