"""Pages are current, their commands run and their links lead somewhere; others are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import transcripts
from scripts.pages import PAGES, current
from tests.tidy import page_links, source_tree
from tests.tidy.source_tree import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
AIRFLOW_PAGE = "docs/airflow.md"

each_page = pytest.mark.parametrize(
    "path", [path for path, _ in source_tree.texts() if path.endswith(".md")]
)


@pytest.mark.parametrize("path", PAGES)
def test_each_page_is_current(path: str) -> None:
    assert current(path) == (ROOT / path).read_text(encoding="utf-8"), "run `make pages`"


def test_the_readme_is_short() -> None:
    assert len(README.encode()) <= 10 * 1024


@each_page
def test_links_lead_somewhere(path: str) -> None:
    assert page_links.broken_links(ROOT / path) == []


@each_page
def test_commands_are_accepted(path: str) -> None:
    assert page_links.wrong_commands((ROOT / path).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "path",
    # Airflow is in an environment of its own: tests/airflow/test_airflow_page.py.
    [path for path, _ in source_tree.texts() if path.endswith(".md") and path != AIRFLOW_PAGE],
)
def test_imports_succeed(path: str) -> None:
    assert page_links.wrong_imports((ROOT / path).read_text(encoding="utf-8")) == []


def test_each_page_that_a_text_names_exists() -> None:
    texts = source_tree.texts()
    assert [fault for path, text in texts for fault in page_links.missing_pages(path, text)] == []


def test_the_readmes_python_runs_and_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    (block,) = page_links.python_blocks(README)
    exec(block, {})
    assert len(capsys.readouterr().out.splitlines()) > 1


def test_broken_links_are_found(tmp_path: Path) -> None:
    page, other = tmp_path / "a.md", tmp_path / "b.md"
    other.write_text("# Top\n\n## What `a.b` is: `x`\n\n```sh\n# no heading\n```\n")
    good = "[1](b.md) [2](b.md#what-ab-is-x) [3](https://c.d/e) ![4](b.md)\n\n# Mine\n\n[5](#mine)"
    page.write_text(good)
    assert page_links.broken_links(page) == []
    page.write_text("[1](c.md) [2](b.md#no-heading) [3](#gone)")
    assert [fault.split()[1] for fault in page_links.broken_links(page)] == [
        "c.md",
        "b.md#no-heading",
        "#gone",
    ]


def test_a_page_that_is_gone_is_found() -> None:
    gone = "docs/" + "gone.md"
    assert page_links.missing_pages("a.py", f"see docs/cli.md and {gone}") == [
        f"a.py: there is no {gone}"
    ]


def test_a_wrong_import_is_found() -> None:
    lines = "from ast import parse\nfrom ast import gone\nfrom tierfold.gone import parse\n"
    found = page_links.wrong_imports(f"```python\n{lines}```\n")
    assert found == ["ast.gone", "tierfold.gone.parse"]


@pytest.mark.parametrize("command", ["erase TIER", "compact TIER --sett a=b", "restore TIER a-0"])
def test_a_command_that_would_be_refused_is_found(command: str) -> None:
    fine = "$ tierfold plan TIER   # a comment\n$ make demo\n$ tierfold dump a.log | jq ."
    page = f"```console\n{fine}\n$ tierfold {command}\n```\n"
    assert [fault.partition(":")[0] for fault in page_links.wrong_commands(page)] == [
        f"$ tierfold {command}"
    ]


def test_output_that_differs_is_written_again() -> None:
    page = "```console\n$ tierfold config orders --set segment.bytes=7\nsettings of {}\n…\n```\n"
    assert transcripts.refreshed(page.format("orders")) == page.format("orders")
    assert transcripts.refreshed(page.format("payments")) == page.format("orders")


def test_new_commands_get_their_output_and_later_ones_the_names_that_were_printed() -> None:
    tour = (
        "```console\n$ mkdir -p build && cp -r sample build/tour\n"
        "$ tierfold compact build/tour --set cleanup.policy=compact --engine local\n{}\n…\n```\n"
        "Text.\n```console\n$ tierfold restore build/tour tiered-0 --to {} --dry-run\n{}\n…\n```\n"
    )
    run = "20260101T000000-AAAAAAAA"
    page = transcripts.refreshed(tour.format(f"run {run}", run, "?"))
    assert run not in page
    assert "\ntiered-0: nothing to do\n" in page
    assert transcripts.refreshed(page) == page


def test_a_command_that_fails_is_refused() -> None:
    with pytest.raises(RuntimeError, match="exit code"):
        transcripts.refreshed("```console\n$ tierfold plan build/none\n?\n```\n")
