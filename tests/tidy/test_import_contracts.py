"""The folders keep their import contracts, and every kind of violation is found."""

from __future__ import annotations

import re

import pytest

from tests.tidy import import_contracts, source_tree
from tests.tidy.packaging_docs import entry_points
from tests.tidy.source_tree import Source, source_of

COMPACTION = source_tree.sources("compaction")


SCRIPTS = source_tree.sources("scripts")


def doors() -> set[str]:
    """Modules that users enter by: the command, launchers, scripts, and what the guides name."""
    setup = (source_tree.ROOT / "setup.cfg").read_text(encoding="utf-8")
    guides = [source_tree.ROOT / "README.md", *(source_tree.ROOT / "docs").glob("*.md")]
    text = "".join(guide.read_text(encoding="utf-8") for guide in guides)
    named = re.findall(r"(?:`|^from )(tierfold\.[a-z_.]+)(?:`| import)", text, re.MULTILINE)
    launchers = {of.module for of in source_tree.product() if of.module.endswith("_job")}
    scripts = {of.module for of in SCRIPTS}
    return entry_points(setup) | {"tierfold.__main__", *named} | launchers | scripts


@pytest.mark.parametrize(
    "source", source_tree.product() + source_tree.tests(), ids=lambda source: source.path
)
def test_imports_are_absolute(source: Source) -> None:
    assert import_contracts.relative_imports(source) == []


@pytest.mark.parametrize("source", COMPACTION, ids=lambda source: source.path)
def test_compaction_decides_and_never_touches(source: Source) -> None:
    assert import_contracts.impure(source) == []


def test_every_module_is_needed_by_another_or_is_a_door() -> None:
    assert import_contracts.unneeded_modules(source_tree.product() + SCRIPTS, doors()) == []


def test_a_relative_import_is_found() -> None:
    assert (
        len(import_contracts.relative_imports(source_of("from . import a\nfrom ..b import c"))) == 2
    )


@pytest.mark.parametrize(
    "text",
    [
        "import os",
        "import time",
        "from pathlib import Path",
        "import io",
        "import pyspark.sql",
        "import pyarrow as pa",
        "from tierfold.storage.clock import now_ms",
        "import conf",
        "open('x')",
        "print(1)",
        "np.fromfile(x)",
        "np.random.rand()",
    ],
)
def test_a_touch_is_found(text: str) -> None:
    assert len(import_contracts.impure(source_of(text))) == 1


def test_what_pure_code_needs_is_allowed() -> None:
    ours = "from tierfold.compaction.model.units import OffsetSpan"
    text = f"import numpy as np\nimport numba\n{ours}\nnp.sort(x)"
    assert import_contracts.impure(source_of(text)) == []


@pytest.mark.parametrize(
    "source", source_tree.product() + source_tree.tests(), ids=lambda source: source.path
)
def test_code_is_imported_by_one_name(source: Source) -> None:
    assert import_contracts.other_names(source) == []


@pytest.mark.parametrize(
    "text",
    ["import jobs", "from storage.clock import now_ms", "import compaction.model", "import conf"],
)
def test_another_name_is_found(text: str) -> None:
    assert len(import_contracts.other_names(source_of(text))) == 1


def test_third_party_imports_are_distinguished() -> None:
    text = "import os\nimport numpy.typing\nfrom google_crc32c import value\nimport tierfold"
    assert import_contracts.outside_imports((source_of(text),)) == {"numpy", "google_crc32c"}


def test_an_unused_module_is_found() -> None:
    four_modules = (
        source_of("", "jobs/__init__.py"),
        source_of("import tierfold.jobs.b\nimport tierfold.jobs.d", "jobs/a.py"),
        source_of("from tierfold.jobs import c", "jobs/b.py"),
        source_of("", "jobs/c.py"),
        source_of("import tierfold.jobs.d", "jobs/d.py"),
    )
    assert import_contracts.unneeded_modules(four_modules, {"tierfold.jobs.a"}) == []
    assert [
        fault.partition(":")[0] for fault in import_contracts.unneeded_modules(four_modules, set())
    ] == ["jobs/a.py"]


def test_a_module_that_only_imports_itself_is_found() -> None:
    alone = (source_of("import tierfold.jobs.a", "jobs/a.py"),)
    assert len(import_contracts.unneeded_modules(alone, set())) == 1
