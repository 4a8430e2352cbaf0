"""Debian's Prometheus and Pushgateway, as `make monitoring` unpacks them; tests run them."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

ROOT: Final = Path(__file__).resolve().parents[2]
_BIN: Final = ROOT / "build" / "monitoring" / "usr" / "bin"
PROMETHEUS: Final = _BIN / "prometheus"
PROMTOOL: Final = _BIN / "promtool"
PUSHGATEWAY: Final = _BIN / "prometheus-pushgateway"

READY_SECONDS: Final = 60


def missing_programs() -> tuple[str, ...]:
    """The programs that are not there."""
    found = (PROMETHEUS, PROMTOOL, PUSHGATEWAY)
    return tuple(path.name for path in found if not path.exists())


def free_port() -> int:
    """A port that nothing listens to."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@contextmanager
def running(arguments: Sequence[str | Path], ready_url: str, log: Path) -> Iterator[None]:
    """Run a program until the end of the context, from when its URL answers."""
    with (
        log.open("wb") as out,
        subprocess.Popen(arguments, stdout=out, stderr=subprocess.STDOUT) as process,
    ):
        try:
            until(lambda: _answers(ready_url), log)
            yield
        finally:
            process.terminate()


def until(is_done: Callable[[], bool], log: Path) -> None:
    """Wait until it is; fails with the program's log."""
    ends_s = time.monotonic() + READY_SECONDS
    while not is_done():
        assert time.monotonic() < ends_s, log.read_text()
        time.sleep(0.1)


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
