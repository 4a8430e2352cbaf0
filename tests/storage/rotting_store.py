"""A store that corrupts objects right after they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.object_store import ObjectWriter

Corruption = Callable[[Path], None]


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


class RottingStore(LocalStore):
    """A folder as a store; it corrupts objects of one suffix once they are written."""

    def __init__(self, root: Path, suffix: str, corrupt: Corruption) -> None:
        super().__init__(root)
        object.__setattr__(self, "suffix", suffix)
        object.__setattr__(self, "corrupt", corrupt)

    suffix: str
    corrupt: Corruption

    @contextmanager
    def open_new(self, key: str) -> Iterator[ObjectWriter]:
        with super().open_new(key) as writer:
            yield writer
        if key.endswith(f".{self.suffix}"):
            self.corrupt(Path(self.uri(key)))
