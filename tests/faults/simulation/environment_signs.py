"""The signs of life of a simulated tier; some are lost, late, deleted, unreadable or forged.

No other actor is scheduled between its calls, and its faults come from an RNG of its own. So a seed
plays as it would without signs, unless a run leaves a partition to another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tests.faults.simulation.environment_store import Stored
from tests.faults.simulation.simulation_scheduler import DAY_MS, MINUTE_MS, Actor, Killed
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.jobs.context.sign_of_life import SignOfLife
from tierfold.storage.catalog.sign_folder import FOLDER
from tierfold.storage.tiers.object_store import Bytes, ObjectEntry, as_view

FAULTS: Final = 0.1
"""The probability that a call fails, unless the scenario is quiet."""

FORGED_MAX: Final = 4
"""Who forges signs for ever also holds partitions for ever."""

FORGED_AGES_MS: Final = (0, 9 * MINUTE_MS, 11 * MINUTE_MS, -5 * MINUTE_MS, -400 * DAY_MS, DAY_MS)


@dataclass(slots=True, kw_only=True)
class Signs:
    """The signs in the store, and what goes wrong with them."""

    rng: Random
    now_ms: Callable[[], int]
    owners: Callable[[], Sequence[str]]
    """The runs that hold partitions, as a forger would name them."""
    is_calm: Callable[[], bool]
    happened: Counter[str]
    stored: dict[str, Stored] = field(default_factory=dict)
    late: list[tuple[str, bytes]] = field(default_factory=list)
    """Signs that arrive later, or never."""
    hearts: list[SignOfLife] = field(default_factory=list)
    """The runs that would write a sign every minute."""
    forged: int = 0

    def put(self, key: str, data: bytes) -> None:
        """Add a sign; raises UnreadableObject if there is one of that name."""
        if key in self.stored:
            raise _error(key, "the name is taken, and nothing is ever overwritten")
        self.stored[key] = Stored(data=data, modified_ms=self.now_ms())

    def fails(self, how: str) -> bool:
        """Draw whether a call fails in this way."""
        if self.is_calm() or self.rng.random() >= FAULTS:
            return False
        self.happened[f"sign {how}"] += 1
        return True

    def disturbed(self) -> None:
        """Let late signs arrive, delete some, spoil some, and forge some."""
        while self.late and self.rng.random() < 0.3:
            key, data = self.late.pop()
            if key not in self.stored:
                self.put(key, data)
        if self.stored and self.fails("deleted"):
            del self.stored[self.rng.choice(sorted(self.stored))]
        if self.stored and self.fails("unreadable"):
            key = self.rng.choice(sorted(self.stored))
            self.stored[key] = Stored(data=b"\0", modified_ms=self.stored[key].modified_ms)
        if self.forged < FORGED_MAX and self.fails("forged"):
            self.forged += 1
            run = self.rng.choice([*self.owners(), "no-one"])
            modified_ms = self.now_ms() - self.rng.choice(FORGED_AGES_MS)
            key = f"{FOLDER}/{run}.{10**6 + self.forged}"
            self.stored[key] = Stored(data=b"{}", modified_ms=modified_ms)

    def beat(self, run: str) -> None:
        """Write the signs that the run's thread would have written by now."""
        for heart in self.hearts:
            if heart._run == run and not heart._ended.is_set():
                heart._tried(heart._write)


@dataclass(frozen=True, slots=True)
class SignStore:
    """The signs as the process of an actor sees them; see `ObjectStore` for its methods."""

    actor: Actor
    signs: Signs
    keeps_empty_folders = False

    def list(self, folder: str) -> Iterator[ObjectEntry]:
        self._ensure_alive()
        self.signs.disturbed()
        if self.signs.fails("not listed"):
            raise _error(folder, "the store rejected the call")
        return iter(
            ObjectEntry(key=key, size_bytes=len(sign.data), modified_ms=sign.modified_ms)
            for key, sign in sorted(self.signs.stored.items())
        )

    def create(self, key: str, data: Bytes) -> None:
        self._ensure_alive()
        content = bytes(as_view(data))
        if self.signs.fails("lost"):
            raise _error(key, "the store rejected the call")
        if self.signs.fails("late"):
            self.signs.late.append((key, content))
            raise _error(key, "the call timed out")
        self.signs.put(key, content)
        if self.signs.fails("unanswered"):
            raise _error(key, "the answer was lost")

    def read_range(self, key: str, start: int, length: int) -> NDArray[np.uint8]:
        self._ensure_alive()
        if key not in self.signs.stored or self.signs.fails("not read"):
            raise _error(key, "it is not there, or no longer")
        return np.frombuffer(self.signs.stored[key].data[start : start + length], np.uint8)

    def delete(self, key: str) -> None:
        self._ensure_alive()
        if self.signs.fails("stays"):
            raise _error(key, "the store rejected the call")
        self.signs.stored.pop(key, None)

    def _ensure_alive(self) -> None:
        if self.actor.is_dead:
            raise Killed


@dataclass(slots=True, kw_only=True)
class Heart:
    """Stands for the thread that writes signs: the scenario says when, see `Signs.beat`."""

    signs: Signs
    target: Callable[[], None]

    def start(self) -> None:
        """Register the run."""
        self.signs.hearts.append(self.target.__self__)  # type: ignore[attr-defined]

    def join(self, _: float) -> None:
        """Nothing runs."""


def _error(key: str, cause: str) -> UnreadableObject:
    return UnreadableObject(cause, where=f"virtual://{key}", remedy="Run again.")
