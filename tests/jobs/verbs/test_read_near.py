"""`--log-dir`: segments are read from a broker's log directory if they are the tier's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import tierfold
from tests.jobs.aiven import BOTH
from tests.jobs.commands import tierfold as tierfold_command
from tests.jobs.log_dirs import WrittenLogDir
from tests.jobs.result_schema import faults
from tests.jobs.tiers import flip_last_byte, key_of, made_tier, updated_tier
from tests.jobs.verbs.test_upload import seen
from tests.storage.emulators import new_bucket, s3, s3_environment
from tests.storage.live_segments import data
from tests.storage.s3_proxy import proxied
from tests.storage.tiers.aiven_samples import KEY_FILE
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.storage.kafka.batch_draft import write_batch
from tierfold.storage.tiers.near_reads import NearReads
from tierfold.storage.tiers.tier_uris import open_tier

ORDERS: Final = key_of("orders")
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "tier.binding": "detached",
}
NOTHING: Final = NearReads()


@pytest.fixture
def logs(tmp_path: Path) -> WrittenLogDir:
    return WrittenLogDir(tmp_path / "data")


@pytest.fixture(params=["of upload", "of brokers"])
def tier(request: pytest.FixtureRequest, logs: WrittenLogDir, tmp_path: Path) -> Path:
    """A tier of three segments, which the log directory has, too."""
    if request.param == "of brokers":
        made = updated_tier(tmp_path / "tier", (ORDERS,), segments=3)
        logs.hold(ORDERS, open_tier(str(made)))
        return made
    made = made_tier(tmp_path / "tier")
    tierfold.upload(logs.filled(ORDERS, 3).path, made)
    return made


def near_of(result: Any) -> NearReads:
    assert result.near is not None
    assert not faults(result.to_dict())
    return result.near  # type: ignore[no-any-return]


def log_bytes(logs: WrittenLogDir, *starts: int) -> int:
    files = sorted(logs.folder(ORDERS).glob("*.log"))
    return sum(file.stat().st_size for file in files if not starts or int(file.stem) in starts)


def verified(tier: Path | str, logs: WrittenLogDir, **given: Any) -> Any:
    result = tierfold.verify(tier, engine="local", log_dirs=logs.path, **given)
    assert result.outcome == "sound", result
    return result


def compacted(tier: Path, **given: Any) -> Any:
    result = tierfold.compact(tier, settings=COMPACTED, engine="local", **given)
    assert result.outcome == "compacted", result
    return result


def test_what_a_log_directory_has_is_read_there(
    tier: Path, logs: WrittenLogDir, tmp_path: Path
) -> None:
    alone = Path(shutil.copytree(tier, tmp_path / "alone"))
    before = seen(logs.path)
    sound = verified(tier, logs)
    assert near_of(sound) == NearReads(reads=3, read_bytes=log_bytes(logs))
    assert sound.partitions[0].segments_near == 3
    (note,) = (one for one in sound.partitions[0].notes if "log directories" in one)
    assert "their .log objects in the tier were listed, not read" in note
    assert "not from the tier: 3" in str(sound)
    assert "were read from log directories and not from the tier, in 3 reads.\n" in str(sound)
    result, expected = compacted(tier, log_dirs=[logs.path]), compacted(alone)
    assert near_of(result).read_bytes >= log_bytes(logs)
    assert result.partitions[0].counts == expected.partitions[0].counts
    assert seen(logs.path) == before
    # Its own segment is not there, the originals are.
    again = verified(tier, logs)
    assert again.partitions[0].segments_near == 3
    assert again.partitions[0].keys_compared == verified(alone, logs).partitions[0].keys_compared


def flipped(log: Path) -> None:
    flip_last_byte(log)


def of_another_leader(log: Path) -> None:
    """No checksum of a batch covers its leader epoch."""
    content = bytearray(log.read_bytes())
    content[15] += 1
    log.write_bytes(content)


def with_another_index(log: Path) -> None:
    flip_last_byte(log.with_suffix(".timeindex"))


def gone(log: Path) -> None:
    log.rename(log.with_suffix(".deleted"))


@pytest.mark.parametrize("change", [flipped, of_another_leader, with_another_index, gone])
def test_what_is_not_the_tiers_is_read_from_the_tier(
    tier: Path, logs: WrittenLogDir, change: Callable[[Path], None]
) -> None:
    for log in sorted(logs.folder(ORDERS).glob("*.log"))[:3]:
        change(log)
    sound = verified(tier, logs)
    assert near_of(sound) == NOTHING
    assert sound.partitions[0].segments_near == 0
    assert "log director" not in str(sound)
    assert near_of(compacted(tier, log_dirs=logs.path)) == NOTHING


@pytest.mark.parametrize("tier", ["of upload"], indirect=True)
def test_the_id_of_an_upload_tells_other_records_of_the_same_size(
    tier: Path, logs: WrittenLogDir
) -> None:
    pairs = [(f"k{n}".encode(), f"{10 + n}".encode()) for n in range(10)]
    changed = [(pairs[0][0], b"!!"), *pairs[1:]]
    batches = [write_batch(data(10 + at, *changed[at : at + 5])) for at in (0, 5)]
    log = logs.file(ORDERS, 10, "log")
    assert len(b"".join(batches)) == log.stat().st_size
    log.write_bytes(b"".join(batches))
    assert near_of(verified(tier, logs)).read_bytes == log_bytes(logs, 0, 20)


@pytest.mark.parametrize("damage", [lambda found: found[:-1], lambda found: bytes(len(found))])
def test_a_file_that_changes_after_it_was_proven_ends_no_partition(
    tier: Path,
    logs: WrittenLogDir,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[bytes], bytes],
) -> None:
    assert verified(tier, logs).partitions[0].segments_near == 3
    read = os.pread

    monkeypatch.setattr(os, "pread", lambda *given: damage(read(*given)))
    sound = verified(tier, logs)
    assert sound.partitions[0].records
    result = compacted(tier, log_dirs=logs.path)
    assert result.partitions[0].counts.kept


@pytest.mark.parametrize("tier", ["of brokers"], indirect=True)
def test_verify_reports_a_corruption_only_of_the_tiers_object(
    tier: Path, logs: WrittenLogDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified(tier, logs)
    read = os.pread

    def of_epoch_4(*given: int) -> bytes:
        found = read(*given)  # No checksum covers the leader epoch.
        return found[:15] + b"\x04" + found[16:]

    monkeypatch.setattr(os, "pread", of_epoch_4)
    assert verified(tier, logs).partitions[0].segments_near == 0


def test_an_encoded_tier_is_read_near_as_well(tmp_path: Path, logs: WrittenLogDir) -> None:
    plain = updated_tier(tmp_path / "plain", (ORDERS,), segments=2)
    logs.hold(ORDERS, open_tier(str(plain)))
    tier = aiven_tier(plain, tmp_path / "tier", BOTH.variant)
    given = {"key_prefix": BOTH.variant.key_prefix, "encryption_keys": {"key-1": KEY_FILE}}
    assert near_of(verified(tier, logs, **given)).read_bytes == log_bytes(logs)


@pytest.mark.parametrize("tier", ["of upload"], indirect=True)
def test_in_a_bucket_it_saves_the_requests(
    tier: Path, logs: WrittenLogDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxied(s3()) as (proxy, endpoint):
        for name, value in s3_environment(endpoint).items():
            monkeypatch.setenv(name, value)
        bucket = f"s3://{new_bucket(s3())}/tier"
        tierfold.upload(logs.path, bucket, layout="local")

        def logs_fetched(**given: Any) -> tuple[int, Any]:
            proxy.requests.clear()
            result = tierfold.verify(bucket, engine="local", **given)
            assert result.outcome == "sound"
            fetched = [one for one in proxy.requests if one.path.endswith(".log")]
            return sum(one.kind == "gets" for one in fetched), result

        fetched, without = logs_fetched()
        assert (fetched, without.near) == (3, None)
        fetched, result = logs_fetched(log_dirs=[logs.path])
        assert (fetched, near_of(result).reads) == (0, 3)
        assert "stored as it is, each would have been" in str(result)
        received = (one.spent.requests.received_bytes for one in (without, result))
        assert next(received) - log_bytes(logs) < next(received) < log_bytes(logs)


@pytest.mark.parametrize("tier", ["of brokers"], indirect=True)
def test_a_directory_that_is_nowhere_is_a_note(
    tier: Path, logs: WrittenLogDir, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    words = ("verify", tier, "--engine", "local", "--log-dir", elsewhere)
    found = tierfold_command(*words, "--json")
    assert found.code == 0
    (note,) = (one for one in found.document["notes"] if "--log-dir" in one)
    assert str(elsewhere) in note
    assert note in tierfold_command(*words).stderr
    assert found.document["log_dirs"] == {"reads": 0, "read_bytes": 0}
    # Another machine of a cluster may have it.
    assert tierfold.verify(tier, engine="local", log_dirs=[elsewhere, logs.path]).notes == ()


@pytest.mark.parametrize("tier", ["of upload"], indirect=True)
def test_a_plan_counts_what_only_the_broker_has(tier: Path, logs: WrittenLogDir) -> None:
    remote_bytes = log_bytes(logs)
    for start in (30, 40):
        logs.roll_ten(ORDERS, start)
    settings = {**COMPACTED, "min.cleanable.dirty.ratio": "0.7"}
    assert tierfold.plan(tier, settings=settings).outcome == "planned"
    result = tierfold.plan(tier, settings=settings, log_dirs=logs.path)
    (planned,) = result.partitions
    assert (planned.outcome, near_of(result)) == ("nothing_to_do", NOTHING)
    assert planned.ratio is not None
    local_bytes = log_bytes(logs) - remote_bytes
    assert planned.ratio.local_bytes == local_bytes
    assert f"({remote_bytes} in the tier, {local_bytes} only on the broker)" in planned.reason
    assert result.to_dict()["partitions"][0]["ratio"]["local_bytes"] == local_bytes
    drawn = tierfold.explain(tier, "orders-0", settings=settings, log_dirs=logs.path)
    assert "only on the broker" in str(drawn)
    unexpected = tierfold.plan(tier, settings=COMPACTED, log_dirs=logs.path)
    assert "that only brokers have" in str(unexpected)
