"""Faults while a verb runs: its process is killed, a call fails, or a file cannot be read.

A script intercepts calls to the store and the catalog. A proxy of `os` raises operating system
errors in the real store.
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

from tests.jobs.scripted_runs import scripted
from tests.storage.call_scripts import Killed, fails, killed
from tierfold.storage.tiers import file_ranges, local_store

_CALLS: Final = ("list", "look", "claim", "commit", "commit", "delete", "delete", "unfinished")
_SYSTEM_CALLS: Final = ("open", "preadv", "scandir", "link", "fsync")
_ERRORS: Final = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.ESTALE)


@dataclass(slots=True)
class FaultyOs:
    """The module `os`, in which one call fails once."""

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
    """One fault at a numbered call; a verb that makes fewer calls runs without it."""

    kind: str
    """`killed`, `fails` or `file error`."""
    call: str
    number: int
    is_after: bool = False
    """The call takes effect first."""
    error: int = 0

    def __str__(self) -> str:
        when = "after" if self.is_after else "at"
        code = f" {errno.errorcode[self.error]}" if self.error else ""
        return f"{self.kind}{code} {when} {self.call} {self.number}"

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Apply the fault to verbs in this process; if one is killed, the block just ends."""
        step = f"{self.call} {self.number}"
        rules = {
            "killed": [killed(step, is_done=self.is_after)],
            "fails": [fails(step, is_done=self.is_after)],
            "file error": [],
        }[self.kind]
        with pytest.MonkeyPatch.context() as patch, scripted(*rules):
            if self.error:
                proxy = FaultyOs(self.call, self.number, self.error)
                for module in (file_ranges, local_store):
                    patch.setattr(module, "os", proxy)
            try:
                yield
            except Killed:
                return


def drawn_fault(rng: Random) -> Fault:
    """Draw a fault."""
    kind = rng.choice(("killed", "killed", "fails", "file error"))
    if kind == "file error":
        call, error = rng.choice(_SYSTEM_CALLS), rng.choice(_ERRORS)
        return Fault(kind=kind, call=call, number=rng.randint(1, 12), error=error)
    call = rng.choice(_CALLS)
    number = rng.randint(1, 6 if call == "delete" else 3)
    return Fault(kind=kind, call=call, number=number, is_after=rng.random() < 0.5)
