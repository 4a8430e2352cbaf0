"""Modules are named for what they are, and everything public says what it is for."""

from __future__ import annotations

import pytest

from tests.tidy import house, names
from tests.tidy.house import Source, source_of

each_file = pytest.mark.parametrize(
    "source", house.product() + house.tests(), ids=lambda source: source.path
)


@each_file
def test_no_module_shadows_one_of_python(source: Source) -> None:
    assert names.shadows_the_standard_library(source) == []


@each_file
def test_no_module_is_named_for_nothing(source: Source) -> None:
    assert names.is_named_for_nothing(source) == []


def test_no_two_test_files_share_a_name() -> None:
    assert names.twins(house.tests()) == []


@pytest.mark.parametrize("source", house.product(), ids=lambda source: source.path)
def test_everything_public_says_what_it_is_for(source: Source) -> None:
    assert names.undocumented(source) == []


@pytest.mark.parametrize("path", ["storage/inspect.py", "jobs/select.py", "storage/types.py"])
def test_a_shadow_is_found(path: str) -> None:
    assert len(names.shadows_the_standard_library(source_of("", path))) == 1


def test_a_package_is_judged_by_its_folder() -> None:
    assert len(names.shadows_the_standard_library(source_of("", "jobs/queue/__init__.py"))) == 1
    assert names.shadows_the_standard_library(source_of("", "jobs/stages/__init__.py")) == []


@pytest.mark.parametrize("path", ["jobs/utils.py", "storage/common/files.py", "tests/helpers.py"])
def test_a_name_for_nothing_is_found(path: str) -> None:
    assert len(names.is_named_for_nothing(source_of("", path))) == 1


def test_twins_are_found_and_conftest_has_none() -> None:
    paths = ["tests/a/test_x.py", "tests/b/test_x.py", "tests/a/conftest.py", "tests/conftest.py"]
    assert names.twins(tuple(source_of("", path) for path in paths)) == [
        "test_x.py: 2 files; give each its own name"
    ]


def test_silence_is_found_in_modules_classes_functions_and_methods() -> None:
    text = "class A:\n    def f(self): ...\n    def _g(self): ...\ndef h(): ...\n"
    said = names.undocumented(source_of(text))
    assert [fault.rpartition(":")[2] for fault in said] == [
        " the module says nothing",
        " A says nothing",
        " f says nothing",
        " h says nothing",
    ]


def test_what_speaks_is_left_alone() -> None:
    assert names.undocumented(source_of('"""M."""\ndef f():\n    """F."""\n')) == []
