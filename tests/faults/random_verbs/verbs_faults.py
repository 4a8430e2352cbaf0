"""What goes wrong while a verb runs: its process ends, a call fails, a file cannot be read.

Calls to the store and the catalog are met by `tests.jobs.watched`; errors of the operating system
are raised where the real store asks it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import pytest

from tests.jobs.watched import Killed, failing, killed, left_alone, watched
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers import local_store

_CALLS: Final = ("list", "look", "claim", "commit", "commit", "delete", "delete", "unfinished")
_SYSTEM_CALLS: Final = ("open", "preadv", "scandir", "link", "fsync")
_ERRORS: Final = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.ESTALE)
_NO_ANSWER: Final = UnreadableObject("no answer", where="the store", remedy="Look again.")


@dataclass(slots=True)
class FaultyOs:
    """The module `os`, of which one call fails once."""

    call: str
    number: int
    error: int
    calls: int = field(default=0)

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        return self._failing if name == self.call else found

    def _failing(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls == self.number:
            raise OSError(self.error, os.strerror(self.error))
        return getattr(os, self.call)(*arguments, **named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, before it strikes; where its call never comes, it does not."""

    kind: str
    """`killed`, `fails`, `no answer` or `file error`."""
    call: str
    number: int
    is_after: bool = False
    """The call was made first."""
    error: int = 0

    def __str__(self) -> str:
        when = "after" if self.is_after else "at"
        code = f" {errno.errorcode[self.error]}" if self.error else ""
        return f"{self.kind}{code} {when} {self.call} {self.number}"

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """The runs of this process meet it; a killed one's death ends here."""
        name = f"{self.call} {self.number}"
        event_source = {
            "killed": killed(name, after=self.is_after),
            "fails": failing(name, _NO_ANSWER, after=self.is_after),
            "file error": left_alone,
        }[self.kind]
        with pytest.MonkeyPatch.context() as patch, watched(event_source):
            if self.error:
                proxy = FaultyOs(self.call, self.number, self.error)
                patch.setattr(local_store, "os", proxy)
            try:
                yield
            except Killed:
                return


def drawn_fault(rng: Random) -> Fault:
    """Any of them."""
    kind = rng.choice(("killed", "killed", "fails", "file error"))
    if kind == "file error":
        call, error = rng.choice(_SYSTEM_CALLS), rng.choice(_ERRORS)
        return Fault(kind=kind, call=call, number=rng.randint(1, 12), error=error)
    call = rng.choice(_CALLS)
    number = rng.randint(1, 6 if call == "delete" else 3)
    return Fault(kind=kind, call=call, number=number, is_after=rng.random() < 0.5)
