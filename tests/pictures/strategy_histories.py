"""Hypothesis strategies for topics that grow, with compactions in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.pictures.batch_words import TIMESTAMP_MS, draft_of
from tests.pictures.strategy_model import ModelLog, ModelRecord
from tierfold.compaction.model.rules import CompactionStrategy

KEYS = ("", "a", "a", "b", "b", "c")
"""The empty text is no key. Some keys come twice, so that equal keys are more likely."""

LOWEST, HIGHEST = -(2**63), 2**63 - 1

timestamps = st.sampled_from(("", "@1", "@2", "@3", "@-1"))
one_version = st.sampled_from(
    ("#1", "#2", "#3", "#0", "#-1", f"#{LOWEST}", f"#{HIGHEST}", "#null", "#short")
)
versions = st.lists(one_version, max_size=2).map("".join)
words = st.builds("{}={{}}{}{}".format, st.sampled_from(KEYS), timestamps, versions)
"""A record without its offset; `{}` is the place of its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """New segments, and the pass after their upload."""

    segments: tuple[tuple[str, ...], ...]
    """The words of the batches of each segment."""
    strategy: CompactionStrategy
    waited_ms: int
    """The time since the last pass."""
    is_last_chunk: bool
    segment_bytes: int

    @property
    def text(self) -> str:
        """The drawing of the segments."""
        return " | ".join(" ".join(batches) for batches in self.segments)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Chunk, ...]:
    """Draw rounds of new data, each cleaned in chunks of any size."""
    chunks: list[Chunk] = []
    offset = 0
    strategies = draw(st.sampled_from([*(([strategy]) for strategy in CompactionStrategy), None]))
    for _ in range(draw(st.integers(2, 3))):
        of_round = draw(st.sampled_from(strategies or list(CompactionStrategy)))
        segments: list[tuple[str, ...]] = []
        for _ in range(draw(st.integers(1, 3))):
            batches: list[str] = []
            for _ in range(draw(st.integers(1, 2))):
                batch, offset = draw(_batches(offset))
                batches.append(batch)
            segments.append(tuple(batches))
        ends = {*draw(st.sets(st.integers(1, len(segments)))), len(segments)}
        start = 0
        for end in sorted(ends):
            chunks.append(
                Chunk(
                    segments=tuple(segments[start:end]),
                    strategy=of_round,
                    waited_ms=draw(st.sampled_from((0, 1000))) if start == 0 else 0,
                    is_last_chunk=end == len(segments),
                    segment_bytes=draw(st.sampled_from((1, 400, 2**30))),
                )
            )
            start = end
    return tuple(chunks)


@st.composite
def _batches(draw: st.DrawFn, offset: int) -> tuple[str, int]:
    """Draw a batch that starts at `offset`; returns it and the offset after it."""
    inside: list[str] = []
    for word in draw(st.lists(words, min_size=1, max_size=3)):
        value = "" if draw(st.booleans()) else f"v{offset}"
        inside.append(f"{offset}:{word.format(value)}")
        offset += 1
    body = inside[0] if len(inside) == 1 else f"[{' '.join(inside)}]"
    appended_ms = draw(st.sampled_from((None, None, None, 1, 2)))
    return body if appended_ms is None else f"A{appended_ms}({body})", offset


def records_of(chunk: Chunk) -> Iterator[ModelRecord]:
    """The records of a chunk for the model."""
    for word in (word for batches in chunk.segments for word in batches):
        draft = draft_of(word, 0)
        for record in draft.records:
            is_appended = draft.is_log_append_time
            appended_ms = draft.max_timestamp_ms or TIMESTAMP_MS
            yield ModelRecord(
                offset=record.offset,
                batch=draft.base_offset,
                timestamp_ms=appended_ms if is_appended else record.timestamp_ms,
                key=record.key,
                value=record.value,
                headers=record.headers,
            )


def met_in(history: tuple[Chunk, ...], delete_retention_ms: int) -> set[str]:
    """The cases of the rules that a history reaches in the model."""
    log, now_ms, met = ModelLog(delete_retention_ms=delete_retention_ms), 0, set[str]()
    strategy = history[0].strategy
    for chunk in history:
        now_ms += chunk.waited_ms
        log.records += records_of(chunk)
        end = log.records[-1].offset + 1 if log.records else 0
        met |= {"the strategy changes"} if strategy is not chunk.strategy else set()
        strategy = chunk.strategy
        if strategy is not CompactionStrategy.OFFSET:
            met |= {f"{case}, {strategy}" for case in _met_in_pass(log, chunk, end, now_ms)}
        log.clean(end, strategy, now_ms, is_last_chunk=chunk.is_last_chunk)
    return met


def _met_in_pass(log: ModelLog, chunk: Chunk, end: int, now_ms: int) -> Iterator[str]:
    best = log.newest(end, chunk.strategy)
    last = log.records[-1]
    for record in (record for record in log.records if record.key is not None):
        newest = best[record.key or b""]
        is_over = log.horizons_ms.get(record.batch, now_ms + 1) <= now_ms
        if newest is record:
            alone = sum(other.key == record.key for other in log.records) == 1
            if record.value is None and is_over:
                state = "alone" if alone else "needed"
                yield f"an expired tombstone is {state}, last chunk: {chunk.is_last_chunk}"
            continue
        if record.rank(chunk.strategy)[:-1] == newest.rank(chunk.strategy)[:-1]:
            yield "a tie"
        if newest.offset < log.first_dirty <= record.offset:
            yield "a late record loses to a clean one"
        if newest.offset < record.offset and record is last:
            yield "the record that ends the log loses"
        yield "a tombstone wins" if newest.value is None else "a value wins"
        yield "a tombstone loses" if record.value is None else "a value loses"
        yield from _versions_met(record, newest)


def _versions_met(record: ModelRecord, newest: ModelRecord) -> Iterator[str]:
    rank, best = (one.rank(CompactionStrategy.HEADER) for one in (record, newest))
    if rank[0] and best[0]:
        yield "a negative version wins" if best[1] < 0 else "a version wins"
    if best[0] and not rank[0]:
        yield "a malformed version loses" if record.is_malformed else "a missing version loses"
    if not best[0] and not rank[0]:
        yield "no version on either side"
    if len(newest.headers) > 1:
        yield "a repeated header wins"
