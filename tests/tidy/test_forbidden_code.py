"""The tree has no markers, clocks, RNGs, mocks or skipped tests, and each planted one is found."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.tidy import forbidden_code, source_tree
from tests.tidy.source_tree import Source, source_of

Check = Callable[[Source], list[str]]


def test_no_text_has_an_open_marker() -> None:
    pages = source_tree.texts()
    assert [
        violation for path, text in pages for violation in forbidden_code.markers(path, text)
    ] == []


def test_no_notebook_stores_what_it_printed() -> None:
    pages = [(path, text) for path, text in source_tree.texts() if path.endswith(".ipynb")]
    assert len(pages) > 0
    assert [
        violation for path, text in pages for violation in forbidden_code.stored_outputs(path, text)
    ] == []


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


@pytest.mark.parametrize("check", [forbidden_code.clocks, forbidden_code.rng, forbidden_code.mocks])
def test_the_product_holds_none(check: Check) -> None:
    assert [violation for source in source_tree.product() for violation in check(source)] == []


@pytest.mark.parametrize(
    "check", [forbidden_code.unseeded, forbidden_code.skipped, forbidden_code.mocks]
)
def test_the_tests_hold_none(check: Check) -> None:
    assert [violation for source in source_tree.tests() for violation in check(source)] == []


@pytest.mark.parametrize("halves", [("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK")])
def test_a_marker_is_found_with_its_line(halves: tuple[str, str]) -> None:
    marker = "".join(halves)
    assert forbidden_code.markers("a.md", f"fine\n# {marker}: later")[0].startswith("a.md:2: ")
    assert forbidden_code.markers("a.md", f"{marker}LIST, un{marker}") == []


@pytest.mark.parametrize(
    "text",
    [
        "import time\nnow = time.time()",
        "import time\nnow = time.time_ns()",
        "from time import time",
        "from datetime import datetime\nnow = datetime.now()",
        "import datetime\nnow = datetime.datetime.now()",
        "import datetime\nnow = datetime.date.today()",
    ],
)
def test_a_clock_is_found_everywhere_but_at_its_owner(text: str) -> None:
    assert len(forbidden_code.clocks(source_of(text, "storage/catalog/catalog.py"))) == 1
    assert forbidden_code.clocks(source_of(text, forbidden_code.CLOCK_OWNER)) == []


def test_a_stopwatch_is_no_clock() -> None:
    assert forbidden_code.clocks(source_of("import time\nstart = time.monotonic()")) == []


@pytest.mark.parametrize(
    "text",
    [
        "import random",
        "from random import shuffle",
        "import uuid",
        "from uuid import uuid4",
        "import secrets",
        "from numpy.random import default_rng",
    ],
)
def test_rngs_are_found_outside_storage(text: str) -> None:
    assert len(forbidden_code.rng(source_of(text, "jobs/made_up.py"))) == 1
    assert forbidden_code.rng(source_of(text, "storage/made_up.py")) == []


@pytest.mark.parametrize(
    "text",
    [
        "random.random()",
        "random.shuffle(x)",
        "random.Random()",
        "np.random.default_rng()",
        "np.random.rand(3)",
        "os.urandom(3)",
        "secrets.token_hex(3)",
    ],
)
def test_an_unseeded_draw_is_found(text: str) -> None:
    assert len(forbidden_code.unseeded(source_of(text))) == 1


@pytest.mark.parametrize(
    "text", ["random.Random(7)", "np.random.default_rng(seed=7)", "rng.random()"]
)
def test_a_seeded_draw_is_fine(text: str) -> None:
    assert forbidden_code.unseeded(source_of(text)) == []


@pytest.mark.parametrize("form", ["mark.skip", "mark.skipif", "mark.xfail", "skip", "importorskip"])
def test_a_skipped_test_is_found(form: str) -> None:
    assert len(forbidden_code.skipped(source_of(f"pytest.{form}('why')"))) == 1


@pytest.mark.parametrize(
    "text", ["import unittest.mock", "from unittest.mock import patch", "from unittest import mock"]
)
def test_a_mock_is_found(text: str) -> None:
    assert len(forbidden_code.mocks(source_of(text))) == 1
