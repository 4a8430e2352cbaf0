"""A simulated disk: a power cut keeps what was synced, and any part of the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pytest

Names: TypeAlias = dict[Path, dict[str, tuple[int, int]]]
"""Per folder its files and folders: inode and time of the last write, because inodes are reused."""


@dataclass(slots=True)
class Disk:
    """The files below a durable folder that `os.fsync` has made durable."""

    root: Path
    contents: dict[tuple[int, int], bytes] = field(default_factory=dict)
    names: Names = field(default_factory=dict)

    def fsync(self, descriptor: int) -> None:
        """Replace the system call: make a file or folder durable."""
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            self.names[path] = _entries(path)
        else:
            self.contents[_identity(path)] = path.read_bytes()

    def left(self, image: Path) -> Path:
        """A copy of the root in `image` with only what was synced."""
        self._write(self.root, image, self.names)
        return image

    def may_be_left(self, image: Path) -> Iterator[Path]:
        """Copies in which one name more, or one less, than was synced reached the disk."""
        for number, (folder, name) in enumerate(self._unsynced()):
            now = _entries(folder)
            names = dict(self.names.get(folder, {}))
            if name in now:
                names[name] = now[name]
            else:
                del names[name]
            place = image / str(number)
            self._write(self.root, place, {**self.names, folder: names})
            yield place

    def _unsynced(self) -> list[tuple[Path, str]]:
        folders = [self.root, *(path for path in self.root.rglob("*") if path.is_dir())]
        return [
            (folder, name)
            for folder in folders
            for name in sorted(_entries(folder).keys() | self.names.get(folder, {}).keys())
            if _entries(folder).get(name) != self.names.get(folder, {}).get(name)
        ]

    def _write(self, folder: Path, image: Path, names: Names) -> None:
        image.mkdir(parents=True)
        for name, identity in names.get(folder, {}).items():
            if (folder / name).is_dir():
                self._write(folder / name, image / name, names)
            else:
                (image / name).write_bytes(self.contents.get(identity, b""))


def _entries(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        path.name: (path.stat().st_ino, 0) if path.is_dir() else _identity(path)
        for path in folder.iterdir()
    }


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def watched(patch: pytest.MonkeyPatch, disk: Disk, look: Callable[[], None] = lambda: None) -> None:
    """Redirect syncs to `disk` from here on, and call `look` before each."""

    def fsync(descriptor: int) -> None:
        look()
        disk.fsync(descriptor)

    patch.setattr(os, "fsync", fsync)
