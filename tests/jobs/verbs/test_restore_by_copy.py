"""`tierfold restore --copy` brings a state back under new ids; every verb goes on from there."""

from __future__ import annotations

from pathlib import Path

from tests.jobs.claims import ORDERS, catalog_of, row_of
from tests.jobs.commands import ALWAYS, status_of, tierfold
from tests.jobs.restores import (
    DETACHED,
    LATER,
    NOW,
    compacted_once,
    found_at,
    lines_of,
    parts,
    restore,
    sound,
    values,
)
from tests.jobs.tiers import copied, files_below, latest_updates, put_updates, sample_copy
from tierfold.compaction.model.origins import Copied
from tierfold.compaction.model.segment_ids import SegmentMark, mark_of
from tierfold.jobs.api.changing import restore as restored
from tierfold.storage.catalog.runs_table import RunsTable

tier = copied(compacted_once)


def test_the_earlier_state_comes_back_under_new_ids(tier: Path) -> None:
    before, to = row_of(tier), found_at(tier)
    entry = restore(tier, to).ends_alone(0, "restored")
    row = row_of(tier)
    sources = [old.segment for old in before.retired]
    assert not row.live_ids & before.named_ids
    assert before.named_ids == row.retired_ids
    assert [segment.first_id for segment in row.segments] == [one.segment_id for one in sources]
    mark = SegmentMark(catalog_of(tier).fingerprint(), is_restored=True)
    for copy, source in zip(row.segments, sources, strict=True):
        assert mark_of(copy.segment_id) == mark
        run, source_id = entry_run(tier), source.segment_id
        assert copy.origin == Copied(run=run, copy_of=source_id, upload=source_id)
        assert parts(tier, copy.segment_id) == parts(tier, source_id)
    assert values(tier) == latest_updates(2)
    assert row.cleaner_offset == 0
    shown = [(one["id"], one["copy_of"]) for one in entry["copies"]]
    assert shown == [(copy.segment_id, copy.copy_of) for copy in row.segments]
    assert [one["id"] for one in entry["back"]] == [one.segment_id for one in sources]
    assert entry["is_copy"]
    assert entry["objects_written"] == 10
    assert entry["parts_verified"] == {"by_checksum": 0, "by_reading_back": 10}
    sound(tier)


def entry_run(tier: Path) -> str:
    """The run of the newest commit."""
    return str(lines_of(tier)[0]["run"])


def test_what_is_live_already_is_not_copied_again(tier: Path) -> None:
    to = found_at(tier)
    assert restore(tier, to).code == 0
    put_updates(tier, ORDERS, 2)
    assert tierfold("compact", tier, *ALWAYS, *NOW, "--dry-run").code == 0
    before, row = files_below(tier), row_of(tier)
    restore(tier, to).ends(0, "nothing_to_do", "the segments of that state are the live ones")
    assert row_of(tier) == row
    assert tierfold("restore", tier, "orders-0", "--to", to, "--json").entry["outcome"] == (
        "nothing_to_do"
    )
    segments = {path for path in files_below(tier) if "_tierfold" not in str(path)}
    assert segments == {path for path in before if "_tierfold" not in str(path)}
    assert lines_of(tier)[0]["event"] == "restored"


def test_it_goes_back_and_forth_and_never_to_a_retired_id(tier: Path) -> None:
    states = [line["committed_at"] for line in lines_of(tier)]
    retired = row_of(tier).retired_ids
    for to in (states[-1], states[0], states[-1], states[0]):
        assert restore(tier, to).entry["outcome"] == "restored"
        row = row_of(tier)
        assert not row.live_ids & retired
        assert retired < row.retired_ids
        retired = row.retired_ids
        assert values(tier) == latest_updates(2)
        sound(tier)


def test_compact_and_vacuum_go_on_from_the_copies(tmp_path: Path) -> None:
    arguments = (*ALWAYS, *DETACHED, *NOW)
    alone, undone = (sample_copy(tmp_path / name) for name in ("alone", "undone"))
    for made in (alone, undone):
        assert tierfold("compact", made, *arguments).code == 0
    to = found_at(undone, "tiered-0")
    assert restore(undone, to, *NOW, name="tiered-0").code == 0
    copies = status_of(undone)["tiered", 0]["segments"]
    assert len(copies) == 3
    assert tierfold("vacuum", undone, *DETACHED, *LATER).code == 0
    assert [one["id"] for one in status_of(undone)["tiered", 0]["segments"]] == [
        one["id"] for one in copies
    ]
    assert status_of(undone)["tiered", 0]["retired"] == []
    sound(undone)
    # At the time of the first, so that horizons are equal.
    assert tierfold("compact", undone, *arguments, "--clock-is-right").code == 0
    live = [status_of(made)["tiered", 0]["segments"] for made in (alone, undone)]
    ((once,), (again,)) = live
    assert parts(alone, once["id"]) == parts(undone, again["id"])
    proven = tierfold("verify", undone, "--json").entries[0]
    assert (proven["corruptions"], proven["keys_compared"]) == ([], 999)


def test_the_first_state_is_restored_from_copies_once_its_segments_are_gone(tier: Path) -> None:
    to = found_at(tier)
    assert restore(tier, to, *NOW).code == 0
    assert tierfold("vacuum", tier, *DETACHED, *LATER).code == 0
    assert tierfold("compact", tier, *ALWAYS, *LATER).code == 0
    entry = restore(tier, to, *LATER).ends(0, "restored")
    row = row_of(tier)
    assert [segment.copy_of for segment in row.segments] == lines_of(tier)[-1]["segments"]
    assert [one["copy_of"] for one in entry["copies"]] == [one["id"] for one in entry["back"]]
    sound(tier)


def test_a_dry_run_says_what_would_be_copied_and_changes_nothing(tier: Path) -> None:
    before = files_below(tier)
    entry = restore(tier, found_at(tier), "--dry-run").ends(0, "planned")
    assert (entry["is_copy"], entry["copies"], len(entry["back"])) == (True, [], 2)
    shown = tierfold("restore", tier, "orders-0", "--to", found_at(tier), "--copy", "--dry-run")
    assert "2 segments would be live again, as copies under new ids" in shown.stdout
    assert "compares each copy with its source" in shown.stdout
    assert files_below(tier) == before


def test_the_printed_report_names_each_copy_and_its_source(tier: Path) -> None:
    ids = lines_of(tier)[-1]["segments"]
    shown = tierfold("restore", tier, "orders-0", "--to", found_at(tier), "--copy").stdout
    assert "2 segments live again, as copies under new ids" in shown
    assert all(f"copy of {segment_id}" in shown for segment_id in ids)
    assert "10 new objects verified by reading them back." in shown
    row = RunsTable(str(tier / "_tierfold")).read()[-1]
    assert (row.command, row.outcome) == ("restore", "restored")
    assert row.verified == {"by_checksum": 0, "by_reading_back": 10}
    assert row.bytes_written > row.bytes_out
    assert set(row.stage_seconds) == {"survey", "check", "rewrite", "commit"}


def test_without_the_option_nothing_is_copied(tier: Path) -> None:
    ran = tierfold("restore", tier, "orders-0", "--to", found_at(tier), "--json")
    entry = ran.ends(0, "restored")
    assert (entry["is_copy"], entry["copies"], entry["objects_written"]) == (False, [], 0)


def test_the_function_takes_copy_as_a_keyword(tier: Path) -> None:
    done = restored(tier, "orders-0", to=found_at(tier), copy=True)
    assert done.to_dict()["partitions"][0]["is_copy"]
