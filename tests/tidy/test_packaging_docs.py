"""The packaging docs agree with the code, and every kind of mismatch is found."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from tests.tidy import import_contracts, packaging_docs, source_tree
from tierfold.jobs.cli.commands import tierfold

README = (source_tree.ROOT / "README.md").read_text(encoding="utf-8")
CHANGELOG = (source_tree.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
SETUP = (source_tree.ROOT / "setup.cfg").read_text(encoding="utf-8")
RUNTIME = packaging_docs.requirements(SETUP, "options", "install_requires")
TESTING = packaging_docs.requirements(SETUP, "options.extras_require", "test")
NOTEBOOK = packaging_docs.requirements(SETUP, "options.extras_require", "notebook")
# Run as commands, imported by nobody.
TOOLS = {"ruff", "mypy", "import-linter", "setuptools", "wheel", "ipykernel", "jupyterlab"}

each_verb = pytest.mark.parametrize("verb", sorted(tierfold.commands))


@each_verb
def test_each_verb_is_in_the_readme(verb: str) -> None:
    assert f"tierfold {verb} " in README


@each_verb
def test_each_verb_has_help_with_an_example(verb: str) -> None:
    command = tierfold.commands[verb]
    context = click.Context(command, info_name=f"tierfold {verb}")
    usage, _, said = command.get_help(context).partition("\n")
    assert usage.startswith("Usage: ")
    assert f"tierfold {verb} " in said


@each_verb
def test_each_option_of_a_verb_says_what_it_does(verb: str) -> None:
    options = [param for param in tierfold.commands[verb].params if isinstance(param, click.Option)]
    assert [option.name for option in options if not option.help] == []


@each_verb
def test_each_option_of_a_verb_is_in_the_readme(verb: str) -> None:
    options = {name for param in tierfold.commands[verb].params for name in param.opts}
    assert [name for name in sorted(options) if name[0] == "-" and f"`{name}" not in README] == []


def test_each_dependency_has_its_row() -> None:
    assert packaging_docs.missing_rows(RUNTIME, README) == []
    assert [name for name in TESTING + NOTEBOOK if f"`{name}`" not in README] == []


def test_each_dependency_is_needed_and_each_import_is_a_dependency() -> None:
    imports = import_contracts.outside_imports(source_tree.product())
    assert packaging_docs.unused_requirements(RUNTIME, imports) == []
    assert packaging_docs.unlisted_imports(RUNTIME, imports) == []


def test_each_test_dependency_is_needed_and_each_import_of_a_test_is_a_dependency() -> None:
    # The tests run the notebooks.
    imports = import_contracts.outside_imports(source_tree.tests() + source_tree.notebooks())
    imports = {name for name in imports if not _is_a_test_file(name)}
    assert packaging_docs.unused_requirements(set(TESTING) - TOOLS, imports) == []
    assert packaging_docs.unlisted_imports(TESTING + RUNTIME, imports) == []


def test_each_notebook_dependency_is_needed_and_each_import_of_one_is_a_dependency() -> None:
    imports = import_contracts.outside_imports(source_tree.notebooks())
    assert packaging_docs.unused_requirements(set(NOTEBOOK) - TOOLS, imports) == []
    assert packaging_docs.unlisted_imports(NOTEBOOK + RUNTIME, imports) == []


def _is_a_test_file(name: str) -> bool:
    # pytest puts each test's own folder on the path.
    return any(source.path.endswith(f"/{name}.py") for source in source_tree.tests())


def test_the_changelog_has_the_version() -> None:
    assert f"\n## {packaging_docs.version(SETUP)}\n" in CHANGELOG


@pytest.mark.parametrize("page", [path for path, _ in source_tree.texts() if path.endswith(".md")])
def test_links_lead_somewhere(page: str) -> None:
    file = source_tree.ROOT / page
    targets = packaging_docs.links(file.read_text(encoding="utf-8"))
    assert [target for target in targets if not (file.parent / target).exists()] == []


@pytest.mark.jvm
@pytest.mark.parametrize("block", packaging_docs.python_blocks(README))
def test_the_readmes_python_runs_and_prints(block: str) -> None:
    run = [sys.executable, "-c", block]
    done = subprocess.run(run, cwd=source_tree.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 1


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


def test_a_requirement_for_nothing_and_an_import_of_luck_are_found() -> None:
    assert packaging_docs.unused_requirements(["click", "google-crc32c"], {"click"}) == [
        "setup.cfg: google-crc32c is required and never imported; drop it"
    ]
    assert packaging_docs.unlisted_imports(["google-crc32c"], {"google_crc32c", "rich"}) == [
        "setup.cfg: rich is imported and not required"
    ]


def test_a_missing_row_is_found() -> None:
    page = "| name | default |\n|---|---|\n| `a.b` | 1 |\n"
    assert packaging_docs.missing_rows(["a.b", "a.c"], page) == [
        "README.md: no table row begins with `a.c`"
    ]


def test_links_and_blocks_are_found_in_a_page() -> None:
    page = (
        "[a](docs/a.md#top) [b](https://b) [c](#c)\n```python\nx = 1\n```\n```console\n$ y\n```\n"
    )
    assert packaging_docs.links(page) == ["docs/a.md"]
    assert packaging_docs.python_blocks(page) == ["x = 1\n"]
