"""Views whose segments have ages, for the rules of the compaction lags."""

from __future__ import annotations

from dataclasses import replace

from tests.compaction.builders import a_chain, a_view, cleaned_to
from tierfold.compaction.discovery.view import PartitionView

NOW_MS = 1_000_000


def aged(
    *ages_ms: int | tuple[int, int], cleaned: int | None = None, log_start_offset: int = 0
) -> PartitionView:
    """Segments of 100 offsets and 1000 bytes with records of these ages at `NOW_MS`.

    An age applies to all records of a segment, or is a pair: first batch, youngest record.
    """
    pairs = [age if isinstance(age, tuple) else (age, age) for age in ages_ms]
    segments = [
        replace(
            segment, first_timestamp_ms=NOW_MS - oldest_ms, max_timestamp_ms=NOW_MS - youngest_ms
        )
        for segment, (oldest_ms, youngest_ms) in zip(
            a_chain(*[100] * len(pairs)), pairs, strict=True
        )
    ]
    vector = () if cleaned is None else cleaned_to(cleaned)
    return a_view(segments, cleaner_offsets=vector, log_start_offset=log_start_offset)
