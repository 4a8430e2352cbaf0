"""Where a segment comes from: who wrote its objects, whose bytes they hold, who names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A broker wrote it."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """A run wrote it, with what it kept of its sources."""

    run: str
    """The run's name; not empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A run wrote it, with the bytes of another segment."""

    run: str
    """The run's name; not empty."""
    copy_of: str
    """The id of that segment; of a copy of a copy, that of the first one."""
    upload: str
    """The id under which a broker uploaded those bytes; empty: a run compacted them."""


Origin: TypeAlias = Uploaded | Compacted | Copied

UPLOADED: Final = Uploaded()


def origin_of(run: str, copy_of: str = "", upload: str = "") -> Origin:
    """The origin that the catalog stores as these three texts; empty: there is none."""
    if not run:
        return UPLOADED
    if not copy_of:
        return Compacted(run)
    return Copied(run=run, copy_of=copy_of, upload=upload)
