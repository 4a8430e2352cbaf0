"""The sign of life of this run, and what the signs of other runs say.

    begin   writes the first sign, and from then on one every minute, in a thread of its own
    seen    writes a sign, so that those of others can be compared with it, and reads them
    end     deletes the last sign

A sign is a hint, so a failure stops nothing. It is logged once, and only if the run holds a
partition: without one it needs no sign.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Collection
from threading import Event, Lock, Thread
from typing import Final, TypeVar

from tierfold.compaction.commits.holders import (
    NO_SIGNS,
    SIGN_EVERY_MS,
    Claim,
    IfHeld,
    SignsSeen,
    Skip,
    Wait,
    decided,
)
from tierfold.compaction.model.redaction import redacted
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.storage.catalog.sign_folder import newest
from tierfold.storage.clock import now_ms

_log: Final = logging.getLogger(__name__)

_T = TypeVar("_T")

KEPT_MS: Final = 24 * 60 * 60 * 1000
"""The age from which a run deletes the signs of others: those runs have died long ago."""

ENDS_WITHIN_S: Final = 5
"""How long the end of a run waits for a sign that is being written."""


class SignOfLife:
    """This run's sign of life; as a context manager, it begins and ends."""

    def __init__(self, context: RunContext, verb: str) -> None:
        self._signs = context.signs
        self._run = context.run
        self._if_held = context.if_held
        self._content: dict[str, object] = {
            "run": context.run,
            "verb": verb,
            "host": socket.gethostname(),
            "process": os.getpid(),
            "started_at": timestamp_text(now_ms()),
        }
        self._number = 0
        self._left: set[int] = set()
        """Numbers of signs that may be in the store: the answer to a write may be lost."""
        self._lock = Lock()
        self._ended = Event()
        self._failure = ""
        """The first one; empty: there was none."""
        self._holds = False
        self._thread: Thread | None = None

    def __enter__(self) -> SignOfLife:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        """Write the first sign, delete old ones of others, and go on writing one every minute."""
        self._tried(self._begun)
        self._thread = Thread(target=self._go_on, name="sign of life", daemon=True)
        self._thread.start()

    def seen(self, runs: Collection[str]) -> SignsSeen:
        """Write a sign, and return those of `runs` that have one; none if that fails."""
        with self._lock:
            return self._tried(lambda: self._seen(frozenset(runs))) or NO_SIGNS

    def not_claimed(self, rows: Collection[PartitionState]) -> dict[PartitionKey, Skip | Wait]:
        """Return the rows that may not be claimed now, and the live runs that hold them.

        Signs are read only if they decide.
        """
        others = {row.owner_run for row in rows} - {"", self._run}
        is_needed = others and self._if_held is not IfHeld.TAKE_OVER
        seen = self.seen(others) if is_needed else NO_SIGNS
        found = {
            row.key: decided(row.owner_run, self._run, seen, self._if_held) for row in rows
        }
        return {key: one for key, one in found.items() if not isinstance(one, Claim)}

    def holds(self) -> None:
        """Note that the run holds a partition: a failure matters now, also an earlier one."""
        if not self._holds:
            self._holds = True
            self._warn()

    def end(self) -> None:
        """Write no more, and delete the last sign."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(ENDS_WITHIN_S)
        if self._lock.acquire(timeout=ENDS_WITHIN_S):
            try:
                self._tried(lambda: self._delete(self._left))
            finally:
                self._lock.release()

    def _go_on(self) -> None:
        while not self._ended.wait(SIGN_EVERY_MS / 1000):
            with self._lock:
                self._tried(self._write)

    def _begun(self) -> None:
        seen = self._seen(frozenset())
        if seen.own_ms is not None:
            self._signs.clean_up(seen.own_ms - KEPT_MS)

    def _seen(self, runs: frozenset[str]) -> SignsSeen:
        self._write()
        listed = self._signs.listed()
        own = (one for one in listed if (one.run, one.number) == (self._run, self._number))
        others = newest([one for one in listed if one.run in runs])
        return SignsSeen(
            own_ms=next((one.modified_ms for one in own), None),
            by_run={run: self._signs.read(sign) for run, sign in others.items()},
        )

    def _write(self) -> None:
        """Write the next sign, then delete those before it."""
        before = self._left.copy()
        # Also after a failure: the number may be taken.
        self._number += 1
        self._left.add(self._number)
        self._signs.write(self._run, self._number, self._content)
        self._delete(before)

    def _delete(self, numbers: Collection[int]) -> None:
        for number in sorted(numbers):
            self._signs.remove(self._run, number)
            self._left.discard(number)

    def _tried(self, act: Callable[[], _T]) -> _T | None:
        """Return what `act` returns; None if it fails, which is logged once."""
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - whatever the library of the store raises
            if not self._failure:
                self._failure = redacted(str(error))
                self._warn()
            return None

    def _warn(self) -> None:
        if self._holds and self._failure:
            _log.warning(
                "This run cannot write or compare signs of life, so other runs may take its"
                " partitions over, or it theirs; no data are at risk: %s",
                self._failure,
            )
