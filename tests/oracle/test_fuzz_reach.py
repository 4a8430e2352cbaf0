"""All seeds together reach every outcome of a batch, a record and a marker."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from tests.oracle.fuzz_run import FuzzedTopic, Pass
from tests.oracle.kafka_lab import Batch, KafkaLab
from tests.oracle.recipes import LEGACY_FROM

OUTCOMES = {
    *("compressed batch copied", "compressed batch rewritten", "batch emptied", "batch removed"),
    *("horizon set", "tombstone removed", "marker removed", "marker stays"),
    *("aborted transaction listed", "undecided batch untouched", "nothing cleaned"),
    "producer expired",
}

CODECS = ("none", "gzip", "snappy", "lz4")


def test_all_seeds_together_reach_each_outcome(
    lab: KafkaLab, fuzzed: dict[int, FuzzedTopic]
) -> None:
    met: Counter[str] = Counter()
    for topic in fuzzed.values():
        source = lab.batches(topic.before)
        for done in topic.passes:
            found = [*done.oracle.batches]
            met.update(_outcomes(source, found, done))
            met["aborted transaction listed"] += len(lab.side_files(done.oracle.log)["txnindex"])
            source = lab.batches(done.view)
        for one, two in pairwise(topic.passes):
            met["producer expired"] += len(one.oracle.producers.keys() - two.oracle.producers)
    assert {outcome for outcome in OUTCOMES if met[outcome] < 3} == set(), met


def test_legacy_seeds_together_convert_every_codec_and_reach_both_outcomes_of_a_tombstone(
    lab: KafkaLab, fuzzed: dict[int, FuzzedTopic]
) -> None:
    met: Counter[str] = Counter()
    for seed, topic in fuzzed.items():
        if seed >= LEGACY_FROM:
            cleaned = [*topic.passes[0].oracle.batches]
            met.update(_legacy_outcomes(lab.batches(topic.before), cleaned))
    wanted = {f"magic {magic} {codec} converted" for magic in (0, 1) for codec in CODECS}
    wanted |= {"latest tombstone removed at once", "latest tombstone stays"}
    assert {outcome for outcome in wanted if met[outcome] < 3} == set(), met


def _legacy_outcomes(source: list[Batch], found: list[Batch]) -> Counter[str]:
    met: Counter[str] = Counter()
    last = {record["key"]: record["offset"] for batch in source for record in batch["records"]}
    left = {record["offset"] for batch in found for record in batch["records"]}
    for batch in source:
        for record in batch["records"]:
            if batch["magic"] == 2 or last[record["key"]] != record["offset"]:
                continue
            is_left = record["offset"] in left
            met[f"magic {batch['magic']} {batch['codec']} converted"] += is_left
            if record["key"] is not None and record["valueLen"] < 0:
                outcome = "stays" if is_left else "removed at once"
                met[f"latest tombstone {outcome}"] += 1
    return met


def _outcomes(source: list[Batch], found: list[Batch], done: Pass) -> Counter[str]:
    met: Counter[str] = Counter()
    kept = {batch["baseOffset"]: batch for batch in found}
    for batch in source:
        after = kept.get(batch["baseOffset"])
        kind = "marker" if batch["isControl"] else "batch"
        if after is None:
            met[f"{kind} removed"] += 1
            met["tombstone removed"] += any(r["valueLen"] < 0 for r in batch["records"])
        elif after["crc"] == batch["crc"]:
            met["marker stays"] += kind == "marker"
            met["compressed batch copied"] += batch["codec"] != "none"
            met["undecided batch untouched"] += batch["baseOffset"] >= done.oracle.end > 0
        else:
            met["compressed batch rewritten"] += after["codec"] != "none"
            met["batch emptied"] += after["count"] == 0 < batch["count"]
            met["horizon set"] += after["deleteHorizonMs"] != batch["deleteHorizonMs"]
    met["nothing cleaned"] += done.oracle.end == 0
    return met
