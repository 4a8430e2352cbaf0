"""The source tree keeps its rules, and each check finds what is planted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

import pytest

from tests.tidy import forbidden_code, import_contracts, limits, names, source_tree
from tests.tidy.packaging_docs import entry_points
from tests.tidy.source_tree import PRODUCT, ROOT, TESTS, Source, source_of, sources

Check = Callable[[Source], list[str]]

MADE_UP = "compaction/made_up.py"


def doors() -> set[str]:
    """Modules that users enter by: the command, launchers, scripts, and what the guides name."""
    guides = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "".join(guide.read_text(encoding="utf-8") for guide in guides)
    named = re.findall(r"(?:`|^from )(tierfold\.[a-z_.]+)(?:`| import)", text, re.MULTILINE)
    launchers = {source.module for source in sources(*PRODUCT) if source.module.endswith("_job")}
    scripts = {source.module for source in sources("scripts")}
    command = entry_points((ROOT / "setup.cfg").read_text(encoding="utf-8"))
    return {"tierfold.__main__", *named, *command, *launchers, *scripts}


def name_of(value: object) -> str | None:
    """The name of a check as part of a test's id."""
    return getattr(value, "__name__", None)


@pytest.mark.parametrize(
    ("check", "folders"),
    [
        (forbidden_code.clocks, PRODUCT),
        (forbidden_code.rng, PRODUCT),
        (forbidden_code.producers, [*PRODUCT, "scripts"]),
        (forbidden_code.log_start_moves, [*PRODUCT, "scripts"]),
        (forbidden_code.mocks, PRODUCT + TESTS),
        (forbidden_code.unseeded, TESTS),
        (forbidden_code.skipped, TESTS),
        (import_contracts.relative_imports, PRODUCT + TESTS),
        (import_contracts.other_names, PRODUCT + TESTS),
        (import_contracts.impure, ["compaction"]),
        (limits.too_long_file, PRODUCT + TESTS),
        (limits.too_long_functions, PRODUCT + TESTS),
        (limits.too_many_parameters, PRODUCT),
        (names.shadows_the_standard_library, PRODUCT + TESTS),
        (names.has_a_vague_name, PRODUCT + TESTS),
        (names.undocumented, [*PRODUCT, "scripts"]),
    ],
    ids=name_of,
)
def test_each_file_keeps_the_rule(check: Check, folders: Iterable[str]) -> None:
    assert [violation for source in sources(*folders) for violation in check(source)] == []


def test_the_door_gives_records_to_a_producer_in_one_place() -> None:
    (door,) = (one for one in sources("storage") if one.path == forbidden_code.DOOR)
    names = [name for name, _ in forbidden_code.writing(door)]
    assert sorted(names) == ["confluent_kafka.Producer", "producer.produce_batch"]


def test_each_test_file_says_what_it_proves() -> None:
    tests = [test for test in sources(*TESTS) if "/test_" in test.path]
    assert len(tests) > 0
    assert [violation for test in tests for violation in names.lacks_a_first_line(test)] == []


def test_each_text_keeps_the_rules() -> None:
    texts = source_tree.texts()
    assert [found for path, text in texts for found in forbidden_code.markers(path, text)] == []
    # Tables and links of a page cannot be broken into lines, and ruff measures a notebook's code.
    lines = [text for text in texts if not text[0].endswith((".md", ".java", ".xml", ".ipynb"))]
    assert [found for path, text in lines for found in limits.too_long_lines(path, text)] == []
    notebooks = [text for text in texts if text[0].endswith(".ipynb")]
    assert len(notebooks) > 0
    assert [
        found for path, text in notebooks for found in forbidden_code.stored_outputs(path, text)
    ] == []


def test_the_files_together_keep_the_rules() -> None:
    assert import_contracts.unneeded_modules(sources(*PRODUCT, "scripts"), doors()) == []
    assert names.duplicates(sources(*TESTS)) == []
    assert [
        found
        for package in source_tree.packages()
        for found in names.map_differences(package, source_tree.modules_in(package))
    ] == []


CLOCKS = (
    "import time\nnow = time.time()",
    "import time\nnow = time.time_ns()",
    "from time import time",
    "from datetime import datetime\nnow = datetime.now()",
    "import datetime\nnow = datetime.datetime.now()",
    "import datetime\nnow = datetime.date.today()",
)
RNGS = (
    "import random",
    "from random import shuffle",
    "import uuid",
    "from uuid import uuid4",
    "import secrets",
    "from numpy.random import default_rng",
)
PRODUCERS = (
    "from confluent_kafka import Producer",
    "from confluent_kafka import Producer as Consumer",
    "from confluent_kafka import SerializingProducer",
    "from confluent_kafka.aio import AIOProducer",
    "from confluent_kafka import *",
    "import confluent_kafka\nconfluent_kafka.Producer({})",
    "getattr(confluent_kafka, 'Producer')",
    "client.produce('topic')",
    "door._producer.produce_batch('topic', [])",
    "give = client.produce",
)
DRAWS = (
    "random.random()",
    "random.shuffle(x)",
    "random.Random()",
    "np.random.default_rng()",
    "np.random.rand(3)",
    "os.urandom(3)",
    "secrets.token_hex(3)",
)
SKIPS = ("mark.skip", "mark.skipif", "mark.xfail", "skip", "importorskip")
MOCKS = ("import unittest.mock", "from unittest.mock import patch", "from unittest import mock")
IMPURE = (
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
)
OTHER_NAMES = (
    "import jobs",
    "from storage.clock import now_ms",
    "import compaction.model",
    "import conf",
)
LONGEST = "class A:\n    def f(self):\n" + "        x = 1\n" * 49
SIX = "class A:\n    def f(self, a, /, b, *c, d, e=1, **f): ...\n"
SEVEN = "async def f(a, /, b, *c, d, e=1, g=2, **f): ...\n"
PURE = (
    "import numpy as np\nimport numba\n"
    "from tierfold.compaction.model.units import OffsetSpan\nnp.sort(x)"
)


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        *((forbidden_code.clocks, "storage/catalog/catalog.py", text) for text in CLOCKS),
        *((forbidden_code.rng, "jobs/made_up.py", text) for text in RNGS),
        *((forbidden_code.producers, "storage/brokers/made_up.py", text) for text in PRODUCERS),
        (forbidden_code.log_start_moves, MADE_UP, "connection.admin.delete_records([])"),
        (forbidden_code.log_start_moves, MADE_UP, "getattr(admin, 'delete_records')"),
        *((forbidden_code.unseeded, MADE_UP, text) for text in DRAWS),
        *((forbidden_code.skipped, MADE_UP, f"pytest.{form}('why')") for form in SKIPS),
        *((forbidden_code.mocks, MADE_UP, text) for text in MOCKS),
        (import_contracts.relative_imports, MADE_UP, "from . import a"),
        (import_contracts.relative_imports, MADE_UP, "from ..b import c"),
        *((import_contracts.impure, MADE_UP, text) for text in IMPURE),
        *((import_contracts.other_names, MADE_UP, text) for text in OTHER_NAMES),
        *((names.lacks_a_first_line, MADE_UP, text) for text in ("", "X = 1", '"""\nLater.\n"""')),
        (names.shadows_the_standard_library, "storage/inspect.py", ""),
        (names.shadows_the_standard_library, "jobs/select.py", ""),
        (names.shadows_the_standard_library, "storage/types.py", ""),
        (names.shadows_the_standard_library, "jobs/queue/__init__.py", ""),
        (names.has_a_vague_name, "jobs/utils.py", ""),
        (names.has_a_vague_name, "storage/common/files.py", ""),
        (names.has_a_vague_name, "tests/helpers.py", ""),
        (limits.too_long_file, MADE_UP, "x = 1\n" * 401),
        (limits.too_long_functions, MADE_UP, LONGEST + "        y = 1\n"),
        (limits.too_many_parameters, MADE_UP, SEVEN),
    ],
)
def test_a_planted_violation_is_found(check: Check, path: str, text: str) -> None:
    (found,) = check(source_of(text, path))
    assert found.startswith(path)


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        *((forbidden_code.clocks, forbidden_code.CLOCK_OWNER, text) for text in CLOCKS),
        (forbidden_code.clocks, MADE_UP, "import time\nstart = time.monotonic()"),
        *((forbidden_code.rng, "storage/made_up.py", text) for text in RNGS),
        *((forbidden_code.producers, forbidden_code.DOOR, text) for text in PRODUCERS),
        (forbidden_code.log_start_moves, forbidden_code.LOG_START_DOOR, "admin.delete_records([])"),
        (forbidden_code.producers, MADE_UP, "from confluent_kafka import Consumer\nproduced(x)"),
        (forbidden_code.unseeded, MADE_UP, "random.Random(7)"),
        (forbidden_code.unseeded, MADE_UP, "np.random.default_rng(seed=7)"),
        (forbidden_code.unseeded, MADE_UP, "rng.random()"),
        (import_contracts.impure, MADE_UP, PURE),
        (names.shadows_the_standard_library, "jobs/stages/__init__.py", ""),
        (names.undocumented, MADE_UP, '"""M."""\ndef f():\n    """F."""\n'),
        (limits.too_long_file, MADE_UP, "x = 1\n" * 400),
        (limits.too_long_functions, MADE_UP, LONGEST),
        (limits.too_many_parameters, MADE_UP, SIX),
    ],
)
def test_allowed_code_passes(check: Check, path: str, text: str) -> None:
    assert check(source_of(text, path)) == []


def test_violations_say_how_much_is_too_much() -> None:
    assert "401 lines" in limits.too_long_file(source_of("x = 1\n" * 401))[0]
    long = limits.too_long_functions(source_of(LONGEST + "        y = 1\n"))
    assert "made_up.py:2: f has 51 lines" in long[0]
    assert "f has 7 parameters" in limits.too_many_parameters(source_of(SEVEN))[0]
    assert limits.too_long_lines("a.py", "x" * 100) == []
    assert limits.too_long_lines("a.py", "\n" + "x" * 101) == [
        "a.py:2: 101 characters of at most 100"
    ]


@pytest.mark.parametrize("halves", [("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK")])
def test_a_marker_is_found_with_its_line(halves: tuple[str, str]) -> None:
    marker = "".join(halves)
    assert forbidden_code.markers("a.md", f"fine\n# {marker}: later")[0].startswith("a.md:2: ")
    assert forbidden_code.markers("a.md", f"{marker}LIST, un{marker}") == []


@pytest.mark.parametrize(
    "left", [{"outputs": [{"output_type": "stream"}]}, {"outputs": [], "execution_count": 1}]
)
def test_a_stored_output_is_found_with_its_cell(left: dict[str, object]) -> None:
    cells = [{"id": "title"}, {"id": "fine", "outputs": [], "execution_count": None}]
    assert forbidden_code.stored_outputs("a.ipynb", json.dumps({"cells": cells})) == []
    cells.append({"id": "run", **left})
    assert forbidden_code.stored_outputs("a.ipynb", json.dumps({"cells": cells})) == [
        "a.ipynb: cell run has outputs stored; clear them"
    ]


def test_missing_docstrings_of_modules_classes_functions_and_methods_are_found() -> None:
    text = "class A:\n    def f(self): ...\n    def _g(self): ...\ndef h(): ...\n"
    found = [violation.rpartition(": ")[2] for violation in names.undocumented(source_of(text))]
    assert sorted(found) == [f"{name} has no docstring" for name in ("A", "f", "h", "the module")]


def test_a_map_that_differs_from_the_folder_is_found() -> None:
    package = source_of('"""p: a package.\n\n    a   one\n    b   another\n"""')
    assert names.map_differences(package, {"a", "b"}) == []
    assert len(names.map_differences(package, {"a"})) == 1
    assert len(names.map_differences(package, {"a", "b", "c"})) == 1


def test_duplicates_are_found_and_conftest_is_none() -> None:
    paths = ["tests/a/test_x.py", "tests/b/test_x.py", "tests/a/conftest.py", "tests/conftest.py"]
    assert names.duplicates(tuple(source_of("", path) for path in paths)) == [
        "test_x.py: 2 files; give each its own name"
    ]


def test_third_party_imports_are_distinguished() -> None:
    text = "import os\nimport numpy.typing\nfrom google_crc32c import value\nimport tierfold"
    assert import_contracts.outside_imports((source_of(text),)) == {"numpy", "google_crc32c"}


def test_an_unused_module_is_found() -> None:
    modules = (
        source_of("", "jobs/__init__.py"),
        source_of("import tierfold.jobs.b\nimport tierfold.jobs.d", "jobs/a.py"),
        source_of("from tierfold.jobs import c", "jobs/b.py"),
        source_of("", "jobs/c.py"),
        source_of("import tierfold.jobs.d", "jobs/d.py"),
    )
    assert import_contracts.unneeded_modules(modules, {"tierfold.jobs.a"}) == []
    (found,) = import_contracts.unneeded_modules(modules, set())
    assert found.startswith("jobs/a.py:")


def test_an_import_of_itself_does_not_count() -> None:
    alone = (source_of("import tierfold.jobs.a", "jobs/a.py"),)
    assert len(import_contracts.unneeded_modules(alone, set())) == 1
