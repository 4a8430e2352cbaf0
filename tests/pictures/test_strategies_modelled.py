"""The strategies equal their model on any growing topic, in any chunks and rounds."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hypothesis import Phase, given, settings

from tests.pictures.batch_words import VERSION_HEADER
from tests.pictures.cleaning import RETENTION_MS, RULES, passed
from tests.pictures.log_pictures import Log, batches_of, grown, picture
from tests.pictures.strategy_histories import Chunk, histories, met_in, records_of
from tests.pictures.strategy_model import ModelLog, ModelRecord
from tests.scratch import SCRATCH
from tierfold.compaction.model.rules import CompactionStrategy

BY_BOTH: Final = """
a tie
a late record loses to a clean one
the record that ends the log loses
a tombstone wins
a value wins
a tombstone loses
a value loses
an expired tombstone is alone, last chunk: True
an expired tombstone is alone, last chunk: False
an expired tombstone is needed, last chunk: True
an expired tombstone is needed, last chunk: False
""".strip().splitlines()
BY_HEADER: Final = """
a negative version wins
a version wins
a malformed version loses
a missing version loses
no version on either side
a repeated header wins
""".strip().splitlines()
CASES: Final = (
    "the strategy changes",
    *(f"{case}, {strategy}" for case in BY_BOTH for strategy in ("timestamp", "header")),
    *(f"{case}, header" for case in BY_HEADER),
)


class _AllMet(Exception):
    """Ends the search."""


def test_the_histories_reach_every_case_of_the_rules() -> None:
    missing = set(CASES)

    @settings(max_examples=1000, phases=[Phase.generate], database=None, derandomize=True)
    @given(histories())
    def watch(history: tuple[Chunk, ...]) -> None:
        missing.difference_update(met_in(history, RETENTION_MS))
        if not missing:
            raise _AllMet

    with suppress(_AllMet):
        watch()
    assert missing == set()


@settings(max_examples=2 * settings().max_examples)
@given(histories())
def test_every_pass_leaves_the_records_of_the_model(history: tuple[Chunk, ...]) -> None:
    with TemporaryDirectory(dir=SCRATCH) as folder:
        model, log, now_ms = ModelLog(delete_retention_ms=RETENTION_MS), None, 0
        for chunk in history:
            now_ms += chunk.waited_ms
            first_dirty = model.first_dirty
            log = picture(chunk.text, Path(folder)) if log is None else grown(log, chunk.text)
            model.records += records_of(chunk)
            malformed = sum(
                record.is_malformed and record.key is not None for record in model.records
            )
            is_header = chunk.strategy is CompactionStrategy.HEADER
            model.clean(
                log.next_offset, chunk.strategy, now_ms, is_last_chunk=chunk.is_last_chunk
            )
            done = passed(
                log,
                now_ms=now_ms,
                rules=replace(
                    RULES,
                    compaction_strategy=chunk.strategy,
                    compaction_strategy_header=VERSION_HEADER if is_header else "",
                    segment_bytes=chunk.segment_bytes,
                ),
                first_dirty=first_dirty,
                is_last_chunk=chunk.is_last_chunk,
            )
            assert done.log.next_offset == log.next_offset
            log = done.log
            left = {record.batch for record in model.records}
            horizons_ms = {batch: at for batch, at in model.horizons_ms.items() if batch in left}
            assert seen(log) == (model.records, horizons_ms)
            assert batches_of(log, log.segments[-1])[-1].last_offset + 1 == log.next_offset
            assert done.malformed_versions == (malformed if is_header else 0)


def seen(log: Log) -> tuple[list[ModelRecord], dict[int, int]]:
    """The live records, and the delete horizons of their batches."""
    batches = [batch for segment in log.segments for batch in batches_of(log, segment)]
    records = [
        ModelRecord(
            offset=record.offset,
            batch=batch.base_offset,
            timestamp_ms=record.timestamp_ms,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        for batch in batches
        for record in batch.records
    ]
    horizons_ms = {
        batch.base_offset: batch.delete_horizon_ms
        for batch in batches
        if batch.delete_horizon_ms is not None and batch.records
    }
    return records, horizons_ms
