"""Modules are named for what they hold, and every public name has a docstring."""

from __future__ import annotations

import pytest

from tests.tidy import names, source_tree
from tests.tidy.source_tree import Source, source_of

each_file = pytest.mark.parametrize(
    "source", source_tree.product() + source_tree.tests(), ids=lambda source: source.path
)


@each_file
def test_no_module_shadows_one_of_python(source: Source) -> None:
    assert names.shadows_the_standard_library(source) == []


@each_file
def test_no_module_has_a_vague_name(source: Source) -> None:
    assert names.is_named_for_nothing(source) == []


def test_no_two_test_files_share_a_name() -> None:
    assert names.twins(source_tree.tests()) == []


@pytest.mark.parametrize("source", source_tree.product(), ids=lambda source: source.path)
def test_everything_public_has_a_docstring(source: Source) -> None:
    assert names.undocumented(source) == []


@pytest.mark.parametrize(
    "source",
    [test for test in source_tree.tests() if "/test_" in test.path],
    ids=lambda source: source.path,
)
def test_every_test_file_says_in_one_line_what_it_proves(source: Source) -> None:
    assert names.says_nothing(source) == []


@pytest.mark.parametrize("package", source_tree.packages(), ids=lambda package: package.path)
def test_a_packages_docstring_is_its_map(package: Source) -> None:
    assert names.map_faults(package, source_tree.modules_in(package)) == []


@pytest.mark.parametrize("text", ["", "X = 1", '"""\nLater.\n"""'])
def test_a_test_file_without_a_docstring_is_found(text: str) -> None:
    assert len(names.says_nothing(source_of(text))) == 1


def test_a_map_that_differs_from_the_folder_is_found() -> None:
    package = source_of('"""p: a package.\n\n    a   one\n    b   another\n"""')
    assert names.map_faults(package, {"a", "b"}) == []
    assert len(names.map_faults(package, {"a"})) == 1
    assert len(names.map_faults(package, {"a", "b", "c"})) == 1


@pytest.mark.parametrize("path", ["storage/inspect.py", "jobs/select.py", "storage/types.py"])
def test_a_shadow_is_found(path: str) -> None:
    assert len(names.shadows_the_standard_library(source_of("", path))) == 1


def test_a_package_is_judged_by_its_folder() -> None:
    assert len(names.shadows_the_standard_library(source_of("", "jobs/queue/__init__.py"))) == 1
    assert names.shadows_the_standard_library(source_of("", "jobs/stages/__init__.py")) == []


@pytest.mark.parametrize("path", ["jobs/utils.py", "storage/common/files.py", "tests/helpers.py"])
def test_a_vague_name_is_found(path: str) -> None:
    assert len(names.is_named_for_nothing(source_of("", path))) == 1


def test_twins_are_found_and_conftest_has_none() -> None:
    paths = ["tests/a/test_x.py", "tests/b/test_x.py", "tests/a/conftest.py", "tests/conftest.py"]
    assert names.twins(tuple(source_of("", path) for path in paths)) == [
        "test_x.py: 2 files; give each its own name"
    ]


def test_missing_docstrings_of_modules_classes_functions_and_methods_are_found() -> None:
    text = "class A:\n    def f(self): ...\n    def _g(self): ...\ndef h(): ...\n"
    said = names.undocumented(source_of(text))
    assert [fault.rpartition(":")[2] for fault in said] == [
        " the module says nothing",
        " A says nothing",
        " f says nothing",
        " h says nothing",
    ]


def test_documented_code_passes() -> None:
    assert names.undocumented(source_of('"""M."""\ndef f():\n    """F."""\n')) == []
