"""What `check=True` raises, once all partitions are done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from tierfold.jobs.reports.result import NEEDS_A_PERSON, NEEDS_ANOTHER_RUN, Result

_Result = TypeVar("_Result", bound=Result[Any])


class UnfinishedRun(Exception):
    """Not all partitions ended well; `result` has all of them."""

    def __init__(self, result: Result[Any]) -> None:
        super().__init__(result)
        self.result = result
        """The result that the function would have returned."""

    def __str__(self) -> str:
        return f"{self.result.verb} of {self.result.tier}: {self.result.reason}"


class PartitionFailed(UnfinishedRun):
    """A partition failed, was refused, or its outcome is unknown: a person should look at it."""


class RunFenced(UnfinishedRun):
    """Another run took a partition over; run again."""


def checked(result: _Result, given: Mapping[str, Any]) -> _Result:
    """Return the result; with `check`, raise PartitionFailed or RunFenced by its outcome."""
    if given.get("check"):
        if result.outcome in NEEDS_A_PERSON:
            raise PartitionFailed(result)
        if result.outcome in NEEDS_ANOTHER_RUN:
            raise RunFenced(result)
    return result
