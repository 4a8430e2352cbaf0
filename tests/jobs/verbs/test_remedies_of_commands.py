"""Remedies of disks and of arguments that name something, carried out as the message says."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.jobs.aiven import PLAIN
from tests.jobs.commands import ALWAYS, Ran, in_own_process, script, status_of, tierfold, told
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import (
    files_below,
    flip_last_byte,
    folder_of,
    key_of,
    latest_updates,
    live_values,
    updated_tier,
)
from tests.storage.call_scripts import Call, Rule
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.storage.tiers import local_store

ORDERS, PAYMENTS, REFUNDS = key_of("orders"), key_of("payments"), key_of("refunds")
SEGMENTS: Final = 2


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """Two partitions of two segments."""
    return updated_tier(tmp_path / "tier", [ORDERS, PAYMENTS], SEGMENTS)


def compacted(tier: Path, *options: str | Path) -> Ran:
    return tierfold("compact", tier, *ALWAYS, "--json", *options)


def is_compacted(tier: Path) -> None:
    """Assert that the command succeeds, and that `verify` finds nothing wrong after it."""
    compacted(tier).ends(0, "compacted")
    assert live_values(status_of(tier)["orders", 0]) == latest_updates(SEGMENTS)
    assert tierfold("verify", tier, "--json").code == 0


# 1. What the operating system answers.

ANSWERS: Final = [
    ("write", errno.ENOSPC, "Free space, then run again; nothing was committed."),
    ("write", errno.EFBIG, "Raise the limit (ulimit -f) or lower segment.bytes, then run again."),
    ("fsync", errno.EIO, "Check the disk and its mount (dmesg), then run again."),
    ("link", errno.EEXIST, "Run again: every attempt takes new names."),
    ("link", errno.EMLINK, "Put the tier on a file system with hard links."),
    ("link", errno.EACCES, "Let the user that runs tierfold read the tier and write new files"),
    ("link", errno.EINVAL, "Check the path and its file system, then run again."),
]


@pytest.mark.parametrize(("call", "number", "remedy"), ANSWERS)
def test_once_the_system_answers_otherwise_the_command_succeeds(
    call: str, number: int, remedy: str, tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_below(folder_of(tier, ORDERS))

    def refuses(*_: object, **_named: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(local_store, "os", SimpleNamespace(**{**vars(os), call: refuses}))
        reason = compacted(tier).ends(3, "failed")["reason"]
    assert remedy in reason, reason
    assert files_below(folder_of(tier, ORDERS)) == before
    is_compacted(tier)


def test_once_nothing_else_changes_new_objects_the_next_run_commits(tier: Path) -> None:
    def shortened(call: Call) -> None:
        call.result = tuple(
            one if one.key in before else one.__class__(**{**fields(one), "size_bytes": 1})
            for one in call.result
        )

    def fields(one: Any) -> dict[str, Any]:
        return {name: getattr(one, name) for name in one.__dataclass_fields__}

    before = {str(path.relative_to(tier)) for path in tier.rglob("0*")}
    with scripted(Rule(step="list", after=shortened)):
        reason = compacted(tier).ends(3, "failed", "nothing was committed")["reason"]
    assert "Look for what else changes the tier, then run again." in reason
    is_compacted(tier)


# 2. Which tier.


def test_a_tier_that_is_not_there_is_mounted(tier: Path, tmp_path: Path) -> None:
    tier.rename(tmp_path / "unmounted")
    refused = compacted(tier)
    said = "Check the path, and whether the tier's file system is mounted."
    assert refused.code in {2, 3}
    assert said in refused.stderr, refused
    (tmp_path / "unmounted").rename(tier)
    is_compacted(tier)


def test_of_two_layouts_in_one_folder_one_is_named(tier: Path, tmp_path: Path) -> None:
    aiven_tier(updated_tier(tmp_path / "other", [REFUNDS], SEGMENTS), tier, PLAIN.variant)
    said = "Name the layout of the tier you mean: --layout local or --layout aiven."
    compacted(tier).refuses(said)
    for layout, key in (("local", ORDERS), ("aiven", REFUNDS)):
        ran = compacted(tier, "--layout", layout)
        assert (ran.code, ran.outcomes[key.topic, 0]) == (0, "compacted"), ran.stdout
        assert tierfold("verify", tier, "--layout", layout, "--json").code == 0


def test_the_folder_that_holds_the_tier_is_named(tier: Path) -> None:
    compacted(tier.parent).refuses("Name the folder that holds kafka-tiered-storage")
    is_compacted(tier)


# 3. Which partitions, and by which engine.


def test_a_list_of_another_tier_is_made_again(tier: Path, tmp_path: Path) -> None:
    listed = tmp_path / "plan.json"
    other = updated_tier(tmp_path / "other", [REFUNDS], SEGMENTS)
    listed.write_text(tierfold("plan", other, *ALWAYS, "--json").stdout)
    refused = compacted(tier, "--partitions-from", listed)
    said = "It may be the list of another tier, or the topic was deleted: run `tierfold plan"
    refused.refuses("the tier has no partition refunds-0", f"{said} --json` again.")
    listed.write_text(tierfold("plan", tier, *ALWAYS, "--json").stdout)
    compacted(tier, "--partitions-from", listed).ends(0, "compacted")


@pytest.mark.parametrize("by", ["--topic", "--local-max"])
def test_too_much_for_one_process_is_made_less_or_allowed(tier: Path, by: str) -> None:
    both = sum(path.stat().st_size for path in tier.rglob("*.log"))
    limit = ("--local-max", str(both - 1))
    said = "Use --engine spark, choose less with --topic, or raise --local-max."
    compacted(tier, *limit).refuses(said)
    more = ("--topic", "orders", *limit) if by == "--topic" else ("--local-max", str(both))
    compacted(tier, *more).ends(0, "compacted")


def test_of_two_topics_of_one_name_the_id_is_given(tmp_path: Path) -> None:
    keys = [ORDERS, key_of("orders", incarnation=1)]
    tier = updated_tier(tmp_path / "tier", keys, SEGMENTS)
    assert compacted(tier).code == 0
    refused = tierfold("history", tier, "orders-0")
    refused.refuses("is a partition of 2 topics that had this name", "Choose one by its id:")
    (names,) = re.findall(r"by its id: (.*)\.$", refused.stderr.strip())
    for name in names.split(", "):
        assert tierfold("history", tier, name, "--json").code == 0


# 4. Where a document goes.


def test_a_document_gets_a_name_that_is_free(tier: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken.json"
    taken.write_text("{}")
    refused = tierfold("plan", tier, *ALWAYS, "--document", taken)
    refused.refuses("Choose a name that no run has used.")
    free = tmp_path / "free.json"
    assert tierfold("plan", tier, *ALWAYS, "--document", free).code == 0
    assert json.loads(free.read_text())["verb"] == "plan"


# 5. What `dump` and `restore` are given.


def test_a_segment_that_dump_calls_corrupt_is_taken_from_a_backup(tier: Path) -> None:
    log = min(folder_of(tier, ORDERS).glob("*.log"))
    backup = log.read_bytes()
    flip_last_byte(log)
    dumped = tierfold("dump", log)
    remedy = "If a backup of the segment has other bytes, dump that."
    assert not told(dumped.stderr, "bad CRC", remedy), dumped
    log.write_bytes(backup)
    assert tierfold("dump", log).code == 0


def test_the_log_of_a_segment_is_named(tier: Path, tmp_path: Path) -> None:
    folder = folder_of(tier, ORDERS)
    refused = tierfold("dump", folder)
    assert (refused.code, "Name a .log file in it." in refused.stderr) == (3, True), refused
    dumped = tierfold("dump", min(folder.glob("*.log")))
    assert (dumped.code, dumped.stdout.count('"baseOffset"')) == (0, 3)
    refused = tierfold("dump", tmp_path / "none.log")
    assert "Check the path and its permissions." in refused.stderr, refused


def test_a_state_that_is_not_there_is_looked_up_in_the_history(tier: Path) -> None:
    for _ in range(2):
        assert compacted(tier, "--first-dirty", "0", "--topic", "orders").code == 0

    def restore(to: str) -> Ran:
        return tierfold("restore", tier, "orders-0", "--to", to, "--json")

    for to in ("2020-01-01T00:00:00Z", "no-run"):
        refused = restore(to)
        refused.refuses("shows times and runs.")
        (command,) = re.findall(r"`tierfold (history \S+ \S+)` shows", refused.stderr)
    lines = tierfold(*command.split(), "--json").entries[0]["history"]
    found = str(lines[-1]["run"])
    restore(found[:4]).refuses("is a prefix of 2 runs", "Give more of the name.")
    assert restore(found).code == 0
    restore(str(lines[-1]["committed_at"])).ends(0, "restored")


def test_a_stdout_that_is_closed_is_left_open() -> None:
    closed = in_own_process("sh", "-c", 'exec "$0" status sample --json >&-', script("tierfold"))
    assert "Leave it open; `> /dev/null` drops the result." in closed.stderr, closed
    command = 'exec "$0" status sample --json > /dev/null'
    assert in_own_process("sh", "-c", command, script("tierfold")).code == 0
