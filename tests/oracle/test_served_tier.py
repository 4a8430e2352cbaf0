"""On a served tier only tombstones and markers that wait differ from what Kafka's cleaner leaves.

The same logs, clocks and settings as in `test_oracle_fuzz.py`. Each pass gives Kafka's cleaners the
log that tierfold got:

    first     no delete horizon has passed: nothing differs
    second    nor now, and markers get theirs
    unseen    the horizons have passed, and consumers have not seen them: what they let go waits
    seen      all has passed but in the last clean segment, which is compared again
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest

from tests.oracle.comparators import equal_logs, explained
from tests.oracle.fuzz_run import (
    DELETE_RETENTION_MS,
    PASSES_MS,
    PRODUCER_EXPIRATION_MS,
    settings_of_kafka,
)
from tests.oracle.kafka_lab import Batch, Record
from tests.oracle.oracles import Cleaned, Oracles
from tests.oracle.recipes import recipe
from tests.oracle.remote_views import RemoteSegment, to_local, to_remote
from tests.pictures.drawn_log import HOUR_MS, ServedLog
from tests.pictures.log_pictures import Log
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import CleanerOffset
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import resolve

SEEDS: Final = range(6)
SEGMENT_BYTES: Final = 5_000
"""Small, so that many segments are left."""
FIRST_DIRTY: Final = 25
"""As in the other runs: duplicates below it stay."""
RULES: Final = Rules(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=SEGMENT_BYTES,
    producer_id_expiration_ms=PRODUCER_EXPIRATION_MS,
    min_cleanable_dirty_ratio=Fraction(0),
    delete_retention_ms=DELETE_RETENTION_MS,
    tail_margin_segments=0,
)
TIMES_MS: Final = {
    "first": PASSES_MS[0],
    "second": PASSES_MS[1],
    "unseen": PASSES_MS[3],
    "seen": PASSES_MS[3] + 10 * HOUR_MS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPass:
    """One pass over a served log, and Kafka's over the same one."""

    source: tuple[Batch, ...]
    found: tuple[Batch, ...]
    cleaned: Cleaned
    last_start: int
    """The start of the last clean segment before the pass: there the last pass compares keys."""


@pytest.fixture(scope="module")
def served(
    oracles: Oracles, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, dict[str, ServedPass]]:
    """By seed, all passes."""
    folder = tmp_path_factory.mktemp("served")
    return {seed: dict(passes_of(oracles, folder / str(seed), seed)) for seed in SEEDS}


def passes_of(oracles: Oracles, folder: Path, seed: int) -> Iterator[tuple[str, ServedPass]]:
    """Make a seed's log, let brokers serve it, and pass over it."""
    name, lab = f"t{seed}-0", oracles.lab
    lab.make(folder / "made" / name, **recipe(seed))
    to_remote(folder / "made" / name, folder / "tier", seed)
    log = opened(folder / "tier")
    view = copied(folder, log, "before")
    for number, (what, now_ms) in enumerate(TIMES_MS.items()):
        end = log.row.cleaner_offset or 0
        clean = [one.start_offset for one in log.row.segments if one.next_offset <= end]
        last_start = clean[-1] if clean else 0
        first_dirty = (FIRST_DIRTY, 0, 0, last_start)[number]
        source, log.now_ms = view, now_ms
        log.compact(first_dirty=first_dirty if number else None)
        view = copied(folder, log, what)
        log.publish()
        yield what, ServedPass(
            source=tuple(lab.batches(source)),
            found=tuple(lab.batches(view)),
            cleaned=oracles.clean(
                seed, source, folder / "oracle" / what, now_ms=now_ms,
                **settings_of_kafka(first_dirty) | {"segment_bytes": SEGMENT_BYTES},
            ),
            last_start=last_start,
        )


def opened(tier: Path) -> ServedLog:
    """The log in a new tier, which brokers have uploaded; it is clean up to `FIRST_DIRTY`."""
    context = run_context(str(tier), None, TIMES_MS["first"])
    (plan,) = survey(context, resolve(("cleanup.policy=compact",)), Scope())
    assert plan.view is not None
    segments = plan.view.segments
    originals = Log(
        tier=context.tier, segments=segments, lineage=plan.view.lineage, is_last_beyond=False
    )
    log = ServedLog(originals, RULES, key=plan.key, now_ms=TIMES_MS["first"])
    for _ in segments:
        log.upload()
    clean = (CleanerOffset(epoch=1, offset=FIRST_DIRTY),)
    log.row = replace(log.row, epoch=1, cleaner_offsets=clean)
    return log


def copied(folder: Path, log: ServedLog, what: str) -> Path:
    """The live segments under local names."""
    tier = folder / "tier"
    segments = log.row.segments or log.originals.segments
    paths = [next(tier.rglob(f"*-{one.segment_id}.log")) for one in segments]
    remote = [
        RemoteSegment(start_offset=one.start_offset, end_offset=one.end_offset, log=path)
        for one, path in zip(segments, paths, strict=True)
    ]
    return to_local(remote, folder / what / f"{log.key}")


def kept(batches: Sequence[Batch]) -> dict[int, tuple[Batch, Record]]:
    """The records by offset, each with its batch."""
    return {record["offset"]: (batch, record) for batch in batches for record in batch["records"]}


def waiting(done: ServedPass, of_kafka: Sequence[Batch], now_ms: int) -> dict[int, Batch]:
    """Tombstones and markers, by offset, whose horizon has passed, and that only Kafka drops."""
    horizons = {batch["baseOffset"]: batch["deleteHorizonMs"] for batch in done.source}
    gone = kept(done.found).keys() - kept(of_kafka).keys()
    found = {}
    for offset, (batch, record) in kept(done.found).items():
        horizon_ms = horizons.get(batch["baseOffset"])
        may_go = batch["isControl"] or record["valueLen"] < 0
        if offset in gone and may_go and horizon_ms is not None and horizon_ms <= now_ms:
            found[offset] = batch
    return found


def differences(done: ServedPass, of_kafka: Sequence[Batch], now_ms: int) -> list[str]:
    """All that differs, without what waits."""
    late = waiting(done, of_kafka, now_ms)
    bases = {batch["baseOffset"] for batch in late.values()}

    def others(batches: Sequence[Batch]) -> list[Batch]:
        return [batch for batch in batches if batch["baseOffset"] not in bases]

    def beside(batches: Sequence[Batch]) -> dict[int, Mapping[str, Any]]:
        return {
            offset: record
            for offset, (batch, record) in kept(batches).items()
            if batch["baseOffset"] in bases and offset not in late
        }

    unequal = equal_logs(others(of_kafka), others(done.found), done.source)
    wanted, got = beside(of_kafka), beside(done.found)
    return unequal + [f"beside what waits: {wanted}, not {got}"] * (wanted != got)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("what", TIMES_MS)
def test_only_what_waits_differs_from_kafka(
    served: dict[int, dict[str, ServedPass]], seed: int, what: str
) -> None:
    done, now_ms = served[seed][what], TIMES_MS[what]
    for version, cleaning in done.cleaned.items():
        found = differences(done, cleaning.expected, now_ms)
        assert explained(found, f"{what}, Kafka {version}: {cleaning.log}") == ""
        late = waiting(done, cleaning.expected, now_ms)
        assert not late or what not in {"first", "second"}
        # What may hide a record that this pass removes stays in it.
        assert all(offset >= done.last_start for offset in late if what == "seen")


def test_the_logs_have_what_waits_and_what_goes(
    served: dict[int, dict[str, ServedPass]],
) -> None:
    late = {"tombstone": 0, "marker": 0}
    went = {"tombstone": 0, "marker": 0}
    for passes in served.values():
        unseen, seen = passes["unseen"], passes["seen"]
        (cleaning, *_) = unseen.cleaned.values()
        for batch in waiting(unseen, cleaning.expected, TIMES_MS["unseen"]).values():
            late["marker" if batch["isControl"] else "tombstone"] += 1
        for offset in kept(seen.source).keys() - kept(seen.found).keys():
            batch, _ = kept(seen.source)[offset]
            went["marker" if batch["isControl"] else "tombstone"] += 1
    assert min(*late.values(), *went.values()) > 0, (late, went)
