"""If the result cannot be written, a sentence and the exit code say whether the work is done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.commands import ALWAYS, ROOT, status_of, tierfold, told
from tests.jobs.tiers import copied, files_below, flip_last_byte, key_of, updated_tier
from tests.spread import most_in_soak

tier = copied(lambda folder: updated_tier(folder, [key_of("orders")], 2))

COMPACT: Final = ("compact", *ALWAYS, "--engine", "local")
READING: Final = (
    ("plan", *ALWAYS),
    ("plan", *ALWAYS, "--json"),
    ("status",),
    ("status", "--json"),
    ("verify", "--engine", "local", "--json"),
    ("verify", "--engine", "local"),
    ("history",),
    ("history", "--json"),
)


def ran(tier: Path, command: tuple[str, ...], shell: str) -> subprocess.CompletedProcess[str]:
    """`tierfold`, with its output redirected by a shell."""
    verb, *options = command
    names = ["orders-0"] if verb == "history" else []
    command_line = [sys.executable, "-m", "tierfold", verb, str(tier), *names, *options]
    return subprocess.run(
        ["sh", "-c", f'"$@" {shell}', "sh", *command_line],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def is_compacted(tier: Path) -> bool:
    return len(status_of(tier)["orders", 0]["segments"]) == 1


@pytest.mark.parametrize("options", most_in_soak([(), ("--json",)], 1))
def test_a_full_stdout_after_a_commit(tier: Path, options: tuple[str, ...]) -> None:
    done = ran(tier, (*COMPACT, *options), ">/dev/full")
    assert done.returncode == 5, done.stderr
    words = ("No space left on device", "outcome `compacted`", "what it has committed stays")
    assert not told(done.stderr, *words)
    assert "Traceback" not in done.stderr
    assert is_compacted(tier)


@pytest.mark.parametrize("options", most_in_soak([(), ("--json",)], 1))
def test_the_code_of_a_failed_partition_goes_before(tier: Path, options: tuple[str, ...]) -> None:
    flip_last_byte(next(tier.glob("kafka-tiered-storage/orders-0-*/0*.log")))
    done = ran(tier, (*COMPACT, *options), ">/dev/full")
    assert done.returncode == 3, done.stderr
    assert "outcome `failed`" in done.stderr
    assert not is_compacted(tier)


@pytest.mark.parametrize("command", most_in_soak(READING, 2), ids=" ".join)
def test_a_full_stdout_of_a_verb_that_reads(tier: Path, command: tuple[str, ...]) -> None:
    assert tierfold("compact", tier, *COMPACT[1:]).code == 0
    done = ran(tier, command, ">/dev/full")
    assert done.returncode == 5, done.stderr
    assert "Traceback" not in done.stderr


def test_a_dump_into_a_full_disk(tier: Path) -> None:
    log = next(tier.glob("kafka-tiered-storage/orders-0-*/0*.log"))
    done = ran(log, ("dump",), ">/dev/full")
    assert (done.returncode, "Traceback" in done.stderr) == (5, False), done.stderr


@pytest.mark.parametrize("options", most_in_soak([(), ("--json",)], 1))
def test_a_closed_stdout_stops_the_verb_before_it_begins(
    tier: Path, options: tuple[str, ...]
) -> None:
    before = files_below(tier)
    done = ran(tier, (*COMPACT, *options), ">&-")
    assert done.returncode == 2, done.stderr
    assert not told(done.stderr, "stdout is closed", "nothing was begun", "/dev/null")
    assert files_below(tier) == before


@pytest.mark.parametrize("options", ["", "--json"])
def test_a_reader_that_goes_early_ends_quietly(tier: Path, options: str) -> None:
    piped = f'"$@" {options} | sh -c "exit 0"; echo "${{PIPESTATUS[0]}}"'
    command = ["bash", "-c", piped, "bash", sys.executable, "-m", "tierfold", "status", str(tier)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.strip() in {"0", "141"}


@pytest.mark.parametrize(
    "redirected", most_in_soak(["2>&- <&-", "2>&-", "2>/dev/full <&-", "2>/dev/full"], 2)
)
def test_a_closed_or_full_stderr_changes_nothing(tier: Path, redirected: str) -> None:
    done = ran(tier, (*COMPACT, "--json"), redirected)
    assert done.returncode == 0
    assert '"outcome": "compacted"' in done.stdout
    assert is_compacted(tier)


def test_a_document_that_cannot_be_written_after_a_commit(tier: Path) -> None:
    place = "/proc/nowhere/document.json"
    done = ran(tier, (*COMPACT, "--json", "--document", place), "")
    assert done.returncode == 5, done.stderr
    assert not told(done.stderr, "/proc/nowhere", "outcome `compacted`")
    # The other copy was printed.
    assert '"outcome": "compacted"' in done.stdout
    assert is_compacted(tier)
