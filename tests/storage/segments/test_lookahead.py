"""`mapped_ahead` equals `map`, on threads, with a bounded number of results ahead."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tierfold.storage.segments.lookahead import begun, mapped_ahead


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_results_come_in_order(threads: int) -> None:
    def doubled(number: int) -> int:
        return 2 * number

    assert list(mapped_ahead(doubled, range(10), threads=threads)) == list(range(0, 20, 2))
    assert not list(mapped_ahead(doubled, (), threads=threads))


def test_two_threads_work_at_once() -> None:
    together = threading.Barrier(2, timeout=20)
    list(mapped_ahead(lambda _: together.wait(), range(4), threads=2))


@pytest.mark.parametrize("threads", [1, 2])
def test_at_most_one_item_per_thread_is_begun(threads: int) -> None:
    begun = 0

    def items() -> Iterator[int]:
        nonlocal begun
        for number in range(9):
            begun += 1
            yield number

    results = mapped_ahead(lambda number: number, items(), threads=threads)
    for taken, _ in enumerate(results, start=1):
        assert begun <= taken + threads


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_an_error_of_the_items_comes_in_its_place(threads: int) -> None:
    def items() -> Iterator[int]:
        yield from (5, 6, 7)
        raise ValueError("no more")

    results = mapped_ahead(lambda number: number, items(), threads=threads)
    assert [next(results), next(results), next(results)] == [5, 6, 7]
    with pytest.raises(ValueError, match="no more"):
        next(results)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_comes_in_its_place(threads: int) -> None:
    def picky(number: int) -> int:
        if number == 2:
            raise ValueError(number)
        return number

    results = mapped_ahead(picky, range(5), threads=threads)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="2"):
        next(results)


def test_of_several_results_the_first_is_there_and_the_others_come_when_asked_for() -> None:
    computed: list[int] = []

    def results() -> Iterator[int]:
        for i in range(3):
            computed.append(i)
            yield i

    found = begun(results())
    assert computed == [0]
    assert next(found) == 0
    assert computed == [0]
    assert next(found) == 1
    assert computed == [0, 1]
    assert list(found) == [2]
    assert list(begun(())) == []
