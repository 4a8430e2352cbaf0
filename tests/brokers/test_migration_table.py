"""docs/migration.md: an archive is read as a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.brokers.archivist import Archivist, cleaned_log
from tests.brokers.kafka_page import python_of


@pytest.mark.soak
def test_an_archive_is_a_table(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    archivist = Archivist(cleaned_log(tmp_path / "data").path, tmp_path)
    archivist.archives()
    (program,) = python_of("To an archive")
    capsys.readouterr()
    exec(archivist.here(program), {})
    assert capsys.readouterr().out == "3 keys\n"
