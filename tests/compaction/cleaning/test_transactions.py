"""Transactions, compared with the rule as a walk over one producer's batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.cleaning.transactions import (
    ABORT,
    COMMIT,
    DATA,
    EMPTIED,
    TransactionBatches,
    aborted_batches,
    joined_batches,
    transaction_status,
)
from tierfold.compaction.model.aborted_transactions import AbortedTransaction

LEADER_CHANGE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    base: int
    last: int
    producer: int
    kind: int


def transaction_batches_of(txn_batches: Sequence[Mark]) -> TransactionBatches:
    return TransactionBatches(
        base_offset=np.array([mark.base for mark in txn_batches], np.int64),
        last_offset=np.array([mark.last for mark in txn_batches], np.int64),
        producer_id=np.array([mark.producer for mark in txn_batches], np.int64),
        control_type=np.array([mark.kind for mark in txn_batches], np.int16),
    )


def mark(at: int, kind: int, *, producer: int = 1) -> Mark:
    return Mark(base=at, last=at, producer=producer, kind=kind)


def entry(
    first: int, last: int, *, producer: int = 1, stable: int | None = None
) -> AbortedTransaction:
    return AbortedTransaction(
        producer_id=producer,
        first_offset=first,
        last_offset=last,
        last_stable_offset=last + 1 if stable is None else stable,
    )


@dataclass(slots=True)
class Expected:
    """The outcome of the rule."""

    aborted: list[Mark] = field(default_factory=list)
    discardable: list[int] = field(default_factory=list)
    listed: list[AbortedTransaction] = field(default_factory=list)
    unindexed: list[AbortedTransaction] = field(default_factory=list)


def by_the_rule(txn_batches: Sequence[Mark], entries: Sequence[AbortedTransaction]) -> Expected:
    found = Expected()
    met: dict[int, list[tuple[Mark, bool]]] = {}
    """Per producer the data batches since its last marker, and whether they are aborted."""
    for mark in txn_batches:
        since = met.setdefault(mark.producer, [])
        if mark.kind == DATA:
            is_aborted = any(
                t.producer_id == mark.producer
                and t.first_offset <= mark.last
                and mark.base <= t.last_offset
                for t in entries
            )
            since.append((mark, is_aborted))
            found.aborted += [mark] if is_aborted else []
        elif mark.kind == EMPTIED:
            found.discardable.append(mark.base)
        elif mark.kind == COMMIT:
            if all(is_aborted for _, is_aborted in since):
                found.discardable.append(mark.base)
            met[mark.producer] = []
        elif mark.kind == ABORT:
            _abort(found, mark, met, entries)
            met[mark.producer] = []
    return found


def _abort(
    found: Expected,
    marker: Mark,
    met: dict[int, list[tuple[Mark, bool]]],
    entries: Sequence[AbortedTransaction],
) -> None:
    since = met[marker.producer]
    if not since:
        found.discardable.append(marker.base)
        return
    known = [t for t in entries if (t.producer_id, t.last_offset) == (marker.producer, marker.last)]
    if not known:
        first = next((data for data, is_aborted in since if is_aborted), since[0][0])
        still_open = [
            batches[0][0].base
            for producer, batches in met.items()
            if producer != marker.producer and batches
        ]
        stable = min(still_open, default=marker.last + 1)
        known = [entry(first.base, marker.last, producer=marker.producer, stable=stable)]
        found.unindexed += known
    found.listed += known


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    txn_batches: tuple[Mark, ...]
    entries: tuple[AbortedTransaction, ...]


def _all_entries(txn_batches: Sequence[Mark]) -> list[AbortedTransaction]:
    """The index entries that brokers would have written for the whole log."""
    found = []
    first: dict[int, int] = {}
    for mark in txn_batches:
        if mark.kind == DATA:
            first.setdefault(mark.producer, mark.base)
        elif mark.kind in {ABORT, COMMIT}:
            begun = first.pop(mark.producer, None)
            if begun is not None and mark.kind == ABORT:
                found.append(entry(begun, mark.last, producer=mark.producer))
    return found


@st.composite
def views(draw: st.DrawFn) -> View:
    """A stretch of a log with interleaved transactions: some incomplete, unlisted or emptied."""
    kinds = st.sampled_from([DATA, DATA, DATA, ABORT, COMMIT, LEADER_CHANGE])
    steps = draw(
        st.lists(st.tuples(st.integers(0, 3), kinds, st.integers(0, 2)), min_size=6, max_size=40)
    )
    txn_batches: list[Mark] = []
    offset = draw(st.integers(0, 5))
    for producer, kind, more in steps:
        last = offset + (more if kind == DATA else 0)
        txn_batches.append(Mark(base=offset, last=last, producer=producer, kind=kind))
        offset = last + 1 + more
    entries = [entry for entry in _all_entries(txn_batches) if draw(st.integers(0, 3))]
    seen = txn_batches[draw(st.integers(0, 4)) : len(txn_batches) - draw(st.integers(0, 4))]
    seen = [mark for mark in seen if mark.kind != DATA or draw(st.integers(0, 3))]
    emptied = [
        replace(mark, kind=EMPTIED) if mark.kind >= 0 and not draw(st.integers(0, 4)) else mark
        for mark in seen
    ]
    return View(txn_batches=tuple(emptied), entries=tuple(entries))


@given(views())
def test_the_status_follows_the_rule(view: View) -> None:
    expected = by_the_rule(view.txn_batches, view.entries)
    txn_batches = transaction_batches_of(view.txn_batches)
    aborted = aborted_batches(txn_batches, view.entries)
    found = transaction_status(txn_batches, view.entries)
    assert [view.txn_batches[i] for i in np.flatnonzero(aborted)] == expected.aborted
    assert found.discardable.tolist() == expected.discardable
    assert list(found.listed) == expected.listed
    assert list(found.unindexed) == expected.unindexed


@given(views(), st.data())
def test_transaction_batches_may_come_in_pieces(view: View, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(view.txn_batches)))
    pieces = joined_batches(
        [
            transaction_batches_of(view.txn_batches[:cut]),
            transaction_batches_of(view.txn_batches[cut:]),
        ]
    )
    whole = transaction_batches_of(view.txn_batches)
    for name in ("base_offset", "last_offset", "producer_id", "control_type"):
        assert getattr(pieces, name).tolist() == getattr(whole, name).tolist()


def test_without_transaction_batches_there_is_no_status() -> None:
    nothing = joined_batches([])
    assert len(nothing) == 0
    assert aborted_batches(nothing, [entry(0, 9)]).tolist() == []
    found = transaction_status(nothing, [entry(0, 9)])
    assert (found.discardable.tolist(), found.listed, found.unindexed) == ([], (), ())


@pytest.mark.parametrize(
    ("base", "last", "covered"),
    [(0, 4, False), (0, 5, True), (5, 5, True), (7, 8, True), (9, 12, True), (10, 12, False)],
)
def test_a_transaction_covers_from_its_first_offset_to_its_marker(
    base: int, last: int, covered: bool
) -> None:
    batch = transaction_batches_of([Mark(base=base, last=last, producer=1, kind=DATA)])
    assert aborted_batches(batch, [entry(5, 9)]).tolist() == [covered]
    assert aborted_batches(batch, [entry(5, 9, producer=2)]).tolist() == [False]


def test_the_span_is_found_among_many_of_many_producers() -> None:
    entries = [entry(at, at + 3, producer=p) for p in (3, 1, 2) for at in (20, 0, 40)]
    txn_batches = [mark(at, DATA, producer=p) for at in (0, 5, 21, 24, 43) for p in (0, 1, 2, 3, 4)]
    found = aborted_batches(transaction_batches_of(txn_batches), entries)
    aborted = [
        (mark.base, mark.producer) for mark, yes in zip(txn_batches, found, strict=True) if yes
    ]
    assert aborted == [(at, p) for at in (0, 21, 43) for p in (1, 2, 3)]


@pytest.mark.parametrize("kind", [ABORT, COMMIT, EMPTIED, LEADER_CHANGE])
def test_a_marker_is_never_data_of_its_transaction(kind: int) -> None:
    assert aborted_batches(transaction_batches_of([mark(7, kind)]), [entry(5, 9)]).tolist() == [
        False
    ]


@pytest.mark.parametrize(
    ("marks", "entries", "discardable"),
    [
        pytest.param([mark(1, COMMIT)], [], [1], id="no batch of its transaction is met"),
        pytest.param([mark(0, DATA), mark(1, COMMIT)], [], [], id="one is met"),
        pytest.param(
            [mark(0, DATA), mark(1, COMMIT), mark(2, COMMIT)], [], [2], id="of an earlier one"
        ),
        pytest.param(
            [mark(0, DATA, producer=2), mark(1, COMMIT)], [], [1], id="of another producer"
        ),
        # The ABORT marker between them is removed; the data batch stays, emptied, for its producer.
        pytest.param(
            [mark(0, DATA), mark(5, COMMIT)], [entry(0, 3)], [5], id="only aborted ones are met"
        ),
        # It may be removed whatever its type, and does not end the transaction around it.
        pytest.param(
            [mark(0, DATA), mark(1, EMPTIED), mark(2, COMMIT)], [], [1], id="it is emptied"
        ),
        *(
            pytest.param([mark(0, kind)], [], [], id=f"control type {kind}")
            for kind in (LEADER_CHANGE, 3, 4, 5, 6, 99)
        ),
    ],
)
def test_which_control_batches_may_be_removed(
    marks: list[Mark], entries: list[AbortedTransaction], discardable: list[int]
) -> None:
    found = transaction_status(transaction_batches_of(marks), entries)
    assert found.discardable.tolist() == discardable


def test_an_abort_marker_stays_and_is_listed_while_aborted_data_is_met() -> None:
    known = entry(0, 1, stable=0)
    found = transaction_status(transaction_batches_of([mark(0, DATA), mark(1, ABORT)]), [known])
    assert (found.discardable.tolist(), found.listed, found.unindexed) == ([], (known,), ())


def test_an_abort_marker_without_data_may_be_removed_and_is_not_listed() -> None:
    found = transaction_status(transaction_batches_of([mark(1, ABORT)]), [entry(0, 1)])
    assert (found.discardable.tolist(), found.listed, found.unindexed) == ([1], (), ())


def test_an_abort_marker_with_data_and_no_entry_is_an_unindexed_abort() -> None:
    txn_batches = transaction_batches_of([mark(3, DATA), mark(5, DATA), mark(6, ABORT)])
    found = transaction_status(txn_batches, [])
    assert found.unindexed == found.listed == (entry(3, 6),)
    assert found.discardable.tolist() == []


def test_interleaved_producers_are_kept_apart() -> None:
    steps = [(1, DATA), (2, DATA), (1, COMMIT), (3, COMMIT), (2, ABORT), (1, COMMIT)]
    txn_batches = [mark(at, kind, producer=producer) for at, (producer, kind) in enumerate(steps)]
    found = transaction_status(transaction_batches_of(txn_batches), [])
    assert found.discardable.tolist() == [3, 5]
    assert found.unindexed == (entry(1, 4, producer=2),)


def beside(*kinds: int) -> list[Mark]:
    """Batches of producer 7, then an abort of producer 1 at 2 and 3."""
    others = [mark(at, kind, producer=7) for at, kind in enumerate(kinds)]
    return [*others, mark(2, DATA), mark(3, ABORT)]


@pytest.mark.parametrize(
    ("marks", "entries", "unindexed"),
    [
        pytest.param(
            [mark(1, DATA), mark(2, DATA), mark(5, ABORT)],
            [entry(0, 9)],
            entry(1, 5),
            id="an index entry with another end is of another transaction",
        ),
        pytest.param(
            [*beside(DATA), mark(5, COMMIT, producer=7)],
            [],
            entry(2, 3, stable=0),
            id="an older transaction is open until later",
        ),
        *(
            pytest.param(beside(DATA, kind), [], entry(2, 3, stable=0), id=f"{kind} ends no other")
            for kind in (LEADER_CHANGE, EMPTIED)
        ),
        pytest.param(beside(DATA, COMMIT), [], entry(2, 3), id="the other was committed"),
        pytest.param(
            beside(DATA, ABORT), [entry(0, 1, producer=7)], entry(2, 3), id="the other was aborted"
        ),
    ],
)
def test_the_entry_of_an_unindexed_abort_is_the_one_a_broker_would_have_written(
    marks: list[Mark], entries: list[AbortedTransaction], unindexed: AbortedTransaction
) -> None:
    found = transaction_status(transaction_batches_of(marks), entries)
    assert found.unindexed == (unindexed,)
