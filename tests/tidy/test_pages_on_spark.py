"""The Python of docs/dataframe.md runs and prints, in the session of the tests."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.tidy.page_links import python_blocks
from tests.tidy.source_tree import ROOT


def test_the_python_of_the_page_runs_and_prints(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    blocks = python_blocks((ROOT / "docs" / "dataframe.md").read_text(encoding="utf-8"))
    assert len(blocks) > 1
    for block in blocks:
        exec(block, names)
        assert capsys.readouterr().out, block
