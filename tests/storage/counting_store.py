"""A store that counts the bytes read from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tierfold.storage.tiers.local_store import LocalStore


class CountingStore(LocalStore):
    """A folder as a store; `read_bytes` counts the bytes read of each object."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        object.__setattr__(self, "read_bytes", {})

    read_bytes: dict[str, int]

    def read(self, key: str) -> NDArray[np.uint8]:
        return self._counted(key, super().read(key))

    def read_range(self, key: str, start: int, length: int) -> NDArray[np.uint8]:
        return self._counted(key, super().read_range(key, start, length))

    def of_part(self, part: str) -> int:
        """Bytes read of all objects of that suffix."""
        return sum(size for key, size in self.read_bytes.items() if key.endswith(f".{part}"))

    def _counted(self, key: str, found: NDArray[np.uint8]) -> NDArray[np.uint8]:
        self.read_bytes[key] = self.read_bytes.get(key, 0) + len(found)
        return found
