"""setup.cfg, its pages and the help of the verbs agree with the code; mismatches are found."""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest

from tests.tidy import import_contracts, packaging_docs, source_tree
from tierfold.jobs.cli.commands import tierfold

CLI = (source_tree.ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
DEPENDENCIES = (source_tree.ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
CHANGELOG = (source_tree.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
SETUP = (source_tree.ROOT / "setup.cfg").read_text(encoding="utf-8")
RUNTIME = packaging_docs.requirements(SETUP, "options", "install_requires")
TESTING = packaging_docs.requirements(SETUP, "options.extras_require", "test")
NOTEBOOK = packaging_docs.requirements(SETUP, "options.extras_require", "notebook")
DELTA = packaging_docs.requirements(SETUP, "options.extras_require", "delta")
AIRFLOW = packaging_docs.requirements(SETUP, "options.extras_require", "airflow")
REPORT = packaging_docs.requirements(SETUP, "options.extras_require", "report")
OTEL = packaging_docs.requirements(SETUP, "options.extras_require", "otel")
INSTALLED = RUNTIME + AIRFLOW + DELTA + OTEL + REPORT
# Run as commands, and imported by no file.
TOOLS = {"ruff", "mypy", "import-linter", "setuptools", "wheel", "ipykernel", "jupyterlab"}


@pytest.mark.parametrize("verb", sorted(tierfold.commands))
def test_each_verb_and_its_options_have_help_an_example_and_a_place_in_the_reference(
    verb: str,
) -> None:
    command = tierfold.commands[verb]
    context = click.Context(command, info_name=f"tierfold {verb}")
    usage, _, said = command.get_help(context).partition("\n")
    assert usage.startswith("Usage: ")
    assert f"tierfold {verb} " in said
    assert f"\n## {verb}\n" in CLI
    options = [param for param in command.params if isinstance(param, click.Option)]
    assert [option.name for option in options if not option.help] == []
    shown = [f"`{', '.join(option.opts)}" for option in options]
    assert [names for names in shown if names not in CLI] == []


def test_each_dependency_has_its_row() -> None:
    assert packaging_docs.missing_rows(RUNTIME, DEPENDENCIES) == []
    extras = TESTING + NOTEBOOK + AIRFLOW + DELTA + OTEL + REPORT
    assert [name for name in extras if f"`{name}`" not in DEPENDENCIES] == []


@pytest.mark.parametrize(
    ("parts", "needed", "allowed"),
    [
        ([source_tree.product], INSTALLED, INSTALLED),
        # The tests run the notebooks.
        ([source_tree.tests, source_tree.notebooks], TESTING, TESTING + RUNTIME + AIRFLOW),
        ([source_tree.notebooks], NOTEBOOK, NOTEBOOK + RUNTIME),
    ],
    ids=["product", "tests", "notebooks"],
)
def test_each_dependency_is_needed_and_each_import_is_a_dependency(
    parts: list[Callable[[], tuple[source_tree.Source, ...]]],
    needed: list[str],
    allowed: list[str],
) -> None:
    # pytest puts each test's own folder on the path.
    beside = {source.path.rpartition("/")[2].removesuffix(".py") for source in source_tree.tests()}
    sources = tuple(source for part in parts for source in part())
    imports = import_contracts.outside_imports(sources) - beside
    used = [name for name in needed if name not in TOOLS]
    assert packaging_docs.unused_requirements(used, imports) == []
    assert packaging_docs.unlisted_imports(allowed, imports) == []


def test_the_changelog_has_the_version() -> None:
    assert f"\n## {packaging_docs.version(SETUP)}\n" in CHANGELOG


MADE_UP = """
[metadata]
version = 1.2.3
[options]
install_requires =
    click>=8
    google-crc32c ~= 1.6
    numpy[all]
[options.entry_points]
console_scripts =
    a = jobs.a:main
    b=jobs.b:run
"""


def test_setup_cfg_is_read_as_it_is_written() -> None:
    assert packaging_docs.version(MADE_UP) == "1.2.3"
    assert packaging_docs.entry_points(MADE_UP) == {"jobs.a", "jobs.b"}
    assert packaging_docs.requirements(MADE_UP, "options", "install_requires") == [
        "click",
        "google-crc32c",
        "numpy",
    ]


def test_an_unused_requirement_and_an_unlisted_import_are_found() -> None:
    assert packaging_docs.unused_requirements(["click", "google-crc32c"], {"click"}) == [
        "setup.cfg: google-crc32c is required and never imported; drop it"
    ]
    assert packaging_docs.unlisted_imports(["google-crc32c"], {"google_crc32c", "rich"}) == [
        "setup.cfg: rich is imported and not required"
    ]


def test_a_missing_row_is_found() -> None:
    page = "| name | default |\n|---|---|\n| `a.b` | 1 |\n"
    assert packaging_docs.missing_rows(["a.b", "a.c"], page) == ["no table row begins with `a.c`"]
