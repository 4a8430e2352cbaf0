"""A commit that took place and was overwritten before it was read is reported as committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from tests.compaction.builders import KEY
from tests.storage.catalog_contract import claim, fresh
from tierfold.compaction.commits.commit import ReleaseClaim, proposed
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.outcomes import Committed, Fenced
from tierfold.compaction.model.segments import PartitionState
from tierfold.storage.catalog.catalog import Catalog, new_commit_id
from tierfold.storage.catalog.delta_tables import DeltaFolder, DeltaVersion

NO_ANSWER = UnreadableObject("no answer", where="the store", remedy="Ask again.")


@dataclass(slots=True)
class Ending:
    """How the next write ends; another run's claim then hides its effect."""

    then: Callable[[], object]
    is_written: bool = True
    is_answered: bool = True
    is_over: bool = False
    looks: int = 0
    """How many versions were read."""

    def folder(self) -> type[DeltaFolder]:
        """A table whose next write ends that way."""

        class Version(DeltaVersion):
            def __init__(self, version: DeltaVersion, ending: Ending) -> None:
                self._version, self._ending = version, ending

            def read(self, predicate: str) -> pa.Table:
                return self._version.read(predicate)

            def replace(self, predicate: str, rows: pa.Table) -> bool:
                if self._ending.is_over:
                    return self._version.replace(predicate, rows)
                self._ending.is_over = True
                if self._ending.is_written:
                    assert self._version.replace(predicate, rows)
                self._ending.then()
                if self._ending.is_answered:
                    return False
                raise NO_ANSWER

        ending = self

        class Folder(DeltaFolder):
            def newest(self) -> DeltaVersion:
                return Version(super().newest(), ending)

            def past(self, predicate: str) -> Iterator[pa.Table]:
                for rows in super().past(predicate):
                    ending.looks += 1
                    yield rows

        return Folder


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "catalog")


def row_of(uri: str) -> PartitionState:
    return Catalog(uri).read()[KEY]


def rivals(uri: str, *runs: str) -> Callable[[], object]:
    """Runs that claim the partition, one after the other."""
    return lambda: [claim(Catalog(uri), row_of(uri), run) for run in runs]


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("runs", [("b",), ("b", "c")])
@pytest.mark.parametrize("is_written", [True, False])
def test_a_commit_without_segments_is_found_in_the_past(
    uri: str, is_written: bool, runs: tuple[str, ...], is_answered: bool
) -> None:
    for run in ("long", "before", "a"):
        state = claim(Catalog(uri), Catalog(uri).read().get(KEY, fresh()), run).state
    ending = Ending(rivals(uri, *runs), is_written=is_written, is_answered=is_answered)
    release = proposed(state, ReleaseClaim(run="a"), commit_id=new_commit_id(), at_ms=2)
    outcome = Catalog(uri, ending.folder()).commit([release])[KEY]
    fenced = Fenced(epoch=3, by_epoch=3 + len(runs), by_run=runs[-1])
    took_place = Committed(epoch=3, commit_id=release.commit_id)
    assert outcome == (took_place if is_written else fenced)
    # The search ends at the row that the commit is based on.
    assert ending.looks == len(runs) + 1
    assert Catalog(uri).resolve([release]) == {KEY: outcome}
    # A repeated commit whose own call wrote nothing is judged by the row alone.
    assert Catalog(uri).commit([release]) == {KEY: fenced}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("is_written", [True, False])
def test_a_claim_is_found_in_the_past(uri: str, is_written: bool, is_first: bool) -> None:
    before = fresh() if is_first else claim(Catalog(uri), fresh(), "a").state

    def rival() -> object:
        return claim(Catalog(uri), Catalog(uri).read().get(KEY, before), "c")

    found = claim(Catalog(uri, Ending(rival, is_written=is_written).folder()), before, "b")
    assert isinstance(found.outcome, Committed) is is_written
    assert row_of(uri).owner_run == "c"
