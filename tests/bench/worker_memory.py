"""The peak memory of a run's processes: Spark's Python workers, and its JVM."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from pathlib import Path
from typing import Final

_INTERVAL_S: Final = 0.05


class ProcessPeaks:
    """Samples the anonymous memory of this process's descendants while a block runs."""

    def __enter__(self) -> ProcessPeaks:
        self._peak_bytes: dict[tuple[str, int], int] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def mib(self, name: str) -> int:
        """The peak of the largest process whose command's name starts with `name`; 0 if none."""
        peaks = [peak for place, peak in self._peak_bytes.items() if place[0].startswith(name)]
        return round(max(peaks, default=0) / 2**20)

    def _watch(self) -> None:
        while not self._is_over.wait(_INTERVAL_S):
            for name, process, size in _descendants():
                place = (name, process)
                self._peak_bytes[place] = max(self._peak_bytes.get(place, 0), size)


def _descendants() -> list[tuple[str, int, int]]:
    """(command, process, bytes of anonymous memory) of this process's descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    found: dict[int, tuple[str, int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            lines = (entry / "status").read_text().splitlines()
        except OSError:  # It has ended.
            continue
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        size = int(fields["RssAnon"].split()[0]) * 1024 if "RssAnon" in fields else 0
        children[int(fields["PPid"])].append(int(entry.name))
        found[int(entry.name)] = (fields["Name"], size)
    below, waiting = [], [os.getpid()]
    while waiting:
        for child in children[waiting.pop()]:
            below.append((found[child][0], child, found[child][1]))
            waiting.append(child)
    return below
