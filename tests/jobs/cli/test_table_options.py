"""`-o`, `--only`, `--sort` and `--segments` of the real command."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.commands import ALWAYS, Ran, tierfold
from tests.jobs.tiers import key_of, made_tier, put_updates, updated_tier
from tierfold.jobs.cli.commands import tierfold as group

VERBS: Final = {
    "plan": ALWAYS,
    "compact": (*ALWAYS, "--dry-run"),
    "status": (),
    "verify": (),
    "vacuum": ("--dry-run",),
}
"""The verbs that print a table of partitions, so that they change nothing."""


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small partition, a larger one, and one that is refused."""
    tier = made_tier(tmp_path_factory.mktemp("table options") / "tier")
    put_updates(tier, key_of("a-small"), 0)
    for number in range(3):
        put_updates(tier, key_of("larger"), number)
    for number in (0, 2):
        put_updates(tier, key_of("with-a-gap"), number)
    return tier


def rows(ran: Ran) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(ran.stdout, newline="")))


def topics(entries: list[Any]) -> list[str]:
    return [entry["topic"] for entry in entries]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_with_a_table_of_partitions_takes_them(verb: str, tier: Path) -> None:
    words = (verb, tier, *VERBS[verb])
    whole = tierfold(*words, "-o", "json")
    code = whole.code
    assert code in {0, 3}
    assert topics(whole.entries) == ["a-small", "larger", "with-a-gap"]
    named = tierfold(*words, "--json")
    assert (named.code, named.untimed) == (code, whole.untimed)
    found = tierfold(*words, "-o", "csv")
    assert found.code == code
    for row, entry in zip(rows(found), whole.entries, strict=True):
        for name, text in row.items():
            shown = entry[name]
            joined = "; ".join(shown) if isinstance(shown, list) else shown
            assert text == ("" if joined is None else str(joined)), name
    for one in ("table", "wide"):
        printed = tierfold(*words, "-o", one, "--sort", "partition")
        assert (printed.code, "with-a-gap-0" in printed.stdout) == (code, True)
    outcome = whole.entries[1]["outcome"]
    only = tierfold(*words, "--only", outcome, "-o", "json")
    assert only.code == code  # Exit codes are of all partitions.
    assert {entry["outcome"] for entry in only.entries} == {outcome}
    assert only.document["totals"] == whole.document["totals"]
    assert f"Shown: {len(only.entries)} of 3" in tierfold(*words, "--only", outcome).stdout


def test_no_other_verb_takes_them() -> None:
    with_them = {
        name
        for name, verb in group.commands.items()
        if "only" in {option.name for option in verb.params}
    }
    # `runs` has a table of runs (test_runs.py), the last two one of a log directory.
    assert with_them == {*VERBS, "runs", "upload", "local-retention"}
    tierfold("history", "tier", "orders-0", "-o", "csv").refuses("No such option")


def test_only_leaves_out_of_the_print_and_not_of_the_work(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [key_of("one"), key_of("two")], 2)
    kept = tmp_path / "kept.json"
    words = ("--only", "failed", "-o", "json", "--document", kept)
    ran = tierfold("compact", tier, *ALWAYS, *words)
    assert (ran.code, ran.entries) == (0, [])
    assert ran.document["totals"]["partitions"]["compacted"] == 2
    document = json.loads(kept.read_text(encoding="utf-8"))
    assert [entry["outcome"] for entry in document["partitions"]] == ["compacted"] * 2
    assert "only" not in document


def test_a_reason_and_a_column_choose_what_is_printed(tier: Path) -> None:
    gap = tierfold("status", tier, "--only", "gap", "-o", "csv")
    assert (gap.code, topics(rows(gap))) == (3, ["with-a-gap"])
    by_bytes = tierfold("status", tier, "--sort", "bytes", "-o", "csv")
    # The catalog has no row of what is refused.
    assert topics(rows(by_bytes)) == ["larger", "a-small", "with-a-gap"]
    by_offset = tierfold("status", tier, "--sort", "clean-below", "--json")
    assert topics(by_offset.entries) == ["a-small", "larger", "with-a-gap"]


def test_status_lists_segments_only_where_it_is_asked_to(tier: Path) -> None:
    brief, whole = (tierfold("status", tier, "--json", *more) for more in ((), ("--segments",)))
    lists = {"segments", "retired", "orphans", "out_of_lineage"}
    for entry, with_lists in zip(brief.entries, whole.entries, strict=True):
        assert with_lists.keys() - entry.keys() == lists
        assert entry["live_segments"] == len(with_lists["segments"])
        sizes = [segment["size_bytes"] for segment in with_lists["segments"]]
        assert entry["live_bytes"] == sum(sizes)
        next_offset = with_lists["segments"][-1]["end_offset"] + 1 if sizes else None
        assert entry["next_offset"] == next_offset
    assert brief.entries[1]["dirty_ratio"] == 1
    assert brief.entries[2]["dirty_ratio"] is None
    total = tierfold("status", tier).stdout
    assert "3 partitions: 2 ok, 1 refused. 4 live segments," in total


def test_a_format_is_given_once_and_known(tier: Path) -> None:
    both = tierfold("status", tier, "--json", "-o", "csv")
    both.refuses("Two formats are given, json and csv")
    tierfold("status", tier, "-o", "csv", "--json").refuses("Two formats are given, csv and json")
    assert tierfold("status", tier, "-o", "json", "--json").code == 3
    tierfold("status", tier, "-o", "yaml").refuses("'yaml' is not one of 'table', 'wide'")
    # Before anything is done: a column that the verb does not have.
    tierfold("compact", tier, "--sort", "dirty").refuses("'dirty' is not one of 'partition'")


def test_wide_neither_folds_nor_cuts(tier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    (row,) = [
        line for line in tierfold("plan", tier, *ALWAYS, "-o", "wide").stdout.splitlines()
        if line.startswith("│ larger-0")
    ]
    assert row.count("│") == 7
