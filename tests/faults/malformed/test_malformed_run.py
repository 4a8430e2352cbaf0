"""The long run names what killed a parser, goes on behind it, and checks the kernels' bounds."""

from __future__ import annotations

from tests.faults.malformed.malformed_run import Order, run

DYING = "tests.faults.malformed.malformed_dying"


def test_who_dies_computes_for_ever_takes_all_memory_or_lies_is_named() -> None:
    order = Order(name="dying", seed=1, inputs=7, checks_bounds=False, child=DYING)
    told = run(order)
    assert (told.inputs, told.right, told.refused) == (7, 1, 0)
    crash, hang, greed, lie = told.failures
    for failure, number in ((crash, 1), (hang, 3), (greed, 4), (lie, 5)):
        assert f"--parser 'dying' --seed 1 --replay {number}" in failure
    assert "Segmentation fault" in crash
    assert "exit code -27" in hang  # SIGPROF
    assert "in _judged" in hang
    assert "MemoryError" in greed
    assert "WrongAnswer: found    1" in lie


def test_kernels_survive_malformed_logs_with_their_bounds_checked() -> None:
    told = run(Order(name="survivors", seed=7, inputs=150))
    assert told.failures == []
    assert (told.inputs, told.refused + told.right) == (150, 150)
