"""Spark's archives leave the path only if it also has the installation that they belong to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.jobs.commands import ROOT
from tierfold.jobs.spark.unpacked_pyspark import prefer_unpacked_pyspark

INSTALLED = Path(pyspark.__file__).parents[1]
ARCHIVES = [str(path) for path in (INSTALLED / "pyspark" / "python" / "lib").glob("*.zip")]


def path_after(monkeypatch: pytest.MonkeyPatch, *entries: str) -> list[str]:
    monkeypatch.setattr(sys, "path", list(entries))
    prefer_unpacked_pyspark()
    return sys.path


def test_archives_beside_their_modules_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(ARCHIVES) == 2
    found = path_after(monkeypatch, *ARCHIVES, "", "/jars/spark-core.jar", str(INSTALLED))
    assert found == ["", "/jars/spark-core.jar", str(INSTALLED)]


@pytest.mark.parametrize(
    "archive",
    [
        *ARCHIVES,
        "/opt/spark/python/lib/pyspark.zip",
        "pyspark.zip",
        "/pyspark.zip",
        "/opt/python/pyspark/python/lib/pyspark.zip",
    ],
)
def test_an_archive_stays_if_the_path_lacks_its_installation(
    monkeypatch: pytest.MonkeyPatch, archive: str
) -> None:
    elsewhere = "/another/environment"
    assert path_after(monkeypatch, archive, elsewhere) == [archive, elsewhere]


def test_an_archive_stays_if_its_modules_are_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    archive = str(tmp_path / "pyspark" / "python" / "lib" / "pyspark.zip")
    entries = [archive, str(tmp_path), str(INSTALLED)]
    assert path_after(monkeypatch, *entries) == entries


def test_the_daemon_compiles_nothing_of_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join((*ARCHIVES, str(ROOT))))
    command = [sys.executable, "-v", "-m", "tierfold.jobs.spark.worker_daemon", "pyspark.worker"]
    # Without input the daemon ends at once; `-v` prints where each module came from.
    done = subprocess.run(command, input=b"", capture_output=True, check=False)
    stderr = done.stderr.decode()
    assert "import 'pyspark.daemon' # <_frozen_importlib_external.SourceFileLoader" in stderr
    assert "<zipimporter object" not in stderr
