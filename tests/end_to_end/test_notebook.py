"""The notebooks run in a new kernel from any folder, and their output is right."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

from tests.jobs.commands import ROOT, users_environment
from tests.jobs.segment_rows_expected import expected_rows
from tests.jobs.tiers import SAMPLE, records_in
from tests.storage.emulators import s3, s3_environment, uploaded
from tests.storage.tiers.aiven_samples import ZSTD
from tierfold.compaction.model.wording import spaced
from tierfold.storage.segments.segment_reader import read_segment

PNG: Final = b"\x89PNG\r\n\x1a\n"
KEY: Final = 4
VALUE: Final = 5
LOGS: Final = sorted(SAMPLE.glob("kafka-tiered-storage/*/*.log"))
STEPS: Final = ("scan", "scan clean", "rewrite")
TIER_CELL: Final = "shutil.copytree("
A_MINUTE_LATER: Final = """
import time

env = spark._jvm.org.apache.spark.SparkEnv.get()
field = env.getClass().getDeclaredField("pythonWorkers")
field.setAccessible(True)
factories = field.get(env).valuesIterator()
while factories.hasNext():
    factory = factories.next()
    getattr(factory, "org$apache$spark$api$python$PythonWorkerFactory$$cleanupIdleWorkers")()
time.sleep(2)  # The workers' messages come through the JVM.
"""
"""Closes the connections to idle Python workers, as Spark does after a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The outputs of cells."""

    outputs: list[Any]

    @property
    def text(self) -> str:
        """All text, without colours."""
        return re.sub(r"\x1b\[[\d;]*m", "", "\n".join(map(_text, self.outputs)))

    @property
    def images(self) -> list[bytes]:
        """The figures."""
        pictures = (output.get("data", {}).get("image/png") for output in self.outputs)
        return [base64.b64decode(picture) for picture in pictures if picture is not None]

    def numbers(self, pattern: str) -> list[int]:
        """The numbers in the one line that the pattern matches."""
        (found,) = re.findall(rf"^'?{pattern}'?$", self.text, re.MULTILINE)
        return [int(number) for number in ([found] if isinstance(found, str) else found)]

    def is_quiet(self) -> bool:
        """Whether there is neither a traceback nor a warning."""
        return "Traceback" not in self.text and "WARN " not in self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """The folders of a notebook's run."""

    working: Path
    temporary: Path
    home: Path

    @property
    def tier(self) -> Path:
        """The notebook's copy of the sample."""
        (tier,) = self.temporary.glob("tierfold-*")
        return tier

    def run(self, cells: Any) -> None:
        """Execute the notebook; a cell that fails raises an error."""
        folder = {"metadata": {"path": str(self.working)}}
        environment = {name: t for name, t in users_environment().items() if "PYTEST" not in name}
        # The kernel uses this checkout's code, folders that tests can read, and no user's settings.
        own = {"PYTHONPATH": ROOT, "TMPDIR": self.temporary, "IPYTHONDIR": self.home}
        own["MPLCONFIGDIR"] = self.home
        NotebookClient(cells, timeout=240, resources=folder).execute(
            env=environment | {name: str(path) for name, path in own.items()}
        )
        assert list(self.working.iterdir()) == [], "the notebook left files in its working folder"


def _text(output: Any) -> str:
    """The text of a cell's output; a table has its text in HTML."""
    data = output.get("data", {})
    if data.get("text/html", "").startswith("<pre"):
        return html.unescape(re.sub(r"<[^>]*>", "", data["text/html"]))
    return output.get("text") or data.get("text/plain", "")


def notebook(name: str) -> Any:
    return nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)


def new_folders(factory: pytest.TempPathFactory) -> Folders:
    clone, temporary, home = map(factory.mktemp, ("clone", "temporary", "home"))
    (clone / "sample").symlink_to(ROOT / "sample")
    (clone / "notebooks").mkdir()
    return Folders(working=clone / "notebooks", temporary=temporary, home=home)


def shown_by(cells: Iterable[Any]) -> Shown:
    return Shown(outputs=[output for cell in cells for output in cell.get("outputs", ())])


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    found = notebook("a_segment_by_hand")
    new_folders(tmp_path_factory).run(found)
    return shown_by(found.cells)


@pytest.fixture(scope="module")
def round_(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shown, Path]:
    """The outputs of `one_round_observed`, and its tier."""
    found, folders = notebook("one_round_observed"), new_folders(tmp_path_factory)
    folders.run(found)
    return shown_by(found.cells), folders.tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The outputs for a tier in a folder, and perhaps those for one in a bucket after it."""

    in_folder: Shown
    tier: Path
    in_bucket: Shown | None

    @property
    def shown(self) -> tuple[Shown, ...]:
        """All outputs, by place."""
        return (self.in_folder,) if self.in_bucket is None else (self.in_folder, self.in_bucket)


@pytest.fixture(
    scope="module",
    params=[False, pytest.param(True, marks=pytest.mark.soak)],
    ids=["folder", "folder and bucket"],
)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    found, folders = notebook("a_topic_as_a_table"), new_folders(tmp_path_factory)
    (tier_cell,) = (cell for cell in found.cells if TIER_CELL in cell.source)
    first = found.cells.index(tier_cell) + 1
    again = [
        new_code_cell(cell.source)
        for cell in found.cells[first:-1]
        if cell.cell_type == "code" and "plt" not in cell.source
    ]
    again = [new_code_cell(f"tier = {uploaded(SAMPLE, s3())!r}"), *again] if request.param else []
    found.cells[-1:] = [*again, new_code_cell(A_MINUTE_LATER), found.cells[-1]]
    with pytest.MonkeyPatch.context() as environment:
        for name, text in s3_environment(s3()).items():
            environment.setenv(name, text)
        folders.run(found)
    end = len(found.cells) - len(again) - 2
    return Table(
        in_folder=shown_by([*found.cells[:end], *found.cells[-2:]]),
        tier=folders.tier,
        in_bucket=shown_by(found.cells[end:-2]) if again else None,
    )


def new_logs(tier: Path) -> list[Path]:
    """The logs that the notebook's runs wrote."""
    originals = {path.name for path in LOGS}
    found = sorted(tier.glob("kafka-tiered-storage/*/*.log"))
    return [path for path in found if path.name not in originals]


def committed(logs: list[Path]) -> list[tuple[Any, ...]]:
    """The committed records of the sample's logs, read without Spark."""
    return expected_rows("tiered", 0, logs, is_committed=True)


@pytest.mark.soak
def test_the_segment_has_the_batches_and_records_that_the_reader_finds(by_hand: Shown) -> None:
    batches = list(read_segment(LOGS[-1]).batches())
    records = [record for batch in batches for record in batch.records]
    (batch_count, record_count), _ = (
        tuple(map(int, counts))
        for counts in re.findall(r"\.log: (\d+) batches, (\d+) records>", by_hand.text)
    )
    assert (batch_count, record_count) == (len(batches), len(records))
    for codec in ("lz4", "none", "zstd"):
        own = [batch for batch in batches if batch.codec == codec]
        (row,) = re.findall(rf"^{codec} +(\d+) +(\d+) +(\d+)$", by_hand.text, re.MULTILINE)
        assert tuple(map(int, row)) == (
            len(own),
            sum(len(batch.records) for batch in own),
            sum(batch.size_bytes for batch in own),
        )


@pytest.mark.soak
def test_it_shows_which_records_are_committed(by_hand: Shown) -> None:
    # An abort's data and marker are in the same segment here.
    visible = committed(LOGS[-1:])
    keys = {bytes(row[KEY]) for row in visible}
    found = by_hand.numbers(r"(\d+) committed records of (\d+) keys")
    assert found == [len(visible), len(keys)]
    data = [batch for batch in read_segment(LOGS[-1]).batches() if not batch.is_control]
    (aborted,) = re.findall(r"^ABORT +(\d+)$", by_hand.text, re.MULTILINE)
    assert int(aborted) == sum(len(batch.records) for batch in data) - len(visible)


@pytest.mark.soak
def test_it_decodes_a_stored_segment_and_marks_a_corrupt_batch(by_hand: Shown) -> None:
    first = ZSTD.segments()[0]
    log_bytes = by_hand.numbers(r"\d+ bytes are stored, the log has (\d+)")
    assert log_bytes == [len(first.parts["log"])]
    assert by_hand.numbers(r"(\d+) records are left out") == [77]
    assert re.search(r"^2 +2167 +8305 +8381 +\d+ +False$", by_hand.text, re.MULTILINE)
    assert [image[: len(PNG)] for image in by_hand.images] == [PNG]
    assert by_hand.is_quiet(), by_hand.text


@pytest.mark.soak
def test_the_round_shows_clean_and_dirty_segments(round_: tuple[Shown, Path]) -> None:
    shown, _ = round_
    assert "Offsets: log start 0, first dirty 4437" in shown.text
    assert "the log is dirty from offset 4437 on" in shown.text
    assert len(shown.images) == len(set(shown.images)) == 4


@pytest.mark.soak
def test_its_counts_add_up_and_its_result_is_right(round_: tuple[Shown, Path]) -> None:
    shown, tier = round_
    first, last = new_logs(tier)
    if read_segment(first).heads.last_offset[-1] > read_segment(last).heads.last_offset[-1]:
        first, last = last, first
    kept = sum(len(batch.records) for batch in read_segment(last).batches())
    (found,) = re.findall(r"^kept +(\d+)$", shown.text, re.MULTILINE)
    assert int(found) == kept
    sources = [first, *LOGS[1:]]
    read = sum(len(batch.records) for log in sources for batch in read_segment(log).batches())
    assert shown.numbers(r"(\d+) records read, (\d+) with an outcome") == [read, read]
    size = sum(log.stat().st_size for log in sources)
    done = {step: shown.numbers(rf"{step}: (\d+) of (\d+) bytes") for step in STEPS}
    assert done["rewrite"] == [size, size]
    dirty, clean = (done[step][0] for step in ("scan", "scan clean"))
    assert done["scan"] + done["scan clean"] == [dirty, dirty, clean, clean]
    assert dirty + clean == size
    latest = {bytes(row[KEY]): row[VALUE] for row in committed(LOGS)}
    assert {key: value for _, key, value in records_in([last])} == latest
    assert f"{len(latest)} keys agree with the originals" in shown.text
    assert shown.is_quiet(), shown.text


def test_the_table_stays_the_same(table: Table) -> None:
    latest = {bytes(row[KEY]): row[VALUE] for row in committed(LOGS)}
    rows = sum(value is not None for value in latest.values())
    for shown in table.shown:
        assert shown.numbers(r"(\d+) records, (\d+) keys, (\d+) rows") == [
            len(committed(LOGS)),
            len(latest),
            rows,
        ]
        assert shown.numbers(r"(\d+) records, (\d+) rows") == [len(latest), rows]
        assert shown.numbers(r"(\d+) rows changed") == [0]
        assert shown.numbers(r"(\d+) records = (\d+) rows \+ (\d+) tombstones") == [
            len(latest),
            rows,
            len(latest) - rows,
        ]
        assert shown.is_quiet(), shown.text
    assert len(latest) > rows > 900
    assert [image[: len(PNG)] for image in table.in_folder.images] == [PNG]
    records = records_in(new_logs(table.tier))
    assert {key: value for _, key, value in records} == latest


def test_the_functions_show_the_tier_before_and_after(table: Table) -> None:
    sizes = [sum(log.stat().st_size for log in logs) for logs in (LOGS, new_logs(table.tier))]
    for shown in table.shown:
        rows = [re.sub(r"\s", "", line).split("|")[1:-1] for line in shown.text.splitlines()]
        assert ["tiered", "0", "planned", "3", "1", str(sizes[0]), "1.0"] in rows
        (after,) = (row for row in rows if row[:3] == ["tiered", "0", "1"])
        # Delete horizons depend on the time of the run, and may take a byte more or less.
        assert int(after[3]) == pytest.approx(sizes[1], abs=100)
        assert after[4:] == ["12155", "0.0", str(sizes[0])]
    assert f"({spaced(sizes[0])} → {spaced(sizes[1])} bytes)" in table.in_folder.text
