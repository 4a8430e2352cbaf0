"""Long series of cases: CI takes some of them at fixed places, `make soak` takes the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")


def spread(cases: Sequence[Case], count: int) -> list[Case]:
    """This many of the cases: the first, the last, and others in equal steps; of one the first."""
    if count >= len(cases):
        return list(cases)
    if count == 1:
        return list(cases[:1])
    return [cases[at * (len(cases) - 1) // (count - 1)] for at in range(count)]


def most_in_soak(cases: Sequence[Any], count: int, *, is_unpacked: bool = False) -> list[Any]:
    """All cases as parameters; those that are not in the spread have the marker `soak`.

    `is_unpacked`: each case has the values of several parameters.
    """
    in_ci = spread(range(len(cases)), count)
    return [
        pytest.param(
            *(case if is_unpacked else (case,)), marks=() if number in in_ci else pytest.mark.soak
        )
        for number, case in enumerate(cases)
    ]


def some_or_all(cases: Sequence[Any], count: int) -> list[Any]:
    """Two parameters for a test that goes through a series: the spread, and in soak all cases."""
    return [
        pytest.param(spread(cases, count), id=f"{count} of {len(cases)}"),
        pytest.param(list(cases), id="all", marks=pytest.mark.soak),
    ]
