"""The notebook runs in a new kernel from any folder, and shows what it promises."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

from tests.jobs.commands import ROOT, users_environment
from tests.jobs.segment_rows_expected import expected_rows
from tests.jobs.tiers import SAMPLE, records_in
from tests.storage.emulators import IDENTITY, moto, uploaded
from tierfold.compaction.model.wording import spaced

NOTEBOOK: Final = ROOT / "notebooks" / "compact_the_sample.ipynb"
PNG: Final = b"\x89PNG\r\n\x1a\n"
KEY: Final = 4
VALUE: Final = 5
TIER_CELL: Final = "shutil.copytree("
SESSION: Final = "with_delta(SparkSession.builder"
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
"""What Spark does where its Python workers have been idle for a minute: it hangs up on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The outputs of an executed notebook, and its folders."""

    outputs: list[Any]
    working_folder: Path
    tier: Path
    on_s3: list[Any]
    """The outputs of its cells once more, with a tier in a bucket."""

    @property
    def text(self) -> str:
        """All printed text, without colours."""
        said = (
            output.get("text") or output.get("data", {}).get("text/plain", "") for output in self
        )
        return re.sub(r"\x1b\[[\d;]*m", "", "\n".join(said))

    @property
    def images(self) -> list[bytes]:
        """Its figures."""
        pictures = (output.get("data", {}).get("image/png") for output in self)
        return [base64.b64decode(picture) for picture in pictures if picture is not None]

    def counted(self, what: str) -> tuple[int, int]:
        """A row of its table: before, after."""
        (row,) = re.findall(rf"^{what} +(\d+) +(\d+)$", self.text, re.MULTILINE)
        return int(row[0]), int(row[1])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.outputs)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """The notebook's outputs; a cell that fails is an error here.

    Its session can also read a catalog on S3, so that the cells without figures then run again, on
    a tier there.
    """
    elsewhere, temporary, home = map(tmp_path_factory.mktemp, ("elsewhere", "temporary", "home"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (tier_cell,) = (cell for cell in notebook.cells if TIER_CELL in cell.source)
    uri, first = uploaded(SAMPLE, moto()), notebook.cells.index(tier_cell)
    session = notebook.cells[first - 2]
    assert session.source.count(SESSION) == 1
    session.source = session.source.replace(SESSION, f'{SESSION}, "{uri}/_tierfold"')
    again = [new_code_cell(f"tier = {uri!r}")] + [
        new_code_cell(cell.source)
        for cell in notebook.cells[first + 1 : -1]
        if cell.cell_type == "code" and "plt" not in cell.source
    ]
    notebook.cells[-1:] = [*again, new_code_cell(A_MINUTE_LATER), notebook.cells[-1]]
    client = NotebookClient(
        notebook, timeout=240, resources={"metadata": {"path": str(elsewhere)}}
    )
    environment = {name: t for name, t in users_environment().items() if "PYTEST" not in name}
    # The kernel uses this tree's code, folders that the test can read, and no user's settings.
    own = {"PYTHONPATH": ROOT, "TMPDIR": temporary, "IPYTHONDIR": home, "MPLCONFIGDIR": home}
    store = {**IDENTITY, "AWS_ENDPOINT_URL": moto()}
    client.execute(env=environment | store | {name: str(path) for name, path in own.items()})
    (tier,) = temporary.glob("tierfold-*")
    end = len(notebook.cells) - len(again) - 2
    return Shown(
        outputs=outputs_of([*notebook.cells[:end], *notebook.cells[-2:]]),
        working_folder=elsewhere,
        tier=tier,
        on_s3=outputs_of(notebook.cells[end:-2]),
    )


def outputs_of(cells: Iterable[Any]) -> list[Any]:
    return [output for cell in cells for output in cell.get("outputs", ())]


@pytest.fixture(scope="module")
def committed() -> list[tuple[Any, ...]]:
    """The sample's committed records, read without Spark."""
    logs = sorted(SAMPLE.glob("kafka-tiered-storage/*/*.log"))
    return expected_rows("tiered", 0, logs, is_committed=True)


def new_logs(shown: Shown) -> list[Path]:
    """The logs that the compaction wrote."""
    brought = {path.name for path in SAMPLE.glob("kafka-tiered-storage/*/*.log")}
    found = sorted(shown.tier.glob("kafka-tiered-storage/*/*.log"))
    return [path for path in found if path.name not in brought]


def test_it_counts_records_and_keys(shown: Shown, committed: list[tuple[Any, ...]]) -> None:
    keys = {bytes(row[KEY]) for row in committed}
    assert shown.counted("records") == (len(committed), len(keys))
    assert shown.counted("keys") == (len(keys), len(keys))
    assert len(committed) > 5 * len(keys)


def test_it_counts_segments_and_bytes(shown: Shown) -> None:
    brought = list(SAMPLE.glob("kafka-tiered-storage/*/*.log"))
    new = new_logs(shown)
    assert shown.counted("segments") == (len(brought), len(new)) == (3, 1)
    sizes = [sum(log.stat().st_size for log in logs) for logs in (brought, new)]
    assert shown.counted("bytes") == tuple(sizes)
    assert sizes[1] < sizes[0] // 5


def test_every_key_has_the_latest_value_it_had(
    shown: Shown, committed: list[tuple[Any, ...]]
) -> None:
    latest = {bytes(row[KEY]): row[VALUE] for row in committed}
    assert {key: value for _, key, value in records_in(new_logs(shown))} == latest
    assert "'0 latest values changed'" in shown.text


def test_it_draws_two_figures(shown: Shown) -> None:
    assert [image[: len(PNG)] for image in shown.images] == [PNG, PNG]
    assert shown.images[0] != shown.images[1]


def test_it_shows_the_report_and_the_catalog(shown: Shown) -> None:
    before, after = shown.counted("bytes")
    assert f"({spaced(before)} → {spaced(after)} bytes)" in shown.text
    (run,) = re.findall(r"^run (\S+)", shown.text, re.MULTILINE)
    rows = [re.sub(r"\s", "", line).split("|")[1:-1] for line in shown.text.splitlines()]
    assert ["tiered", "0", "0", "12154", str(after), run] in rows
    assert [run, "superseded"] in [row[:2] for row in rows]


def test_it_shows_the_same_on_s3(shown: Shown) -> None:
    on_s3 = replace(shown, outputs=shown.on_s3)
    for what in ("records", "keys", "segments"):
        assert on_s3.counted(what) == shown.counted(what)
    # Delete horizons are counted from the time of the run, and may take a byte more or less.
    (before, after), folders = on_s3.counted("bytes"), shown.counted("bytes")
    assert (before, after) == (folders[0], pytest.approx(folders[1], abs=100))
    assert "'0 latest values changed'" in on_s3.text
    (run,) = re.findall(r"^run (\S+)", on_s3.text, re.MULTILINE)
    rows = [re.sub(r"\s", "", line).split("|")[1:-1] for line in on_s3.text.splitlines()]
    assert ["tiered", "0", "0", "12154", str(after), run] in rows
    assert [run, "superseded"] in [row[:2] for row in rows]
    assert "Traceback" not in on_s3.text, on_s3.text
    assert "WARN " not in on_s3.text, on_s3.text


def test_nothing_goes_wrong_in_silence(shown: Shown) -> None:
    assert "Traceback" not in shown.text, shown.text
    assert "WARN " not in shown.text, shown.text


def test_nothing_is_left_where_it_was_run(shown: Shown) -> None:
    assert list(shown.working_folder.iterdir()) == []
