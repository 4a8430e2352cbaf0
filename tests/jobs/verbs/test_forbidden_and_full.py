"""Without permission or disk space a run fails cleanly, in a process without root's rights."""

from __future__ import annotations

import contextlib
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.claims import catalog_of
from tests.jobs.commands import ALWAYS, ROOT, Ran, in_own_process, status_of, tierfold, told
from tests.jobs.tiers import (
    files_below,
    folder_of,
    key_of,
    latest_updates,
    live_values,
    made_tier,
    put_segment,
    updated_tier,
)
from tests.storage.live_segments import data
from tierfold.compaction.discovery.view import never_claimed
from tierfold.compaction.model.segments import PartitionKey

FILE_BYTES_MOST: Final = 4 * 2**20
SPARE: Final = "sound"
UNREADABLE, UNLISTABLE, UNWRITABLE, TOO_LARGE = "unreadable", "unlistable", "unwritable", "large"
TOPICS: Final = (UNREADABLE, UNLISTABLE, UNWRITABLE, TOO_LARGE, SPARE)


def confined(*arguments: str | Path) -> Ran:
    """The command where permissions bind and no file may grow beyond `FILE_BYTES_MOST`."""
    engine = ("--engine", "local") if arguments[0] == "compact" else ()
    return in_own_process(
        sys.executable, "-m", "tests.jobs.confined", str(FILE_BYTES_MOST), *arguments, *engine
    )


@contextmanager
def forbidden(path: Path, mode: int) -> Iterator[None]:
    """The path with fewer permissions for a while."""
    before = stat.S_IMODE(path.stat().st_mode)
    path.chmod(mode)
    try:
        yield
    finally:
        path.chmod(before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One run without some permissions, and one with all of them and without a limit."""

    before: dict[str, dict[str, str]]
    """Per topic every file and its digest."""
    run: Ran
    after: dict[str, dict[str, str]]
    status: dict[tuple[str, int], dict[str, Any]]
    """After the first run."""
    again: Ran


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    tier = updated_tier(tmp_path_factory.mktemp("forbidden"), [*map(key_of, TOPICS)], 2)
    _put_large(tier)
    folders = {topic: folder_of(tier, key_of(topic)) for topic in TOPICS}
    before = {topic: files_below(folder) for topic, folder in folders.items()}
    log = sorted(folders[UNREADABLE].glob("*.log"))[1]
    with (
        forbidden(log, 0),
        forbidden(folders[UNLISTABLE], 0),
        forbidden(folders[UNWRITABLE], 0o555),
    ):
        run = confined("compact", tier, *ALWAYS, "--json")
    after = {topic: files_below(folder) for topic, folder in folders.items()}
    status = status_of(tier)
    again = tierfold("compact", tier, *ALWAYS, "--json")
    return Course(before=before, run=run, after=after, status=status, again=again)


def _put_large(tier: Path) -> None:
    """What is left of it passes the limit, and Spark's own small files do not."""
    key = key_of(TOO_LARGE)
    start = 22
    for number in range(3):
        value = bytes([number]) * (FILE_BYTES_MOST // 2)
        batch = data(start + number, (f"large {number}".encode(), value))
        put_segment(tier, key, [batch], start_offset=start + number)


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        (UNREADABLE, (".log", "no permission", "Let the user that runs tierfold read the tier")),
        (UNLISTABLE, ("cannot list", "no permission", "Let the user that runs tierfold read")),
        (UNWRITABLE, (".log", "cannot create", "no permission", "write new files in it")),
        (TOO_LARGE, (".log", "cannot write", "file size limit", "then run again")),
    ],
)
def test_a_partition_fails_with_the_place_and_the_remedy_and_loses_nothing(
    course: Course, topic: str, words: tuple[str, ...]
) -> None:
    report = course.run.partitions[topic, 0]
    assert (course.run.code, report["outcome"] in {"failed", "refused"}) == (3, True)
    assert not told(report["reason"], *words), report["reason"]
    assert "This is a bug" not in report["reason"]
    assert course.after[topic] == course.before[topic]
    live = [segment["id"] for segment in course.status[topic, 0]["segments"]]
    assert len(live) == len([name for name in course.before[topic] if name.endswith(".log")])
    assert (course.again.code, course.again.outcomes[topic, 0]) == (0, "compacted")


def test_the_other_partition_is_compacted(course: Course) -> None:
    assert course.run.outcomes[SPARE, 0] == "compacted"
    assert live_values(course.status[SPARE, 0]) == latest_updates(2)
    assert course.again.outcomes[SPARE, 0] == "nothing_to_do"


def test_a_tier_that_may_not_be_entered_is_one_clear_sentence(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "closed" / "tier")
    for closed in (tier.parent, tier, tier / "kafka-tiered-storage"):
        with forbidden(closed, 0):
            ran = confined("plan", tier)
        assert ran.code == 3, ran.stderr
        assert not told(ran.stderr, "tierfold", str(closed), "ermission"), ran.stderr
        assert "Traceback" not in ran.stderr
        assert confined("plan", tier).code == 0


def test_a_catalog_that_is_full_or_forbidden_shows_no_panic(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [key_of("orders")], 1)
    expire = ("--set", "tier.binding=detached", "--set", "cleanup.policy=delete")
    command = ("vacuum", tier, *expire, "--set", "retention.ms=1")
    claimed(tier, key_of("orders"))
    (bucket,) = (tier / "_tierfold" / "partitions").glob("bucket=*")
    with forbidden(bucket, 0o555):
        ran = confined(*command)
    full = in_own_process(sys.executable, "-m", "tests.jobs.confined", "0", *command)
    for done, word in ((ran, "Permission denied"), (full, "File too large")):
        said = " ".join(done.stdout.replace("│", " ").split())
        assert (done.code, word in said, "panicked" in done.stderr) == (3, True, False), done
        assert "Check that the folder is there, its permissions, and the free space." in said
    assert tierfold(*command).code == 0


def claimed(tier: Path, key: PartitionKey) -> None:
    """The catalog is made, with a row of the partition."""
    catalog_of(tier).claim([never_claimed(key)], "run", at_ms=1)


READ_ONLY: Final = ("jobs", "storage", "compaction", "conf", "tierfold")
ELSEWHERE: Final = """
import os, sys
from tests.jobs.confined import confine
confine(2**30)
os.chdir(sys.argv[1])
os.environ.pop("XDG_CACHE_HOME", None)
os.environ |= {"HOME": sys.argv[1], "TMPDIR": sys.argv[2]}
os.execv(sys.executable, [sys.executable, *sys.argv[3:]])
"""


# The second as Spark's Python workers do: what they import first may be compiled.
IMPORTS: Final = "import tierfold.jobs.engines.task_assignment"


@pytest.mark.parametrize("runs", [("-m", "tierfold", "--version"), ("-c", IMPORTS)])
def test_where_nothing_can_be_written_kernels_are_kept_in_a_private_folder(
    runs: tuple[str, str], tmp_path: Path
) -> None:
    installed, temporary = tmp_path / "installed", tmp_path / "temporary"
    temporary.mkdir()
    for name in READ_ONLY:
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, installed / name, symlinks=True, ignore=unwanted)
    folders = [installed, *(path for path in installed.rglob("*") if path.is_dir())]
    with contextlib.ExitStack() as stack:
        for folder in folders:
            stack.enter_context(forbidden(folder, 0o555))
        ran = in_own_process(sys.executable, "-c", ELSEWHERE, installed, temporary, *runs)
    (line,) = ran.stderr.splitlines()
    assert (ran.code, line.startswith("Compiled kernels are kept in a temporary")) == (0, True)
    assert list(temporary.iterdir()) == []


def test_a_catalog_that_may_not_be_written_is_one_clear_sentence(tmp_path: Path) -> None:
    tier = updated_tier(tmp_path / "tier", [key_of("orders")], 1)
    before = files_below(tier)
    with forbidden(tier, 0o555):
        ran = confined("compact", tier, *ALWAYS)
    assert ran.code == 3, ran.stderr
    said = (ran.stdout + ran.stderr).replace("\n", "")  # A path may go over the end of a line.
    assert not told(said, "_tierfold", "ermission")
    assert "Traceback" not in said
    assert files_below(tier) == before
    assert confined("compact", tier, *ALWAYS).code == 0
