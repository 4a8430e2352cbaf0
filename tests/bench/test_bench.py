"""The parts of the benchmarks: logs have the shape asked for, lines and pictures fit the points."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import planning
from tests.bench.contenders import plain_io_s, tierfold_pass
from tests.bench.growth import axis_of, points, predicted
from tests.bench.metadata_replay import replay
from tests.bench.results import print_row
from tests.bench.shapes import Log, logs
from tests.bench.synthetic import Shape, fresh_folder, put_log
from tests.bench.xy_plot import plot
from tests.jobs.commands import LOCAL_ENGINE

_ROWS: list[dict[str, object]] = [
    {"axis": "gigabytes", "x": x, "MB in": 1000 * x, "elapsed s": 0.5 + 2 * x, "cpu s": 1 + 3 * x}
    for x in (1, 2, 4)
]


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_log_has_each_key_equally_often(tmp_path: Path, *, is_compressed: bool) -> None:
    shape = Shape(
        records=3000,
        keys=1000,
        batch_records=100,
        segment_bytes=60_000,
        is_compressed=is_compressed,
    )
    tier = fresh_folder(tmp_path / "tier")
    for partition in range(2):
        put_log(tier, "bench", partition, shape)
    done = tierfold_pass(tier, LOCAL_ENGINE)
    assert (done.records_in, done.records_out) == (6000, 2000)
    assert plain_io_s(tier, done.bytes_out) > 0


def test_a_log_has_as_many_tombstones_as_asked_for(tmp_path: Path) -> None:
    shape = Shape(records=2000, keys=2000, batch_records=100)
    with_values, with_tombstones = (
        put_log(
            fresh_folder(tmp_path / str(count)), "bench", 0, replace(shape, tombstones_in_20=count)
        )
        for count in (0, 3)
    )
    assert with_values - with_tombstones == 300 * shape.value_bytes


@pytest.mark.parametrize("log", [*logs(2)], ids=lambda log: log.name)
def test_a_small_log_of_each_shape_is_compacted(tmp_path: Path, log: Log) -> None:
    tier = fresh_folder(tmp_path / "tier")
    put_log(tier, "bench", 0, replace(log.shape, records=200, keys=20, batch_records=50))
    assert tierfold_pass(tier, LOCAL_ENGINE).records_out == 20


def test_a_result_states_the_circumstances(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for elapsed_s in (1, 2):
        print_row("bench", {"elapsed s": elapsed_s}, tmp_path / "new")
    lines = (tmp_path / "new" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    kept = [json.loads(line) for line in lines]
    assert [row["elapsed s"] for row in kept] == [1, 2]
    assert {"commit", "machine", "at", "load"} <= kept[0].keys()
    assert json.loads(capsys.readouterr().out.splitlines()[0]) == {
        "benchmark": "bench",
        "elapsed s": 1,
    }


def test_no_file_gets_more_links_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "LINKS_MAX", 3)
    planning.put_tier(tmp_path, 8, 2)
    logs = list((tmp_path / "tier").rglob("*.log"))
    assert len(logs) == 16
    assert max(log.stat().st_nlink for log in logs) == 4


@pytest.mark.parametrize(
    ("records", "existing", "segments"), [(14_000, 0.25, 1000), (4000, 1.0, 2000)]
)
def test_a_topic_of_metadata_leaves_the_segments_that_exist(
    records: int, existing: float, segments: int
) -> None:
    took = replay(records, existing)
    assert (took.records, took.segments) == (records, segments)


def test_a_line_is_fitted_and_drawn() -> None:
    axis = axis_of("gigabytes", _ROWS)
    assert (axis.slope, axis.base) == pytest.approx((2, 0.5))
    assert predicted(_ROWS) == {
        "cpu s per GB": 3.0,
        "cpu s in any case": 1.0,
        "hours for 100 TB on 100 cores, if cores scale": 0.8,
    }
    drawn = ET.fromstring(plot([axis, axis]))
    circles = [part for part in drawn.iter() if part.tag.endswith("circle")]
    assert len(circles) == 6
    assert (circles[2].get("cx"), circles[2].get("cy")) == ("200.0", "40.0")


def test_each_axis_of_growth_changes_one_number() -> None:
    found = points(8.0, 64)
    by_axis = {name: [p.x for p in found if p.axis == name] for name in {p.axis for p in found}}
    assert by_axis["gigabytes"] == [0.25, 0.5, 1, 2, 4, 8]
    assert by_axis["segments"] == by_axis["partitions"] == [1, 2, 4, 8, 16, 32, 64]
    assert by_axis["cores"][0] == 1
