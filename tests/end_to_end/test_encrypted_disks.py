"""No key or value of an encrypted tier reaches a disk in plain text, even if the run is killed.

The tests search every file below Spark's folders, the temporary folders and the tier for a planted
key and value, repeatedly during the run, and in `make soak` after SIGKILL. There the same run on a
tier without encryption leaves the key in Spark's shuffle files, so the search would find it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest

from tests.end_to_end.processes import Application, awaited, repeated, signalled, started
from tests.jobs.aiven import ENCRYPTED_CASE, PLAIN, AivenCase
from tests.jobs.commands import ALWAYS, ON_SPARK, script, users_environment
from tests.jobs.tiers import key_of, made_tier, put_segment
from tests.storage.live_segments import data
from tests.storage.tiers.aiven_tiers import aiven_tier

pytestmark = pytest.mark.jvm

PLANTED_KEY: Final = b"a-planted-key-Kanarienvogel7Qz"
PLANTED_VALUE: Final = b"a-planted-value-Zeisig3Xw"
SEGMENTS: Final = 4
CHUNKS: Final = ("--set", "chunk.bytes=1", "--set", "segment.bytes=1")
"""Each segment is a chunk of the run, with shuffles of its own."""

UNCOMPRESSED: Final = "-Dspark.shuffle.compress=false -Dspark.rdd.compress=false"
"""Compressed files would hide the key from the search.

Options of the JVM, since with a SPARK_CONF_DIR it cannot use the archive of Spark's classes.
"""


@pytest.fixture(scope="module")
def uploads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tier of LocalTieredStorage in which every segment has the planted key and value."""
    folder = made_tier(tmp_path_factory.mktemp("local") / "tier")
    for number in range(SEGMENTS):
        records = ((PLANTED_KEY, PLANTED_VALUE), (f"own {number}".encode(), PLANTED_VALUE))
        batches = [data(number * 2, *records)]
        put_segment(folder, key_of("orders"), batches, start_offset=number * 2)
    return folder


@dataclass(kw_only=True)
class Search:
    """Searches all files below some folders, repeatedly."""

    folders: tuple[Path, ...]
    found: set[tuple[str, bytes]] = field(default_factory=set)
    rounds: int = 0
    shuffled: set[str] = field(default_factory=set)
    """The shuffle files that were not empty."""

    def once(self) -> None:
        """Search every file."""
        for folder in self.folders:
            for path in _files(folder):
                content = _content(path)
                name = str(path.relative_to(folder.parent))
                self.found |= {
                    (name, word) for word in (PLANTED_KEY, PLANTED_VALUE) if word in content
                }
                if path.suffix == ".data" and content:
                    self.shuffled.add(name)
        self.rounds += 1

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Search until the block ends, and once more."""
        with repeated(self.once, 0.02):
            yield
        self.once()


def _files(folder: Path) -> Iterator[Path]:
    """All files below the folder; skips folders that the run deletes meanwhile."""
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def _content(path: Path) -> bytes:
    """The file's bytes; empty for a socket or a deleted file."""
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A tier of a case, and its own folders for everything that a run could write."""

    folder: Path
    case: AivenCase

    @property
    def tier(self) -> Path:
        return self.folder / "tier"

    def search(self) -> Search:
        names = ("tier", "spark", "tmp", "streams")
        return Search(folders=tuple(self.folder / name for name in names))

    def compact(self, name: str) -> Application:
        """Start the command on Spark."""
        arguments = (*ALWAYS, *CHUNKS, *ON_SPARK, *self.case.arguments, "--json")
        environment = users_environment()
        environment |= {
            "TMPDIR": str(self.folder / "tmp"),
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={self.folder / 'tmp'}",
            "SPARK_LOCAL_DIRS": str(self.folder / "spark"),
            "SPARK_SUBMIT_OPTS": f"{environment.get('SPARK_SUBMIT_OPTS', '')} {UNCOMPRESSED}",
        }
        # The next run need not wait until the killed one is silent.
        command = (script("tierfold"), "compact", self.tier, *arguments, "--if-held", "take-over")
        return started(command, self.folder / "streams", name, environment)


def place(uploads: Path, folder: Path, case: AivenCase) -> Place:
    for name in ("spark", "tmp", "streams"):
        (folder / name).mkdir(parents=True)
    aiven_tier(uploads, folder / "tier", case.variant)
    return Place(folder=folder, case=case)


def killed_after_a_shuffle(at: Place, search: Search) -> None:
    """Kill all processes of a run once it has shuffled, and search what they leave."""
    with at.compact("killed") as running, search.under_way():
        awaited("shuffle files", lambda: len(search.shuffled) > 1 or running.process.poll())
        for pid in running.session:
            signalled(pid, signal.SIGKILL)
        running.process.wait()
    assert running.process.returncode == -signal.SIGKILL, running.stderr.read_text()


@pytest.mark.soak
def test_a_killed_run_leaves_no_record_of_an_encrypted_tier(uploads: Path, tmp_path: Path) -> None:
    at = place(uploads, tmp_path / "encrypted", ENCRYPTED_CASE)
    search = at.search()
    killed_after_a_shuffle(at, search)
    left = [path for path in (at.folder / "spark").rglob("*.data") if path.stat().st_size]
    assert left, "nothing was left to search"
    assert search.found == set()
    with at.compact("whole") as running:
        assert running.ended().code == 0


@pytest.mark.soak
def test_an_encrypted_tiers_records_reach_no_disk(uploads: Path, tmp_path: Path) -> None:
    at = place(uploads, tmp_path / "encrypted", ENCRYPTED_CASE)
    search = at.search()
    with at.compact("whole") as running, search.under_way():
        done = running.ended()
    assert done.code == 0, done
    assert done.entry["outcome"] == "compacted"
    assert search.rounds > 10
    assert len(search.shuffled) > 2
    assert search.found == set()
    cells = str([pq.read_table(path).to_pylist() for path in at.tier.rglob("*.parquet")])
    assert "compacted" in cells
    assert not any(word.decode() in cells for word in (PLANTED_KEY, PLANTED_VALUE))
    live = ENCRYPTED_CASE.segments(at.tier).values()
    assert any(PLANTED_VALUE in segment.parts["log"] for segment in live)


@pytest.mark.soak
def test_the_same_search_finds_a_plain_tiers_key(uploads: Path, tmp_path: Path) -> None:
    at = place(uploads, tmp_path / "plain", PLAIN)
    search = at.search()
    killed_after_a_shuffle(at, search)
    assert "tier" in {name.partition("/")[0] for name, _ in search.found}
    assert PLANTED_KEY in {word for name, word in search.found if name.startswith("spark/")}
