"""What can go wrong, by who must act.

    TierfoldError
    ├── CorruptLog        fix the data; this partition stops, the fleet goes on
    ├── UnreadableObject  an object or folder is missing, forbidden, or the disk is full
    ├── BadSettings       fix conf/ or the command line; nothing was read
    └── InvariantBroken   a bug of ours, caught before anything was written; report it

Lost races and fences are outcomes, not exceptions (`compaction.model.outcomes`). Errors are
printed, stored and passed on, so none contains a secret or a terminal escape
(`compaction.model.redaction`).
"""

from __future__ import annotations

from tierfold.compaction.model.redaction import redacted


class TierfoldError(Exception):
    """One clear sentence: where, what was found, what to do."""

    def __init__(self, what: str, *, where: str, remedy: str) -> None:
        self.what = redacted(what)
        self.where = redacted(where)
        self.remedy = redacted(remedy)
        super().__init__(self.what, self.where, self.remedy)

    def __str__(self) -> str:
        return f"{self.where}: {self.what}. {self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling between Spark workers.
        return (_rebuild, (type(self), self.what, self.where, self.remedy))


def unexpected(error: Exception) -> str:
    """A foreign exception as part of a sentence, on one line; see `redaction`."""
    return redacted(f"unexpected {type(error).__name__}: {' '.join(str(error).split())}")


def _rebuild(kind: type[TierfoldError], what: str, where: str, remedy: str) -> TierfoldError:
    return kind(what, where=where, remedy=remedy)


class CorruptLog(TierfoldError):
    """Bytes that contradict Kafka's format: bad CRC, torn tail, unknown magic or codec, …"""


class UnreadableObject(TierfoldError):
    """An object could not be read or written: vanished, forbidden, no space left."""


class BadSettings(TierfoldError):
    """A setting that is unknown, malformed or contradicts another; nothing was read."""


class InvariantBroken(TierfoldError):
    """A row about to be written breaks one of `compaction.commits.invariants`."""
