"""A session starts as configured; without a usable Java, the message says what to install."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.jobs.commands import ON_SPARK, ROOT, script, users_environment
from tests.jobs.tiers import sample_copy

TOO_OLD = "#!/bin/sh\necho UnsupportedClassVersionError >&2\nexit 1\n"


QUICK_START = ("NUMBA_CPU_NAME", "SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS")
"""Variables that only save time: compiled kernels, and classes of Spark's JVM."""

JAVA_11 = "#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\nexit 1\n"


def compact(
    tier: Path, path: str, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Compact in an environment of only `path`, HOME, `variables` and `QUICK_START`."""
    command = ("compact", str(tier), "--set", "cleanup.policy=compact", *arguments)
    quick = {name: os.environ[name] for name in QUICK_START if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "tierfold", *command],
        cwd=ROOT,
        env={"PATH": path, "HOME": os.environ["HOME"], **quick, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("java", "what"),
    [
        pytest.param(None, "no Java runtime", marks=pytest.mark.soak),
        (TOO_OLD, "Java could not be started"),
        pytest.param(
            JAVA_11, "bin/java is Java 11, and Spark needs 17 or newer", marks=pytest.mark.soak
        ),
    ],
)
def test_without_a_usable_java_one_sentence_names_what_to_install(
    tmp_path: Path, java: str | None, what: str
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    # Spark's launcher is a bash script: only Java should be missing or broken.
    for name in ("bash", "env", "dirname", "basename", "nice", "ps", "uname", "sh", "cat"):
        found = next(p for p in (Path("/bin") / name, Path("/usr/bin") / name) if p.exists())
        (tools / name).symlink_to(found)
    if java is not None:
        (tools / "java").write_text(java)
        (tools / "java").chmod(0o755)
    tier = sample_copy(tmp_path / "tier")
    done = compact(tier, str(tools))
    assert done.returncode == 2, done.stderr
    assert what in done.stderr
    assert "Install a Java runtime 17 or newer" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tier / "_tierfold").exists()
    assert "For a small tier, --engine local needs no Java." in done.stderr
    assert compact(tier, str(tools), "--engine", "local").returncode == 0


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    tier = sample_copy(tmp_path / "tier")
    done = compact(tier, os.environ["PATH"], JAVA_HOME=str(tmp_path))
    assert done.returncode == 2, done.stderr
    assert f"JAVA_HOME is {tmp_path}, where there is no bin/java" in done.stderr


@pytest.mark.soak
def test_where_java_is_there_it_is_not_java_that_must_be_installed(tmp_path: Path) -> None:
    tier = sample_copy(tmp_path / "tier")
    options = {"JAVA_TOOL_OPTIONS": "-XX:NoSuchOption"}
    done = compact(tier, os.environ["PATH"], **options)
    assert done.returncode == 2, done.stderr
    assert "Spark's process ended before it answered, although" in done.stderr
    assert "NoSuchOption" in done.stderr
    assert "Install" not in done.stderr
    assert not (tier / "_tierfold").exists()
    assert "For a small tier, --engine local needs no Java." in done.stderr
    local = compact(tier, os.environ["PATH"], "--engine", "local", **options)
    assert local.returncode == 0, local.stderr


def test_a_name_of_the_user_that_does_not_resolve_is_what_the_message_names(tmp_path: Path) -> None:
    tier = sample_copy(tmp_path / "tier")
    # RFC 6761: no name in .invalid ever resolves.
    done = compact(tier, os.environ["PATH"], SPARK_LOCAL_IP="here.invalid")
    assert done.returncode == 2, done.stderr
    said = "SPARK_LOCAL_IP is here.invalid, a host name that does not resolve. Unset it, or give an"
    assert f"{said} address of this machine, such as 127.0.0.1." in done.stderr
    assert "Install" not in done.stderr
    assert not (tier / "_tierfold").exists()


@pytest.mark.soak
def test_an_address_of_the_user_is_taken(tmp_path: Path) -> None:
    done = compact(sample_copy(tmp_path / "tier"), os.environ["PATH"], SPARK_LOCAL_IP="127.0.0.1")
    assert done.returncode == 0, done.stderr


PLANTED = "import pathlib\npathlib.Path('planted').touch()\nraise ImportError\n"


@pytest.mark.soak
def test_a_local_session_looks_up_no_host_name_and_imports_nothing_from_a_shared_folder(
    tmp_path: Path,
) -> None:
    (hosts := tmp_path / "hosts").touch()
    unresolved = {"JAVA_TOOL_OPTIONS": f"-Djdk.net.hosts.file={hosts}"}
    (shared := tmp_path / "shared").mkdir()
    shared.chmod(0o1777)
    for name in ("numba.py", "pyarrow.py", "tierfold.py"):
        (shared / name).write_text(PLANTED)
    tier = sample_copy(tmp_path / "tier")
    done = subprocess.run(
        [script("tierfold"), "compact", tier, "--set", "cleanup.policy=compact", *ON_SPARK],
        cwd=shared,
        env=users_environment() | unresolved,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (shared / "planted").exists()


def test_our_daemon_forks_the_workers_and_they_use_a_unix_socket(spark: SparkSession) -> None:
    def inspect(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            parent = Path(f"/proc/{os.getppid()}/cmdline").read_text()
            working = sys.modules["pyspark.daemon"].worker
            found = {
                "over_unix_socket": os.environ["PYTHON_UNIX_DOMAIN_ENABLED"],
                "parent": parent.replace("\0", " "),
                "worker": f"{working.__module__}.{working.__name__}",
            }
            yield pa.RecordBatch.from_pylist([found])

    inspected = spark.range(0, 1, 1, 1).mapInArrow(
        inspect, "over_unix_socket string, parent string, worker string"
    )
    (found,) = inspected.collect()
    assert found.over_unix_socket == "True"
    assert " -m tierfold.jobs.spark.worker_daemon " in found.parent
    assert found.worker == "__main__.until_hung_up"


def test_a_setting_of_the_user_says_how_many_tasks_a_query_shuffles_to(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_setting_of_the_user_replaces_one_for_this_machine(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.memory") == "2047m"


def test_a_local_session_retries_a_task_whose_worker_dies(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[*,4]"


def test_other_users_of_the_machine_cannot_talk_to_a_local_session(spark: SparkSession) -> None:
    # Without a secret, plain PySpark of another user read shuffled records and stopped the run.
    security = spark.sparkContext._jvm.org.apache.spark.SparkEnv.get().securityManager()
    assert security.isAuthenticationEnabled()
    assert len(security.getSecretKey()) >= 32
