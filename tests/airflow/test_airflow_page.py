"""The Python code of docs/airflow.md runs as written."""

from __future__ import annotations

from typing import Any

from tests.tidy import page_links
from tests.tidy.source_tree import ROOT
from tierfold.jobs.airflow_tasks.tierfold_operator import TierfoldOperator

PAGE = (ROOT / "docs" / "airflow.md").read_text(encoding="utf-8")


def test_its_imports_succeed() -> None:
    assert page_links.wrong_imports(PAGE) == []


def test_its_code_creates_a_task() -> None:
    (block,) = page_links.python_blocks(PAGE)
    variables: dict[str, Any] = {}
    exec(block.replace("TierfoldOperator(\n", "task = TierfoldOperator(\n"), variables)
    assert isinstance(variables["task"], TierfoldOperator)
