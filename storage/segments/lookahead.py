"""Processes the windows of a segment on several threads; results come in order.

Kernels, decompressors and checksums release Python's lock, so a task whose segment is larger than
its share uses a second core.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from typing import NoReturn, TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")


def mapped_ahead(
    function: Callable[[_In], _Out], items: Iterable[_In], *, threads: int, pending: int = 1
) -> Iterator[_Out]:
    """Like `map(function, items)`, also for exceptions.

    At most `pending` results are, or `threads` if those are more. With one thread the function is
    called in the order of the items, ahead of the caller if `pending` allows it.
    """
    pending = max(pending, threads)
    if pending == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[_Out]] = deque()
        for call in _calls(function, items):
            if len(waiting) == pending:
                yield waiting.popleft().result()
            waiting.append(pool.submit(call))
        while waiting:
            yield waiting.popleft().result()


def begun(items: Iterable[_In]) -> Iterator[_In]:
    """The items, of which the first is computed now, and each other one when it is asked for.

    A function of `mapped_ahead` that rarely has several results returns them so: then they are not
    all in memory.
    """
    found = iter(items)
    return chain(list(islice(found, 1)), found)


def _calls(
    function: Callable[[_In], _Out], items: Iterable[_In]
) -> Iterator[Callable[[], _Out]]:
    """A call for each item. An error of `items` is the last one's, so that it comes in its place.

    The header of a corrupt window can make the next window look corrupt: its own error is first.
    """
    try:
        for item in items:
            yield partial(function, item)
    except Exception as error:  # noqa: BLE001 - the call raises it
        yield partial(_raised, error)


def _raised(error: Exception) -> NoReturn:
    raise error
