"""What `upload` takes by the copy lag equals what the copy task of Kafka's brokers would take."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.oracle.oracles import Oracles
from tests.oracle.recipes import TS_START_MS
from tierfold.compaction.model.kafka_versions import KAFKA_VERSIONS
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.uploading.upload_plan import upload_plan
from tierfold.storage.log_dirs.log_directory import LogCheckpoints, LogDirectory

CASES = 400


def drawn_case(rng: random.Random, end: int) -> dict[str, Any]:
    kept_ms = rng.choice([-1, rng.randint(1, 5000)])
    kept_bytes = rng.choice([-1, rng.randint(1, 200_000)])
    return {
        "from": rng.choice([0, rng.randint(0, end)]),
        "last_stable_offset": rng.randint(0, end),
        "now_ms": TS_START_MS + rng.randint(-500, 6000),
        "settings": {
            "retention.ms": -1,
            "retention.bytes": -1,
            "local.retention.ms": rng.choice([-2, kept_ms]),
            "local.retention.bytes": rng.choice([-2, kept_bytes]),
            "remote.copy.lag.ms": rng.choice([-1, 0, rng.randint(1, 5000)]),
            "remote.copy.lag.bytes": rng.choice([-1, 0, rng.randint(1, 200_000)]),
        },
    }


def test_the_same_segments_are_due(oracles: Oracles, tmp_path: Path) -> None:
    newest = oracles.labs[KAFKA_VERSIONS[-1]]
    made = oracles.lab.make(
        tmp_path / "orders-0", seed=11, records=2000, codec="none,zstd", segment_bytes=20_000
    )
    end = made["logEndOffset"]
    rng = random.Random(11)
    cases = [drawn_case(rng, end) for _ in range(CASES)]
    answers = newest.copy_candidates(tmp_path / "orders-0", cases)
    directory = LogDirectory(tmp_path)
    key = PartitionKey(topic="orders", partition=0, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    name = ("orders", 0)
    uploads = 0
    for case, answer in zip(cases, answers, strict=True):
        bound = case["last_stable_offset"]
        everywhere = {name: end}
        log = directory.log(key, LogCheckpoints(
            recovery_points=everywhere,
            high_watermarks={name: bound},
            log_starts={},
            cleaner_offsets={},
        ))
        rules = Rules(**{n.replace(".", "_"): value for n, value in case["settings"].items()})
        plan = upload_plan(log, rules, case["now_ms"], tier_end=case["from"] - 1)
        assert [one.start_offset for one in plan.uploads] == answer, case
        uploads += len(answer)
    assert len(log.rolled) > 5
    assert uploads > CASES
