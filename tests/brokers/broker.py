"""One node of a Kafka cluster: a JVM with tiered storage in a folder, ended with this process."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.oracle.kafka_jars import broker_class_path, tool

QUICK_START: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m")
"""Without them a start takes 5.0 s of CPU time, with them 2.7 s."""

_ENDED_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL")
"""The kernel kills the JVM when the thread ends that started it, however that comes."""

_STARTER: Final = ThreadPoolExecutor(1)
"""Its thread lives as long as the process; one of a run's own pool, where a test restarts a broker,
does not."""

_READY: Final = (r"Kafka Server started", r"Initialized .*resources successfully")
"""What a broker logs once it serves clients, and once it can read and write the events of its
remote segments. The second comes later."""

_LOGGED: Final = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    *(
        f"-Dorg.slf4j.simpleLogger.log.{logger}=info"
        for logger in ("kafka.server.KafkaRaftServer", "org.apache.kafka.server.log.remote")
    ),
)

_KEY_SETS: Final = "sasl.oauthbearer.jwks.endpoint.url"
_ALLOWED_URLS: Final = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls"
"""Kafka 4 reads keys for tokens from no other URL."""

_STARTED_WITHIN_S: Final = 120
_STOPPED_WITHIN_S: Final = 30


class BrokerFailed(Exception):
    """A broker did not start, or did not do what was asked; the message has the end of its log."""


class Broker:
    """A broker of one version. The folder has its settings, its log and its data."""

    def __init__(self, version: str, folder: Path, settings: Mapping[str, str]) -> None:
        self.version = version
        self.data = folder / "data"
        self.log = folder / "broker.log"
        self.settings = dict(settings) | {"log.dirs": str(self.data)}
        self._file = folder / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The JVM's process id; None: it does not run."""
        return None if self._process is None else self._process.pid

    def start(self, cluster_id: str) -> None:
        """Start the JVM, and wait until it serves; a new folder is formatted first."""
        self.data.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={value}\n" for name, value in self.settings.items()]
        self._file.write_text("".join(lines), encoding="utf-8")
        urls = [url for name, url in self.settings.items() if name.endswith(_KEY_SETS)]
        allowed = [f"{_ALLOWED_URLS}={','.join(urls)}"] if urls else []
        java = [tool("java"), *QUICK_START, *allowed, "-cp", broker_class_path(self.version)]
        if not (self.data / "meta.properties").exists():
            self._format(java, cluster_id)
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = _STARTER.submit(
                subprocess.Popen,
                [*_ENDED_WITH_US, *java, *_LOGGED, "kafka.Kafka", str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            ).result()
        self.wait(lambda: self._is_ready(before), "the broker to start", _STARTED_WITHIN_S)

    def _format(self, java: list[str], cluster_id: str) -> None:
        arguments = ["format", f"--cluster-id={cluster_id}", "--config", str(self._file)]
        done = subprocess.run(
            [*java, *_LOGGED, "kafka.tools.StorageTool", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BrokerFailed(f"the storage was not formatted\n{done.stdout}{done.stderr}")

    def _is_ready(self, position: int) -> bool:
        with self.log.open("rb") as log:
            log.seek(position)
            text = log.read().decode(errors="replace")
        return all(re.search(pattern, text) for pattern in _READY)

    def stop(self) -> None:
        """Shut the broker down in order: it hands its leaderships over and closes its logs."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        """End the JVM at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def signal(self, signum: signal.Signals) -> None:
        """Send the JVM a signal; does nothing if it does not run."""
        if self._process is not None:
            self._process.send_signal(signum)

    def is_halted(self) -> bool:
        """Whether no thread of the JVM runs: a signal reaches them one after the other."""
        if self._process is None:
            return True
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/stat")
        try:
            return all(stat.read_text().rpartition(") ")[2][0] in "TZ" for stat in threads)
        except OSError:  # One has just ended.
            return False

    def wait(self, condition: Callable[[], bool], what: str, within_s: float = 60) -> None:
        """Wait until `condition` holds; raise `BrokerFailed` if the JVM ends or time is up."""
        deadline = time.monotonic() + within_s
        while not condition():
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                why = "the broker ended" if ended else f"{within_s:.0f} s were too short"
                raise BrokerFailed(f"waited for {what}: {why}\n{self.log_tail()}")
            time.sleep(0.05)

    def log_tail(self, lines: int = 60) -> str:
        """The path of the log and its last lines; it has warnings, and what became of uploads."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join((f"{self.log}:", *text.splitlines()[-lines:]))
