"""Processes the windows of a segment on several threads; results come in order.

Kernels, decompressors and checksums release Python's lock, so a task whose segment is larger than
its share uses a second core.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")


def mapped_ahead(
    function: Callable[[_In], _Out], items: Iterable[_In], *, threads: int
) -> Iterator[_Out]:
    """Like `map(function, items)`, also for exceptions; at most `threads` results are pending."""
    if threads == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[_Out]] = deque()
        for item in items:
            if len(waiting) == threads:
                yield waiting.popleft().result()
            waiting.append(pool.submit(function, item))
        while waiting:
            yield waiting.popleft().result()
