"""When a batch that stays for its producer may go, against the same pass at each time."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.cleaning.record_retention import (
    BatchColumns,
    BatchRetention,
    RecordFacts,
    Retention,
    RoundRules,
    decide_retention,
    latest_kept_ms,
    producer_pairs,
    producer_times,
)
from tierfold.compaction.model.producers import NO_DATA_OFFSET, ProducerEntry
from tierfold.compaction.model.units import NO_HORIZON

NOW_MS: Final = 20
EXPIRATION_MS: Final = 10
BATCHES: Final = 6


class ABatch(NamedTuple):
    offset: int
    producer_id: int
    is_control: bool
    has_record: bool
    is_superseded: bool


@st.composite
def logs(draw: st.DrawFn) -> list[ABatch]:
    flags = st.booleans()
    return [
        ABatch(offset, draw(st.integers(-1, 3)), draw(flags), draw(flags), draw(flags))
        for offset in range(BATCHES)
    ]


@st.composite
def snapshots(draw: st.DrawFn) -> list[ProducerEntry]:
    return [
        ProducerEntry(
            producer_id=producer_id,
            epoch=0,
            last_sequence=0,
            last_data_offset=draw(st.sampled_from([NO_DATA_OFFSET, *range(BATCHES)])),
            last_offset_delta=0,
            last_timestamp_ms=draw(st.integers(0, NOW_MS + 5)),
            coordinator_epoch=0,
            current_txn_first_offset=draw(st.sampled_from([None, None, 0])),
        )
        for producer_id in draw(st.sets(st.integers(0, 3)))
    ]


def passed(
    log: list[ABatch], producers: list[ProducerEntry], now_ms: int
) -> tuple[BatchColumns, Retention, RoundRules]:
    """A pass over that log; every marker may go, and its horizon has passed."""
    data, markers = producer_pairs(producers, now_ms=now_ms, expiration_ms=EXPIRATION_MS)
    rules = RoundRules(
        now_ms=now_ms,
        delete_retention_ms=0,
        remote_end=BATCHES,
        last_data_offsets=data,
        marker_epochs=markers,
        producer_times=producer_times(producers),
    )
    is_control = np.array([batch.is_control for batch in log], np.bool_)
    with_record = [i for i, batch in enumerate(log) if batch.has_record]
    has_any = np.ones(len(with_record), np.bool_)
    columns = BatchColumns(
        last_offset=np.array([batch.offset for batch in log], np.int64),
        producer_id=np.array([batch.producer_id for batch in log], np.int64),
        producer_epoch=np.zeros(len(log), np.int16),
        is_control=is_control,
        is_legacy=np.zeros(len(log), np.bool_),
        is_emptied=np.array([not batch.has_record for batch in log], np.bool_),
        horizon_ms=np.where(is_control, 0, NO_HORIZON).astype(np.int64),
        record_batch=np.array(with_record, np.int32),
        has_key=has_any,
        has_value=has_any,
    )
    facts = RecordFacts(
        aborted=np.zeros(len(log), np.bool_),
        discardable=is_control,
        superseded=np.array([log[i].is_superseded for i in with_record], np.bool_),
        supersedes=~has_any,
        legacy_tombstones_go=False,
    )
    return columns, decide_retention(columns, facts, rules), rules


def written(log: list[ABatch], retention: Retention) -> list[ABatch]:
    """What the pass leaves; batches that it emptied have no record any longer."""
    return [
        batch._replace(has_record=batch.has_record and not batch.is_control)
        if kept != BatchRetention.EMPTY
        else batch._replace(has_record=False)
        for batch, kept in zip(log, retention.batch.tolist(), strict=True)
        if kept != BatchRetention.DROP
    ]


@given(log=logs(), producers=snapshots())
def test_they_may_go_when_a_pass_at_that_time_would_drop_them_all(
    log: list[ABatch], producers: list[ProducerEntry]
) -> None:
    columns, retention, rules = passed(log, producers, NOW_MS)
    left = written(log, retention)
    times_ms = sorted({entry.last_timestamp_ms + EXPIRATION_MS for entry in producers})
    dropped = {
        time_ms: (passed(left, producers, time_ms)[1].batch == BatchRetention.DROP).tolist()
        for time_ms in times_ms
        if left
    }
    at_last = dropped[times_ms[-1]] if dropped else []
    drops_at = (time_ms for time_ms in dropped if any(at_last) and dropped[time_ms] == at_last)
    found = latest_kept_ms(columns, retention, rules)
    assert (None if found is None else found + EXPIRATION_MS) == next(drops_at, None)
    assert found is None or found + EXPIRATION_MS > NOW_MS
