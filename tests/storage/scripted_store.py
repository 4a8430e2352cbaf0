"""The real store in a folder, under a script; rules that corrupt written objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.storage.call_scripts import Call, Rule, Script
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.object_store import ObjectWriter

Corruption = Callable[[Path], None]

_READS: Final = ("list", "list_folders", "exists", "read", "read_range", "unfinished", "free_bytes")


class ScriptedStore(LocalStore):
    """A folder as a store. A write is one call of `open_new`, which ends with the object there, or
    of `copy`.

    A Spark worker gets the store without its script.
    """

    script: Script

    def __init__(self, root: Path, script: Script | None = None) -> None:
        super().__init__(root)
        object.__setattr__(self, "script", script or Script())
        self.script.attach(self, super(), (*_READS, "delete", "copy"))

    def __reduce__(self) -> tuple[type[LocalStore], tuple[Path]]:
        return LocalStore, (self.root,)

    @contextmanager
    def open_new(self, key: str) -> Iterator[ObjectWriter]:
        with self.script.during("open_new", key), super().open_new(key) as writer:
            yield writer

    @property
    def read_bytes(self) -> dict[str, int]:
        """The bytes read of each object."""
        found: Counter[str] = Counter()
        for call in self.script.of("read", "read_range"):
            found[call.arguments[0]] += len(call.result)
        return dict(found)

    def of_part(self, part: str) -> int:
        """The bytes read of all objects of that suffix."""
        return sum(size for key, size in self.read_bytes.items() if key.endswith(f".{part}"))


def rots(root: Path, suffix: str, corrupt: Corruption) -> Rule:
    """Objects of that suffix are corrupted right after they are written."""

    def corrupted(call: Call) -> None:
        corrupt(root / call.arguments[0])

    return Rule(step="open_new", after=corrupted).where(lambda key: key.endswith(f".{suffix}"))


def _turned(content: bytes) -> bytes:
    """Flip one bit in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def _left(change: Callable[[bytes], bytes]) -> Corruption:
    def corrupt(path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    return corrupt


CORRUPTIONS: Final[dict[str, Corruption]] = {
    "a bit turned": _left(_turned),
    "shorter": _left(lambda content: content[:-1]),
    "longer": _left(lambda content: content + b"\0"),
    "empty": _left(lambda _: b""),
    "gone": Path.unlink,
}
"""Corruptions of an object, by name."""
