"""What tierfold reads of a payload is what Kafka's own readers do."""

from __future__ import annotations

import random
from typing import Final

from tests.oracle.kafka_lab import KafkaLab
from tests.storage.kafka_payloads import ONE, PAYLOADS, TWO
from tierfold.compaction.model.errors import CorruptLog
from tierfold.storage.kafka.compression import Codec, compress, decompress

MUTATIONS: Final = 1500

def decompressed(codec: Codec, stored: bytes) -> bytes | None:
    try:
        return decompress(codec, stored, where="a log")
    except CorruptLog:
        return None


def test_what_lies_behind_a_member_or_frame_is_read_as_kafka_does(lab: KafkaLab) -> None:
    payloads = [(codec.name.lower(), stored) for codec, stored, _ in PAYLOADS.values()]
    expected = [plain for _, _, plain in PAYLOADS.values()]
    assert lab.decompressed(payloads) == expected


def test_corrupted_ends_are_read_as_kafka_does(lab: KafkaLab) -> None:
    rng = random.Random(48)
    cases: list[tuple[Codec, bytes]] = []
    for _ in range(MUTATIONS):
        codec = rng.choice((Codec.GZIP, Codec.SNAPPY, Codec.LZ4))
        behind = rng.choice((compress(codec, TWO), rng.randbytes(30), bytes(30)))
        stored = compress(codec, ONE) + behind[: rng.randrange(len(behind) + 1)]
        if rng.random() < 0.3:
            stored += rng.choice((bytes(20), compress(codec, ONE)))
        cases.append((codec, stored))
    theirs = lab.decompressed((codec.name.lower(), stored) for codec, stored in cases)
    ours = [decompressed(codec, stored) for codec, stored in cases]
    assert len({plain is None for plain in theirs}) == 2
    differing = [case for case, a, b in zip(cases, ours, theirs, strict=True) if a != b]
    assert differing == []
