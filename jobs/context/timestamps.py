"""Points in time as people write and read them: ISO 8601 to the millisecond, in UTC by default."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from tierfold.compaction.model.errors import BadSettings

_BEGINS_AS_DATE: Final = re.compile(r"[0-9]{4}-[0-9]")
"""Nothing else that is asked for in the same place does."""

_MILLISECONDS: Final = re.compile(r"[0-9]{13,19}")
"""Since 2001 moments have 13 digits; fewer may begin a run's name. No Kafka timestamp has more than
19, and Python, which takes a few thousand, then raises."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def timestamp_text(time_ms: int) -> str:
    """Epoch milliseconds as ISO 8601 in UTC; as they are from year 10000 on."""
    try:
        text = (_EPOCH + time_ms * _MILLISECOND).isoformat(timespec="milliseconds")
    except OverflowError:
        return str(time_ms)
    return text.replace("+00:00", "Z")


def timestamp_ms_of(text: str, *, where: str) -> int | None:
    """The epoch milliseconds that ISO 8601 or a whole number says; None: it is something else.

    Raises BadSettings for a date that the calendar does not have; `where` is what it was given to.
    """
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    if not _BEGINS_AS_DATE.match(text):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadSettings(
            f"{text!r} is no moment: {error}",
            where=where,
            remedy="Write it as 2026-11-21T15:30:46.123Z, or as epoch milliseconds.",
        ) from error
    in_zone = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return (in_zone - _EPOCH) // _MILLISECOND
