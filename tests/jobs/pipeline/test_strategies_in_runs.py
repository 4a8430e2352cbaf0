"""In one run many topics match the strategies' model, and the run reports its counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.jobs.claimed_rounds import ALWAYS
from tests.jobs.tiers import INDEX_INTERVAL_BYTES, folder_of, key_of, made_tier, put_segment
from tests.pictures.batch_words import VERSION_HEADER, draft_of
from tests.pictures.strategy_histories import Chunk as HistoryChunk
from tests.pictures.strategy_histories import histories, records_of
from tests.pictures.strategy_model import ModelLog, ModelRecord
from tests.storage.live_segments import EPOCHS
from tierfold.compaction.model.outcomes import Committed
from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.compaction.planning.plan import Compact
from tierfold.jobs.context.byte_progress import unheard
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.engines import task_assignment
from tierfold.jobs.engines.engine_choice import in_process
from tierfold.jobs.engines.local_executor import LocalExecutor
from tierfold.jobs.pipeline.claiming import begun_rounds
from tierfold.jobs.pipeline.held_partitions import HeldPartitions
from tierfold.jobs.pipeline.known_partition import KnownPartition
from tierfold.jobs.pipeline.partition_report import planned_report, result_report
from tierfold.jobs.pipeline.partition_run import PartitionRun
from tierfold.jobs.pipeline.round_execution import RoundResult
from tierfold.jobs.pipeline.run_loop import results_of
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import Settings, resolve
from tierfold.jobs.verbs.verify import verify
from tierfold.jobs.verbs.verify_targets import VerifyTarget, target_of
from tierfold.storage.segments.segment_reader import read_segment

RETENTION_MS: Final = 1000
ROUNDS: Final = 3
TOPICS: Final = 8


def drawn_histories() -> list[tuple[HistoryChunk, ...]]:
    """One per topic, the same in every test run."""
    found: list[tuple[HistoryChunk, ...]] = []

    @settings(
        max_examples=20 * TOPICS,
        phases=[Phase.generate],
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(histories())
    def take(history: tuple[HistoryChunk, ...]) -> None:
        if len(history) >= ROUNDS and len(found) < TOPICS:
            found.append(history[:ROUNDS])

    take()
    return found


def put_chunk(tier: Path, key: PartitionKey, chunk: HistoryChunk) -> None:
    for words in chunk.segments:
        drafts = [draft_of(word, EPOCHS[-1].epoch) for word in words]
        put_segment(tier, key, drafts, start_offset=drafts[0].base_offset)


def settings_of(tier: Path, chunks: Mapping[PartitionKey, HistoryChunk]) -> Settings:
    """Each topic with its chunk's strategy, in a file beside the tier."""
    tables = []
    for key, chunk in chunks.items():
        table = [f'[topics."{key.topic}"]', f'"compaction.strategy" = "{chunk.strategy.value}"']
        if chunk.strategy is CompactionStrategy.HEADER:
            table.append(f'"compaction.strategy.header" = "{VERSION_HEADER}"')
        tables += table
    config = tier.with_name("settings.toml")
    config.write_text("\n".join(tables))
    return resolve([*ALWAYS, f"delete.retention.ms={RETENTION_MS}"], config)


def cleaned(
    tier: Path, now_ms: int, chunks: Mapping[PartitionKey, HistoryChunk]
) -> tuple[RunContext, list[RoundResult]]:
    """A run over all partitions of `chunks`, each under its chunk's strategy."""
    context = run_context(str(tier), None, now_ms)
    runs = []
    for plan in survey(context, settings_of(tier, chunks), Scope()):
        if plan.is_due and plan.key in chunks:
            is_last = chunks[plan.key].is_last_chunk
            chunk = replace(plan, choice=replace(plan.compact, is_last=is_last))
            runs.append(PartitionRun(plan=plan).beginning(chunk, now_ms))
    executor = LocalExecutor(context.tier, unheard)
    with HeldPartitions(context=context, verb="compact") as held:
        _, rounds = begun_rounds(held, runs)
        return context, list(results_of(executor, rounds, held))


def seen(context: RunContext, tier: Path, key: PartitionKey) -> Iterator[ModelRecord]:
    state = context.catalog.read([key])[key]
    for segment in state.segments:
        (log,) = folder_of(tier, key).glob(f"*{segment.segment_id}.log")
        for batch in read_segment(log).batches():
            for record in batch.records:
                yield ModelRecord(
                    offset=record.offset,
                    batch=batch.base_offset,
                    timestamp_ms=record.timestamp_ms,
                    key=record.key,
                    value=record.value,
                    headers=record.headers,
                )


def test_topics_under_every_strategy_match_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Several key buckets per partition.
    monkeypatch.setattr(task_assignment, "BUCKET_BYTES", 200)
    tier, now_ms = made_tier(tmp_path / "tier"), 0
    topics = {key_of(f"topic{i}"): history for i, history in enumerate(drawn_histories())}
    models: dict[PartitionKey, ModelLog] = defaultdict(
        lambda: ModelLog(delete_retention_ms=RETENTION_MS)
    )
    for number in range(ROUNDS):
        now_ms += RETENTION_MS * (number % 2)
        chunks = {key: history[number] for key, history in topics.items()}
        for key, chunk in chunks.items():
            put_chunk(tier, key, chunk)
            model = models[key]
            model.records += records_of(chunk)
            end = 1 + max((record.offset for record in records_of(chunk)), default=0)
            model.clean(end, chunk.strategy, now_ms, is_last_chunk=chunk.is_last_chunk)
        context, results = cleaned(tier, now_ms, chunks)
        assert len(results) == TOPICS
        assert all(isinstance(result.outcome, Committed) for result in results), results
        for key in topics:
            assert list(seen(context, tier, key)) == models[key].records, (key, number)
        engine = in_process(2**30)
        for found in verify(context, resolve([]), Scope(), engine=engine):
            assert found.corruptions == (), number
            strategies = {chunk.strategy for chunk in topics[found.key][: number + 1]}
            assert (found.keys_compared is not None) == (len(strategies) == 1), found.notes


def test_a_run_records_its_strategy_and_the_next_plan_reports_a_change(tmp_path: Path) -> None:
    tier, key = made_tier(tmp_path / "tier"), key_of("topic")
    chunk = one_topic(tier, ("0:a=1@5", "1:a=2@4"), CompactionStrategy.TIMESTAMP)
    context, _ = cleaned(tier, 0, {key: chunk})
    state = context.catalog.read([key])[key]
    assert state.strategies == ("timestamp",)
    one_topic(tier, ("2:a=3@3",), CompactionStrategy.OFFSET)
    (planned,) = survey(context, resolve([*ALWAYS]), Scope())
    assert isinstance(planned.choice, Compact)
    (note,) = planned.choice.notes
    assert note.startswith("the compaction strategy was timestamp and is offset now")
    assert target(context, state).before is not None
    # Records that timestamps removed are gone, although offsets decide now.
    changed = target(context, replace(state, strategies=("timestamp", "offset")))
    assert (changed.before, changed.corruptions) == (None, ())
    assert changed.notes == (
        "not compared: compacted by timestamp, then by offset: removed records do not return",
    )


def target(context: RunContext, state: PartitionState) -> VerifyTarget:
    listed = context.tier.listing(state.key)
    known = KnownPartition(key=state.key, state=state, refusal=None, listed=listed)
    return target_of(context, known, Rules(index_interval_bytes=INDEX_INTERVAL_BYTES))


def one_topic(tier: Path, words: Sequence[str], strategy: CompactionStrategy) -> HistoryChunk:
    chunk = HistoryChunk(
        segments=(tuple(words),),
        strategy=strategy,
        waited_ms=0,
        is_last_chunk=True,
        segment_bytes=1,
    )
    put_chunk(tier, key_of("topic"), chunk)
    return chunk


def test_an_expired_tombstone_waits_for_superseded_records_of_every_segment(tmp_path: Path) -> None:
    tier, key = made_tier(tmp_path / "tier"), key_of("topic")
    words = ("0:a=@5^50", "1:b=1@4", "2:b=@5^50", "3:c=@5^50")
    one_topic(tier, words, CompactionStrategy.TIMESTAMP)
    chunk = one_topic(tier, ("4:a=1@4", "5:d=1"), CompactionStrategy.TIMESTAMP)
    context, _ = cleaned(tier, 50, {key: chunk})
    assert [record.key for record in seen(context, tier, key)] == [b"a", b"b", b"d"]


def test_malformed_versions_are_counted_beside_the_other_counts(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    words = ("0:a=1#null", "1:a=2#3", "2:b=1#short", "3:c=1", "4:=1#null")
    chunk = one_topic(tier, words, CompactionStrategy.HEADER)
    context, (result,) = cleaned(tier, 0, {key_of("topic"): chunk})
    (planned,) = (planned_report(plan) for plan in survey(context, resolve([*ALWAYS]), Scope()))
    report = result_report(planned, result)
    assert report.counts.malformed_versions == 2
    assert report.counts.adds_up
    assert (report.counts.kept, report.counts.superseded, report.counts.without_key) == (3, 1, 1)
    (note,) = (note for note in report.notes if "not a version" in note)
    assert note.startswith("2 of 5 records have a version header that is not a version")
