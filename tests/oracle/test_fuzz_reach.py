"""The seeds together meet every fate that a batch, a record and a marker can have."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from tests.oracle.fuzz_run import FuzzedTopic, Pass
from tests.oracle.kafka_lab import Batch, KafkaLab

FATES = {
    *("compressed batch copied", "compressed batch rewritten", "batch emptied", "batch gone"),
    *("horizon set", "tombstone gone", "marker gone", "marker stays", "aborted transaction listed"),
    *("undecided batch untouched", "nothing cleaned", "producer forgotten"),
}


def test_all_seeds_together_meet_every_fate(lab: KafkaLab, fuzzed: dict[int, FuzzedTopic]) -> None:
    met: Counter[str] = Counter()
    for topic in fuzzed.values():
        source = lab.batches(topic.before)
        for done in topic.passes:
            found = lab.batches(done.oracle)
            met.update(_fates(source, found, done))
            met["aborted transaction listed"] += len(lab.side_files(done.oracle)["txnindex"])
            source = found
        for one, two in pairwise(topic.passes):
            met["producer forgotten"] += len(one.producers - two.producers)
    assert {fate for fate in FATES if met[fate] < 3} == set(), met


def _fates(source: list[Batch], found: list[Batch], done: Pass) -> Counter[str]:
    met: Counter[str] = Counter()
    kept = {batch["baseOffset"]: batch for batch in found}
    for batch in source:
        after = kept.get(batch["baseOffset"])
        kind = "marker" if batch["isControl"] else "batch"
        if after is None:
            met[f"{kind} gone"] += 1
            met["tombstone gone"] += any(r["valueLen"] < 0 for r in batch["records"])
        elif after["crc"] == batch["crc"]:
            met["marker stays"] += kind == "marker"
            met["compressed batch copied"] += batch["codec"] != "none"
            met["undecided batch untouched"] += batch["baseOffset"] >= done.oracle_end > 0
        else:
            met["compressed batch rewritten"] += after["codec"] != "none"
            met["batch emptied"] += after["count"] == 0 < batch["count"]
            met["horizon set"] += after["deleteHorizonMs"] != batch["deleteHorizonMs"]
    met["nothing cleaned"] += done.oracle_end == 0
    return met
