"""The errors, by who must act.

    TierfoldError
    ├── CorruptLog        fix the data; only this partition stops
    ├── UnreadableObject  bring the object back, grant access, or free disk space
    │   └── MissingRight  grant the right, with the command that the remedy has
    ├── BadSettings       fix conf/ or the command line; nothing was read
    └── InvariantBroken   report a bug of tierfold; nothing was written

Lost races and fences are outcomes, not exceptions (`compaction.model.outcomes`). Errors are
printed and stored, so they contain no secrets and no terminal escapes
(`compaction.model.redaction`).
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Final

from tierfold.compaction.model.redaction import redacted
from tierfold.compaction.model.rights import Right


class TierfoldError(Exception):
    """An error with three parts: where, what is wrong, what to do."""

    CODE: ClassVar[str] = "error"
    """The code of an error that has none of its own; documents have codes, so they never change."""

    def __init__(self, what: str, *, where: str, remedy: str, code: str = "") -> None:
        self.code = code or self.CODE
        self.what = redacted(what)
        self.where = redacted(where)
        self.remedy = redacted(remedy)
        super().__init__(self.what, self.where, self.remedy)

    def __str__(self) -> str:
        return f"{self.where}: {self.what}. {self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        # The default pickling, which Spark's workers use, loses keyword-only arguments.
        return partial(type(self), **self._parts), (self.what,)

    @property
    def _parts(self) -> dict[str, Any]:
        """The keyword arguments that make it again."""
        return {"where": self.where, "remedy": self.remedy, "code": self.code}


def unexpected(error: Exception) -> str:
    """A foreign exception, redacted, as part of a sentence on one line."""
    return redacted(f"unexpected {type(error).__name__}: {' '.join(str(error).split())}")


LEAVE_OUT: Final = "leave the topic out (name the others with --topic)"
"""What is left to do with objects that tierfold cannot use, and that no backup has otherwise.

Such bytes came from a broker or a client. No segment is changed, so brokers still serve them.
"""


UNCHANGED: Final = "Nothing of this partition was changed."


def from_backup(what: str) -> str:
    """The remedy for an object of a segment that is corrupt; a backup may have the same bytes."""
    return (
        f"If a backup of {what} has other bytes, put them in its place; otherwise {LEAVE_OUT}."
        f" {UNCHANGED}"
    )


def of_unknown_version(what: str) -> str:
    """The remedy for an object of a version that Kafka does not have, or did not have so far."""
    return (
        f"If the brokers' Kafka writes this version, update tierfold. Otherwise {what} is damaged:"
        f" restore it from a copy. Until then, {LEAVE_OUT}. {UNCHANGED}"
    )


class CorruptLog(TierfoldError):
    """Bytes violate Kafka's format: wrong CRC, torn tail, unknown magic or codec, …."""

    CODE = "corrupt"


class UnreadableObject(TierfoldError):
    """An object cannot be read or written: it is missing or forbidden, or the disk is full."""

    CODE = "unreadable"


class MissingRight(UnreadableObject):
    """A cluster refuses what a right is missing for."""

    CODE = "right_missing"

    def __init__(
        self, what: str, *, where: str, remedy: str, code: str = "", rights: tuple[Right, ...] = ()
    ) -> None:
        super().__init__(what, where=where, remedy=remedy, code=code)
        self.rights = rights
        """All that are missing, as far as it is known."""

    @property
    def _parts(self) -> dict[str, Any]:
        return {**super()._parts, "rights": self.rights}


class BadSettings(TierfoldError):
    """A setting is unknown, malformed, or contradicts another or the data; nothing changes."""

    CODE = "bad_settings"


class InvariantBroken(TierfoldError):
    """A row that would be written violates one of `compaction.commits.invariants`."""
