"""Files, functions, parameters and lines stay within the limits; longer ones are found."""

from __future__ import annotations

import pytest

from tests.tidy import limits, source_tree
from tests.tidy.source_tree import Source, source_of

ALL = source_tree.product() + source_tree.tests()
each_file = pytest.mark.parametrize("source", ALL, ids=lambda source: source.path)


@each_file
def test_files_are_short(source: Source) -> None:
    assert limits.too_long_file(source) == []


@each_file
def test_functions_are_short(source: Source) -> None:
    assert limits.too_long_functions(source) == []


@pytest.mark.parametrize("source", source_tree.product(), ids=lambda source: source.path)
def test_parameters_are_few(source: Source) -> None:
    assert limits.too_many_parameters(source) == []


def test_lines_are_short() -> None:
    # A page's tables and links cannot be broken into lines, Java has a tongue of its own, and ruff
    # measures a notebook's code.
    other = (".md", ".java", ".xml", ".ipynb")
    written = [(path, text) for path, text in source_tree.texts() if not path.endswith(other)]
    assert [fault for path, text in written for fault in limits.too_long_lines(path, text)] == []


def test_a_file_of_one_line_too_many_is_found() -> None:
    assert limits.too_long_file(source_of("x = 1\n" * 400)) == []
    assert "401 lines" in limits.too_long_file(source_of("x = 1\n" * 401))[0]


def test_a_function_of_one_line_too_many_is_found_wherever_it_hides() -> None:
    longest = "class A:\n    def f(self):\n" + "        x = 1\n" * 49
    assert limits.too_long_functions(source_of(longest)) == []
    found = limits.too_long_functions(source_of(longest + "        y = 1\n"))
    assert len(found) == 1
    assert "made_up.py:2: f has 51 lines" in found[0]


def test_a_seventh_parameter_is_found_of_whatever_kind_and_self_is_none() -> None:
    six = "class A:\n    def f(self, a, /, b, *c, d, e=1, **f): ...\n"
    assert limits.too_many_parameters(source_of(six)) == []
    seven = "async def f(a, /, b, *c, d, e=1, g=2, **f): ...\n"
    assert "f has 7 parameters" in limits.too_many_parameters(source_of(seven))[0]


def test_a_long_line_is_found_with_its_number() -> None:
    assert limits.too_long_lines("a.py", "x" * 100) == []
    assert limits.too_long_lines("a.py", "\n" + "x" * 101) == [
        "a.py:2: 101 characters of at most 100"
    ]
