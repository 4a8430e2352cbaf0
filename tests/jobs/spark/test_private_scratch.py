"""Other users can exchange none of the folders that a local session's JVM gets from the driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.commands import ROOT

START: Final = """
import sys, tempfile
from pyspark.sql import SparkSession
from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.spark.session import tierfold_session
settings = dict(pair.split("=", 1) for pair in sys.argv[1:])
try:
    tierfold_session(SparkSession.builder.config(map=settings))
except BadSettings as error:
    print(error)
print("afterwards", tempfile.gettempdir())
"""

LAUNCHER: Final = """#!/bin/sh
echo "connection $_PYSPARK_DRIVER_CONN_INFO_PATH"
for argument; do echo "argument $argument"; done
exit 1
"""
"""In the place of Spark's: it says what it would start the JVM with."""


def started(folder: Path, *settings: str, **variables: str) -> list[str]:
    """What a session that is started with `LAUNCHER` prints, and the error that ends it."""
    launcher = folder / "spark" / "bin" / "spark-submit"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", START, *settings],
        cwd=ROOT,
        env={**os.environ, "SPARK_HOME": str(folder / "spark"), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("is_open", [True, False])
def test_the_jvms_secret_is_not_kept_where_others_could_exchange_it(
    tmp_path: Path, is_open: bool
) -> None:
    (shared := tmp_path / "shared").mkdir()
    shared.chmod(0o777 if is_open else 0o700)
    lines = started(tmp_path, TMPDIR=str(shared))
    (file,) = (line.removeprefix("connection ") for line in lines if line.startswith("connection "))
    assert Path(file).parents[1] == (Path("/tmp") if is_open else shared)
    assert "Spark's process ended before it answered" in "".join(lines)
    assert lines[-1] == f"afterwards {shared}"


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("spark.driver.extraJavaOptions=-Xss4m",),
        ("spark.driver.extraJavaOptions=-Djava.io.tmpdir=/theirs -Xss4m",),
    ],
)
def test_the_jvm_unpacks_libraries_in_a_private_folder_unless_the_user_names_one(
    tmp_path: Path, settings: tuple[str, ...]
) -> None:
    start = "argument spark.driver.extraJavaOptions="
    (line,) = (line for line in started(tmp_path, *settings) if line.startswith(start))
    options = line.removeprefix(start)
    assert all(setting.partition("=")[2] in options for setting in settings)
    # Java itself, which takes the last of two.
    java = subprocess.run(
        ["java", *options.split(), "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    (folder,) = (line.split(" = ")[1] for line in java.stderr.splitlines() if "io.tmpdir" in line)
    assert folder == "/theirs" if "/theirs" in options else "/tierfold-spark-" in folder


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("is_variable", [True, False])
def test_a_scratch_folder_of_the_users_that_others_could_exchange_is_refused(
    tmp_path: Path, is_open: bool, is_variable: bool
) -> None:
    (shared := tmp_path / "shared").mkdir()
    shared.chmod(0o777 if is_open else 0o1777)
    folders = f"{tmp_path},{shared}"
    if is_variable:
        lines = started(tmp_path, SPARK_LOCAL_DIRS=folders)
    else:
        lines = started(tmp_path, f"spark.local.dir={folders}")
    refusal = f"Spark's scratch folder {shared} is not safe: others may write to {shared}"
    assert (refusal in "".join(lines)) is is_open
    assert any(line.startswith("connection") for line in lines) is not is_open
