"""A real standalone Spark cluster on this machine: a master and workers of one core each.

It writes to one folder only, and ends every process that it started.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from tests.end_to_end.processes import (
    PATIENCE_S,
    Application,
    awaited,
    bare_environment,
    living,
    signalled,
    started,
    with_descendants,
)
from tests.jobs.commands import ROOT
from tests.spark_classes import jvm_options
from tierfold.jobs.spark.session import JVM_OPTIONS

SPARK: Final = Path(pyspark.__file__).parent
MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
PAGE: Final = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
SHOWN: Final = dict(re.findall(r"--conf (\S+?)=(\S+)", PAGE))
SHOWN_FOLDER: Final = "".join(re.findall(r"--archives [^\s#]+(#\S+)", PAGE))
"""The name of the folder into which the page's command unpacks the archive."""
PYTHON: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
"""A name, as on the page: the driver finds its own interpreter by it, and workers the bare one.

Spark plans a Python data source on the driver with the interpreter of that name.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A master or a worker in a session of its own, and its log."""

    process: subprocess.Popen[bytes]
    log: Path

    def says(self, pattern: str) -> re.Match[str]:
        """Wait for the first line that matches, and return the match."""

        def look() -> re.Match[str] | None:
            text = self.log.read_text(encoding="utf-8", errors="replace")
            if self.process.poll() is not None:
                raise RuntimeError(f"it has ended:\n{text}")
            return re.search(pattern, text)

        return awaited(pattern, look)

    def family(self) -> set[int]:
        """Its process and all descendants: executors and their Python workers."""
        return with_descendants(self.process.pid)

    def kill(self) -> None:
        """Kill the daemon and its executors at once, as a power cut does."""
        family = self.family()
        for pid in family:
            signalled(pid, signal.SIGKILL)
        self.process.wait()
        awaited("the killed processes", lambda: None if family & living() else True)

    def stop(self) -> None:
        """Terminate the daemon; kill the processes that do not end."""
        family = self.family()
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
            awaited("the executors", lambda: None if family & living() else True)
        except (subprocess.TimeoutExpired, TimeoutError):
            for pid in family & living():
                signalled(pid, signal.SIGKILL)
            self.process.wait()


class Cluster:
    """A master and its workers; `spark_cluster` runs one."""

    def __init__(self, folder: Path, bare_python: Path) -> None:
        self.folder = folder
        self._bare_python = bare_python
        self._environment = _environment(folder)
        self._daemons: list[Daemon] = []
        self._url = ""
        self._submitted = 0

    def start(self) -> None:
        """Start a master and two workers."""
        master = self._started("master", MASTER, "--host", "127.0.0.1", "--port", "0")
        self._url = master.says(r"Starting Spark master at (spark://\S+)")[1]
        for _ in range(2):
            self.add_worker()

    @property
    def workers(self) -> list[Daemon]:
        """The running workers."""
        return [daemon for daemon in self._daemons[1:] if daemon.process.poll() is None]

    def add_worker(self) -> Daemon:
        """Start a worker with one core, 1 GB and its own host name, without tierfold installed.

        Returns when the master has registered it.
        """
        name, host = f"worker-{len(self._daemons)}", f"127.0.0.{len(self._daemons) + 1}"
        options = ("--host", host, "--cores", "1", "--memory", "1g")
        where = ("--work-dir", str(self.folder / name))
        worker = self._started(name, WORKER, *options, *where, self._url)
        worker.says("Successfully registered with master")
        return worker

    def submitted(self, archive: Path, *application: str | Path) -> Application:
        """Run the `spark-submit` of docs/cluster.md, with paths and addresses filled in."""
        options = SHOWN | {
            "spark.pyspark.python": PYTHON,
            "spark.pyspark.driver.python": sys.executable,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.extraJavaOptions": jvm_options(),
        }
        confs = [f"--conf={name}={value}" for name, value in options.items()]
        place = ("--master", self._url, "--archives", f"{archive}{SHOWN_FOLDER}")
        self._submitted += 1
        command = [SPARK / "bin" / "spark-submit", *place, *confs, *application]
        name = f"application-{self._submitted}"
        return started(command, self.folder, name, _first(sys.executable, self._environment))

    def stop(self) -> None:
        """Stop the workers first, so that none searches for its master."""
        for daemon in reversed(self._daemons):
            if daemon.process.poll() is None:
                daemon.stop()

    def _started(self, name: str, *command: str) -> Daemon:
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [SPARK / "bin" / "spark-class", *command, "--webui-port", "0"],
                cwd=self.folder,
                env=_first(self._bare_python, self._environment),
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._daemons.append(Daemon(process=process, log=log))
        return self._daemons[-1]


@contextmanager
def spark_cluster(folder: Path, bare_python: Path) -> Iterator[Cluster]:
    """A running master with two workers, whose executors use `bare_python`."""
    cluster = Cluster(folder, bare_python)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _first(python: str | Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with the interpreter's folder first on the PATH."""
    path = os.pathsep.join((str(Path(python).parent), environment["PATH"]))
    return {**environment, "PATH": path}


def bare_python(folder: Path) -> Path:
    """An interpreter of the same version, without any packages."""
    make = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(make, check=True)
    return folder / "bin" / "python"


def _environment(folder: Path) -> dict[str, str]:
    """The cluster's environment variables, which direct all writes to `folder`."""
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    return bare_environment() | {
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": jvm_options(),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LAUNCHER_OPTS": JVM_OPTIONS,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_SUBMIT_OPTS": jvm_options(),
        "TMPDIR": str(scratch),
    }
