"""Somebody who makes an archive of a log directory as docs/migration.md says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, Final

from tests.brokers.kafka_page import commands_of, settings_of
from tests.jobs.commands import CLOCK, Ran, tierfold
from tests.jobs.log_dirs import WrittenLogDir
from tests.jobs.tiers import key_of, records_in
from tests.storage.live_segments import NOW_MS, data

ORDERS: Final = key_of("orders")
SOON: Final = ("--set", "min.cleanable.dirty.ratio=0")
ARCHIVE: Final = "To an archive"
_HOUR_MS: Final = 3_600_000


def cleaned_log(folder: Path) -> WrittenLogDir:
    """Two segments, in which a broker's cleaner has left holes."""
    logs = WrittenLogDir(folder)
    logs.begin(ORDERS)
    logs.roll(ORDERS, [data(2, (b"a", b"1"), (b"b", b"1"))], 9)
    logs.roll(ORDERS, [data(12, (b"a", b"2"), (b"c", b"2"))], 19)
    return logs


class Archivist:
    """Somebody who types what the page says of an archive, beside this log directory."""

    def __init__(self, logs: Path, folder: Path, topic: str = "orders") -> None:
        self.now_ms = NOW_MS + 24 * _HOUR_MS
        (folder / "archive").mkdir()
        self._topic = topic
        self._places = {
            "/var/lib/kafka/data": str(logs),
            "/mnt/archive": str(folder / "archive"),
            "archive.toml": str(folder / "archive.toml"),
        }
        (settings,) = settings_of(ARCHIVE)
        self.writes(settings)

    def here(self, text: str) -> str:
        """The page's text with the names of this machine."""
        for name, place in self._places.items():
            text = re.sub(rf"(?<![\w/]){re.escape(name)}", place, text)
        return re.sub(r"(?<![\w/])orders\b", self._topic, text)

    def writes(self, text: str) -> None:
        """Write a settings file of the page."""
        Path(self._places["archive.toml"]).write_text(self.here(text), encoding="utf-8")

    def types(self, command: str, *more: str) -> Ran:
        """Run a command of the page, with more arguments, and nothing fails."""
        program, *words = shlex.split(self.here(command))
        assert program == "tierfold"
        ran = tierfold(*words, *more, CLOCK, str(self.now_ms))
        assert ran.code == 0, ran
        return ran

    def archives(self) -> None:
        """Do what the page says to make an archive, or to bring it up to date."""
        _, upload, compact, verify = commands_of(ARCHIVE)
        for command, more in ((upload, ()), (compact, SOON), (verify, ())):
            self.types(command, *more)

    def values(self) -> dict[bytes | None, bytes | None]:
        """The latest value of each key in the archive."""
        logs = [one["log"] for one in self.row()["segments"]]
        return {key: value for _, key, value in records_in(logs)}

    def row(self) -> dict[str, Any]:
        """What `status` says of the partition."""
        words = ("status", self._places["/mnt/archive"], "--json", "--segments")
        (entry,) = tierfold(*words).entries
        return entry
