"""The long run names the input that killed a parser, continues after it, and checks bounds."""

from __future__ import annotations

import pytest

from tests.faults.malformed.malformed_run import ParserRun, run

DYING = "tests.faults.malformed.malformed_dying"


@pytest.mark.soak
def test_the_report_names_a_parser_that_crashes_hangs_takes_all_memory_or_lies() -> None:
    found = run(ParserRun(name="dying", seed=1, inputs=7, checks_bounds=False, child=DYING))
    assert (found.inputs, found.right, found.refused) == (7, 1, 0)
    crash, hang, greed, lie = found.failures
    for failure, number in ((crash, 1), (hang, 3), (greed, 4), (lie, 5)):
        assert f"--parser 'dying' --seed 1 --replay {number}" in failure
    assert "Segmentation fault" in crash
    assert "exit code -27" in hang  # SIGPROF
    assert "in _checked" in hang
    assert "MemoryError" in greed
    assert "WrongAnswer: found    1" in lie


@pytest.mark.soak
def test_kernels_with_checked_bounds_survive_malformed_logs() -> None:
    found = run(ParserRun(name="survivors", seed=7, inputs=60))
    assert found.failures == []
    assert (found.inputs, found.refused + found.right) == (60, 60)
