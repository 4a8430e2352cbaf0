"""The log of each seed, as options of LogMaker; many seeds together mix all features."""

from __future__ import annotations

import random
from typing import Final

from tests.oracle.kafka_lab import Option

TS_START_MS: Final = 1_700_000_000_000
FIRST_PASS_MS: Final = TS_START_MS + 20_000
"""The clock of the first pass, after the newest record."""

_TS_JITTER_MAX_MS: Final = 2000
RECORDS_MAX: Final = 1800
TS_STEP_MAX_MS: Final = 8
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
LEGACY_FROM: Final = 1000
"""From this seed on, logs have batches of magic 0 and 1."""
_MAGICS: Final = ("0", "1", "0,1", "1,2", "0,1,2")
_LEGACY_CODECS: Final = ("none", "gzip", "snappy", "lz4")


def recipe(seed: int) -> dict[str, Option]:
    """The options of a seed's log; all topics have the same settings.

    Half of the logs start at `TS_START_MS`. The others end at the first pass, so that their delete
    horizons are close to their records.
    """
    options = _recipe(seed)
    if seed >= LEGACY_FROM:
        options |= _legacy(seed, options)
        options.pop("open_txn_at", None)
    if seed % 2:
        span_ms = int(options["records"]) * int(options["ts_step"])
        options["ts_start"] = FIRST_PASS_MS - _TS_JITTER_MAX_MS - span_ms
    if seed % 4 == 0:
        options["ts_none"] = 0.1
    return options


def _legacy(seed: int, options: dict[str, Option]) -> dict[str, Option]:
    """The options that differ in a log with batches of magic 0 and 1.

    The log is long enough for a clean region before the first pass. Batches of producers with an id
    always have magic 2, so most of the logs have no such producers.

    All transactions commit. Otherwise Kafka's cleaner might start to read after the marker of an
    aborted transaction, in the segment that has the first dirty offset. Then it takes the
    producer's next transaction for aborted, too, and keeps superseded records.
    """
    rnd = random.Random(-seed)
    producers = rnd.choice([(0, 0), (0, 0), (2, 2)])
    return {
        "magic": _MAGICS[seed % len(_MAGICS)],
        "legacy_holes": rnd.choice([0, 0.3]),
        "codec": rnd.choice(["none", ",".join(_LEGACY_CODECS), rnd.choice(_LEGACY_CODECS)]),
        "records": rnd.randint(600, RECORDS_MAX),
        "batch_records": rnd.choice(["1:4", "1:30"]),
        "segment_bytes": rnd.choice(["6k", "12k", "30k"]),
        "tombstones": rnd.choice([0.1, 0.4]),
        "null_keys": rnd.choice([0, 0.2]),
        "idem": producers[0],
        "txn": producers[1],
        "abort": 0,
        "open_txn": False,
        "empty_batches": options["empty_batches"] if any(producers) else 0,
    }


def _recipe(seed: int) -> dict[str, Option]:
    rnd = random.Random(seed)
    codecs = rnd.choice([("none",), (rnd.choice(_CODECS),), tuple(rnd.sample(_CODECS, 3)), _CODECS])
    options: dict[str, Option] = {
        "seed": seed,
        "ts_start": TS_START_MS,
        "ts_step": rnd.choice([0, 1, TS_STEP_MAX_MS]),
        "ts_jitter": rnd.choice([0, 0, 50, _TS_JITTER_MAX_MS]),
        "ts_type": rnd.choice(["CreateTime", "CreateTime", "LogAppendTime"]),
        "records": rnd.randint(200, RECORDS_MAX),
        "keys": rnd.choice([1, 15, 80, 400]),
        "key_size": rnd.choice([3, 16, 24]),
        "key_kind": rnd.choice(["text", "binary"]),
        "key_dist": rnd.choice(["uniform", "zipf:1.1", "seq"]),
        "value_size": rnd.choice(["20:300", "0:40", "exp:120"]),
        "value_kind": rnd.choice(["text", "random"]),
        "codec": ",".join(codecs),
        "batch_records": rnd.choice(["1:4", "1:30", "20:60"]),
        "segment_bytes": rnd.choice(["12k", "30k", "80k", "300k"]),
        "tombstones": rnd.choice([0, 0.1, 0.4]),
        "headers": rnd.choice(["0", "0:3"]),
        "epochs": rnd.choice([1, 3, 6]),
        "empty_batches": rnd.choice([0, 0.05]),
    }
    if rnd.random() < 0.15:
        options["null_keys"] = 0.2
    return options | _producers(rnd)


def _producers(rnd: random.Random) -> dict[str, Option]:
    options: dict[str, Option] = {}
    if rnd.random() < 0.6:
        options["idem"] = rnd.randint(1, 4)
    if rnd.random() < 0.7:
        options |= {
            "txn": rnd.randint(1, 4),
            "abort": rnd.choice([0.3, 0.7]),
            "txn_version": rnd.choice([0, 2]),
            "txn_batches": rnd.choice(["1:1", "1:5", "4:12"]),
        }
        if rnd.random() < 0.3:
            options |= {"open_txn": True, "open_txn_at": rnd.choice([0.4, 0.8])}
    return options


def uploads_below_stable(seed: int) -> bool:
    """Whether a seed uploads only segments below the last stable offset, as brokers do.

    The other seeds also upload undecided transactions; tierfold must stop there by itself.
    """
    return seed % 3 != 0


def features(options: dict[str, Option]) -> set[str]:
    """The features that a recipe has."""
    reached = {f"codec {name}" for name in str(options["codec"]).split(",")}
    reached |= {f"{name} {options[name]}" for name in ("ts_type", "key_kind", "segment_bytes")}
    if "," in str(options["codec"]):
        reached.add("mixed codecs")
    if options.get("txn"):
        reached.add(f"txn_version {options['txn_version']}")
    flags = ("tombstones", "null_keys", "empty_batches", "open_txn", "idem", "ts_jitter", "ts_none")
    reached |= {name for name in flags if options.get(name)}
    if options["headers"] != "0":
        reached.add("headers")
    if options["epochs"] != 1:
        reached.add("epochs")
    if options["ts_start"] != TS_START_MS:
        reached.add("ends near the first pass")
    return reached
