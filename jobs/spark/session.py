"""The Spark session and all its settings.

Spark's defaults suit large SQL jobs: 200 shuffle partitions, adaptive merging of small ones, a web
UI. Here a row is a packed block, rows are assigned to tasks by bytes beforehand, and a small job
should not wait for a web server.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.context.stopping import check, deferred, signals_kept, under_spark_submit
from tierfold.jobs.spark import worker_daemon
from tierfold.jobs.spark.disk_encryption import IO_ENCRYPTION, encrypts_disk, unencrypted_disk
from tierfold.jobs.spark.failures import cause_of
from tierfold.jobs.spark.java_runtime import LOCAL_IP, LOOPBACK, ensure_java, jvm_exit
from tierfold.jobs.spark.private_sockets import removed_with_jvm, socket_folder
from tierfold.storage.private_folders import foreign_hand, private_folder, private_tempfile

_log: Final = logging.getLogger(__name__)

SPARK_SETTINGS: Final = {
    # Rows are assigned to tasks by bytes; merging "small" shuffle partitions would undo that.
    "spark.sql.adaptive.enabled": "false",
    # A row may hold a block of megabytes, so an Arrow batch has few rows.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4",
    # Up to 200 shuffled partitions, Spark would write a file for each of them in every task, and
    # join them: for 4 GB hundreds, on which ext4 spends a quarter of a CPU second, at times more.
    "spark.shuffle.sort.bypassMergeThreshold": "1",
    # Its machine code is faster than that of Spark's default, ADLER32: with 50 million keys 0.3 CPU
    # seconds of 11.
    "spark.shuffle.checksum.algorithm": "CRC32C",
    # Over TCP each Python task waits 40 ms for an acknowledgement that the kernel delays:
    # 32 empty tasks on two cores took 0.80 s, over a Unix socket 0.09 s.
    # Their folders are private: `tierfold_session` makes the driver's, `worker_daemon` its own.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": worker_daemon.__name__,
    # Spark's default misses names such as fs.azure.account.key and AWS_ACCESS_KEY_ID.
    "spark.redaction.regex": "(?i)secret|passw|token|credential|signature|jaas|sasl"
    "|(access|account|api|private|master|keystore)[._-]?key",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

JVM_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The JVM only plans and moves blocks: its second compiler and its parallel collector cost more
than they gain. Measured on 1 GB of 1 KB values: 1.1 CPU seconds of the JVM with these options, 2.3
without."""

LOCAL_MASTER: Final = "local[*,4]"
"""All cores of this machine, and four attempts at a task, as on a cluster.

With plain `local[*]` a job fails as soon as one worker dies.
"""

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"

SCRATCH: Final = "spark.local.dir"

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"

TASKS_PER_CORE: Final = 8
"""How many tasks a query on a local session shuffles to, per core, if the user has set nothing.

By default Spark makes 200, whatever the size: with 16 the newest records of the sample took 0.4
seconds instead of 1.5, on two cores.
"""

ANY_CPU: Final = {"NUMBA_CPU_NAME": "generic"}
"""For executors and their archive: kernels for every CPU of the platform.

Kernels compiled for one CPU were not measurably faster (scan and rewrite, 100 B values).
"""


def tierfold_session(builder: SparkSession.Builder | None = None) -> SparkSession:
    """Return the session of this process: the existing one, spark-submit's, or a local one.

    A new session keeps the settings of `builder`; with `jobs.sources.catalog_tables.with_delta` it
    can also read the catalog.

    Raises BadSettings if there is no Java runtime, or Spark does not start on it.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    # Otherwise Spark uses the first python on the PATH, which may lack our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if builder is None:
        builder = SparkSession.builder
    builder = builder.appName("tierfold")
    for name, value in SPARK_SETTINGS.items():
        builder = builder.config(name, value)
    folders = [sockets := socket_folder()]
    # This replaces a user's own setting, because that folder may be open to others.
    builder = builder.config("spark.python.unix.domain.socket.dir", sockets)
    if not under_spark_submit():
        folders.append(scratch := private_folder("tierfold-spark-"))
        builder = _local(builder, scratch)
    try:
        session = _started(builder)
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise jvm_exit() from error
    for folder in folders:
        removed_with_jvm(session.sparkContext, folder)
    session.sparkContext.setLogLevel("ERROR")
    _prepare_executors(session.sparkContext)
    if not under_spark_submit():
        _limit_shuffles(session)
    return session


def _started(builder: SparkSession.Builder) -> SparkSession:
    """Start the session with signals deferred; otherwise its JVM could outlive this process.

    The context is created first, because it installs a handler for Ctrl-C, which is then undone.
    Meanwhile PySpark has the JVM's port and its secret in a temporary folder.
    """
    conf = SparkConf().setAll(list(builder._options.items()))  # noqa: SLF001 - no other way
    with deferred():
        with signals_kept(), private_tempfile():
            SparkContext.getOrCreate(conf)
        session = builder.getOrCreate()
    check()
    return session


def announced_session(
    given: SparkSession | None = None, *, has_secrets: bool = False
) -> SparkSession:
    """Return `given`, or else `tierfold_session`; log if a new one starts, which takes a while.

    `has_secrets`: Spark must encrypt what it writes to disks. A new session does, unless
    spark-submit started this process. Raises BadSettings if the session does not.
    """
    builder = None
    if given is None and SparkSession.getActiveSession() is None:
        _log.info("Starting Spark…")
        if has_secrets and not under_spark_submit():
            builder = SparkSession.builder.config(IO_ENCRYPTION, "true")
    session = given or tierfold_session(builder)
    if has_secrets and not encrypts_disk(session):
        raise unencrypted_disk()
    return session


@contextmanager
def spark_answers() -> Iterator[None]:
    """Raise BadSettings, one sentence, if Spark fails before its first task."""
    try:
        yield
    except (Py4JError, OSError, EOFError) as error:
        raise BadSettings(
            f"Spark could not be started, or its process (java) has died ({cause_of(error)})",
            where="Spark",
            remedy="See its messages above. If it was killed, the system's log says why (dmesg;"
            " often memory ran out). Nothing was changed; run again.",
        ) from error


def _prepare_executors(context: SparkContext) -> None:
    """Set the environment of Python on remote executors, unless `spark.executorEnv` sets it."""
    if not str(context.master).startswith("local"):
        for name, value in ANY_CPU.items():
            context.environment.setdefault(name, value)


def _ensure_private_scratch(given: Mapping[str, str]) -> None:
    """Refuse a scratch folder of the user's in which others could exchange Spark's folders.

    Raises BadSettings.
    """
    named = os.environ.get("SPARK_LOCAL_DIRS", given.get(SCRATCH, ""))
    for folder in filter(None, named.split(",")):
        if reason := foreign_hand(Path(folder) / "spark"):
            raise BadSettings(
                f"Spark's scratch folder {folder} is not safe: {reason}",
                where=SCRATCH,
                remedy="Name a folder that only this user can change, or one with the sticky bit.",
            )


def _limit_shuffles(session: SparkSession) -> None:
    """Set `TASKS_PER_CORE`, unless the builder or a file of Spark's settings sets the number."""
    if session.sparkContext.getConf().get(SHUFFLE_PARTITIONS) is None:
        session.conf.set(SHUFFLE_PARTITIONS, TASKS_PER_CORE * (os.cpu_count() or 1))


def _local(builder: SparkSession.Builder, scratch: str) -> SparkSession.Builder:
    """Return `builder` with what spark-submit would set, for this machine, where it has nothing.

    `scratch`: a private folder, for Spark's own ones and for native libraries that the JVM unpacks
    and runs.
    """
    ensure_java()
    # Otherwise Spark looks up the machine's own name, which need not resolve.
    os.environ.setdefault(LOCAL_IP, LOOPBACK)
    # The JVM starts the workers, which must find the same packages as the driver.
    root = str(Path(str(files("tierfold"))).resolve().parent)
    python_path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = root if not python_path else os.pathsep.join((root, python_path))
    if foreign_hand(Path.cwd()):
        # Python would import the workers' modules from there first (`python -m`).
        os.environ["PYTHONSAFEPATH"] = "1"
    log4j = files("tierfold.conf").joinpath("log4j2.properties")
    given = builder._options  # noqa: SLF001 - no other way
    _ensure_private_scratch(given)
    java_options = given.get(_JAVA_OPTIONS, f"{JVM_OPTIONS} -Dlog4j2.configurationFile={log4j}")
    # Our folder is in front: if the user's own options name one, too, Java takes the last.
    builder = builder.config(_JAVA_OPTIONS, f"-Djava.io.tmpdir={scratch} {java_options}")
    settings = {
        SCRATCH: scratch,
        "spark.driver.memory": "2g",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        # Otherwise every user of this machine could read its blocks, stop its executor and send it
        # objects. Spark draws the secret.
        "spark.authenticate": "true",
        # What is shuffled stays on this machine, and keys hardly become smaller: with 50 million of
        # them, lz4 took 1.4 CPU seconds of 13.
        "spark.shuffle.compress": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, given.get(name, value))
    return builder.master(LOCAL_MASTER)
