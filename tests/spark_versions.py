"""Runs tierfold on each version of Spark that it supports, each in a fresh environment.

    python -m tests.spark_versions           all versions
    python -m tests.spark_versions 4.3.0     one of them
    python -m tests.spark_versions --quick   the oldest, and only the tests for which CI has time

An environment is below build/spark, and has the wheel of this checkout. There `scripts/demo`
compacts and verifies the bundled samples. Then the tests run of Spark's engine, `kafka-segments`,
the functions of SQL and, where delta-spark is, the catalog's tables. They run in a copy that has no
tierfold beside it. The last lines are the table of docs/cluster.md.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import requires
from pathlib import Path
from typing import Final

from tests.jobs.commands import ROOT
from tests.tidy.source_tree import FOLDERS

FOLDER: Final = ROOT / "build" / "spark"
TOOLS: Final = ("chispa", "hypothesis", "jsonschema", "pytest", "pytest-xdist")
"""What the quick tests import, of the extra `test`."""
COPIED: Final = ("tests", "sample", "scripts", "conf", "setup.cfg")

QUICK: Final = (
    "tests/jobs/engines/test_same_result.py::test_the_sample_becomes_the_same_segments",
    "tests/jobs/sources/test_segment_source.py::test_times_headers_and_nulls_are_exact",
    "tests/jobs/api/test_table_functions.py::test_status_is_the_verbs_document_as_columns",
)
ALL: Final = (
    "tests/jobs/engines/test_spark_tasks.py",
    "tests/jobs/engines/test_same_result.py",
    "tests/jobs/engines/test_spark_executor.py",
    "tests/jobs/sources/test_segment_source.py",
    "tests/jobs/sources/test_latest.py",
    "tests/jobs/api/test_table_functions.py",
    "tests/jobs/api/test_frames.py",
    "tests/jobs/spark/test_failures.py",
    "tests/jobs/verbs/test_on_spark.py",
    "tests/jobs/verbs/test_second_opinion.py",
)
OF_DELTA: Final = (
    "tests/jobs/sources/test_catalog_tables.py",
    "tests/jobs/sources/test_private_jars.py",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is installed beside the wheel."""

    spark: str
    pins: tuple[str, ...] = ()
    has_delta: bool = True

    @property
    def folder(self) -> Path:
        """Where it is."""
        return FOLDER / self.spark

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin" / "python")


ENVIRONMENTS: Final = (
    # The oldest of each that setup.cfg allows.
    Environment(spark="4.0.1", pins=("numpy==1.26.4", "pyarrow==18.0.0")),
    Environment(spark="4.1.4"),
    Environment(spark="4.2.0"),
    Environment(spark="4.3.0", has_delta=False),
)

_SHOWN: Final = """
import subprocess, sys
from importlib.metadata import PackageNotFoundError, version
def of(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
java = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr.split('"')[1]
names = ("pyspark", "delta-spark", "numpy", "pyarrow")
print(*map(of, names), sys.version.split()[0], java, sep=" | ")
"""


def built_wheel() -> Path:
    """Build the wheel from a copy, because building leaves folders behind; return its path."""
    copy = FOLDER / "source"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for folder in (*FOLDERS, "tierfold", "docs"):
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, copy / folder, ignore=unwanted, symlinks=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--wheel-dir", "dist", "."], cwd=copy, check=True)
    (wheel,) = (copy / "dist").glob("tierfold-*.whl")
    return wheel


def installed(environment: Environment, wheel: Path, tools: tuple[str, ...]) -> None:
    """Make the environment again, with these of the extra `test`."""
    shutil.rmtree(environment.folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(environment.folder)], check=True)
    known = [line.partition(";")[0] for line in requires("tierfold") or () if "extra ==" in line]
    wanted = [line for line in known if re.split(r"[\[<>=!~ ]", line)[0] in tools]
    extra = "[delta]" if environment.has_delta else ""
    install = [str(ROOT / "scripts" / "install"), environment.python]
    pins = [f"pyspark=={environment.spark}", *environment.pins]
    subprocess.run([*install, f"{wheel}{extra}", *pins, *wanted], check=True)


def ran(environment: Environment, *, is_quick: bool) -> str:
    """Run the samples, unless it is quick, and the tests; return their sum, or what failed."""
    copy = environment.folder / "checkout"
    for name in COPIED:
        found, place = ROOT / name, copy / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if found.is_dir():
            shutil.copytree(found, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(found, place)
    demo = ["scripts/demo", str(environment.folder / "demo")]
    tests = QUICK if is_quick else (*ALL, *OF_DELTA) if environment.has_delta else ALL
    pytest = [environment.python, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *tests]
    said = ""
    for command in (pytest,) if is_quick else (demo, pytest):
        with (environment.folder / "log").open("w+b") as log:
            done = subprocess.run(
                command,
                cwd=copy,
                env=os.environ | {"PATH": f"{environment.folder}/bin:{os.environ['PATH']}"},
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
            log.seek(0)
            said = log.read().decode("utf-8", "replace")
        if done.returncode:
            sys.stderr.write(said[-20_000:])
            return f"**failed**: {command[0]}"
    return said.splitlines()[-1].partition(" in ")[0]


def main() -> None:
    """Run what the command line names, and print a table."""
    parser = argparse.ArgumentParser(description="Run tierfold on each version of Spark.")
    parser.add_argument("versions", nargs="*", help="only these versions")
    parser.add_argument("--quick", action="store_true", help="the oldest version, a few tests")
    parser.add_argument("--keep", action="store_true", help="do not delete the environments")
    given = parser.parse_args()
    chosen = [one for one in ENVIRONMENTS if not given.versions or one.spark in given.versions]
    wheel = built_wheel()
    rows = []
    for environment in chosen[:1] if given.quick else chosen:
        began = time.monotonic()
        installed(environment, wheel, TOOLS if given.quick else (*TOOLS, "moto"))
        ready = time.monotonic()
        result = ran(environment, is_quick=given.quick)
        shown = subprocess.check_output([environment.python, "-c", _SHOWN], text=True).strip()
        today = time.strftime("%Y-%m-%d")
        rows.append(f"| {shown} | {result} | {today} |")
        took = f"{ready - began:.0f} s to install, {time.monotonic() - ready:.0f} s to run"
        sys.stdout.write(f"{rows[-1]}  ({took})\n")
        sys.stdout.flush()
        if not given.keep:
            shutil.rmtree(environment.folder)
    head = "| Spark | delta-spark | numpy | pyarrow | Python | Java | result | when |"
    sys.stdout.write("\n".join(("", head, "|---|---|---|---|---|---|---|---|", *rows, "")))
    if any("failed" in row for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
