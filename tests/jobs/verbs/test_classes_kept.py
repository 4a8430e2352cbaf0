"""A rewrite keeps storage classes, waits for their minimum durations, and refuses archives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.commands import ALWAYS, CLOCK, Ran, tierfold
from tests.jobs.tiers import key_of, updated_tier
from tests.storage.emulators import (
    moto,
    new_bucket,
    s3_client,
    s3_environment,
    versitygw,
)
from tests.storage.s3_proxy import Proxy, proxied
from tests.storage.tiers.aiven_objects import Variant
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.compaction.model.rules import DAY_MS
from tierfold.storage.clock import now_ms

ORDERS: Final = key_of("orders", 0)
NOW_TOO: Final = ("--set", "rewrite.young.objects=true")
LOG, INDEXES, MANIFEST = SUFFIXES = ("log", "indexes", "rsm-manifest")
RSM: Final = "chunk.size=1048576\nstorage.s3.bucket.name={bucket}\n"


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy in front of moto, which counts requests."""
    with proxied(moto()) as (running, endpoint):
        for name, value in s3_environment(endpoint).items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture(scope="module")
def uploads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tier of Aiven's plugin: one partition with three segments."""
    folder = tmp_path_factory.mktemp("local")
    local = updated_tier(folder / "tier", (ORDERS,), segments=3)
    return aiven_tier(local, folder / "aiven", Variant())


def uploaded(folder: Path, classes: dict[str, str], server: str) -> str:
    """Upload a tier, as brokers do; by suffix, the classes of its objects."""
    bucket = new_bucket(server)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        storage_class = classes.get(path.name.rpartition(".")[2], "STANDARD")
        s3_client(server).put_object(
            Bucket=bucket,
            Key=str(path.relative_to(folder)),
            Body=path.read_bytes(),
            StorageClass=storage_class,
        )
    return f"s3://{bucket}"


def objects(tier: str) -> dict[str, str]:
    """By key, the class of each object of a segment."""
    bucket = tier.removeprefix("s3://")
    found = s3_client(moto()).list_objects_v2(Bucket=bucket)["Contents"]
    return {one["Key"]: one["StorageClass"] for one in found if "_tierfold" not in one["Key"]}


def ran(*arguments: str) -> Ran:
    found = tierfold(*arguments)
    assert found.code == 0, found
    return found


def new_classes(tier: str, *options: str) -> dict[str, str]:
    """Compact; return by suffix the classes of the new objects."""
    before = objects(tier)
    done = ran("compact", tier, *ALWAYS, *options, "--json")
    assert done.entry["outcome"] == "compacted"
    new = {key: name for key, name in objects(tier).items() if key not in before}
    assert ran("verify", tier).code == 0
    return {key.rpartition(".")[2]: name for key, name in new.items()}


@pytest.mark.parametrize(
    "classes",
    [
        pytest.param({}, id="the usual class"),
        pytest.param(dict.fromkeys(SUFFIXES, "STANDARD_IA"), id="one class"),
        pytest.param(dict.fromkeys(SUFFIXES, "INTELLIGENT_TIERING"), id="one without fees"),
        pytest.param({LOG: "GLACIER_IR"}, id="a lifecycle rule has moved the large objects"),
    ],
)
@pytest.mark.usefixtures("proxy")
def test_new_objects_have_the_classes_of_the_sources(
    uploads: Path, classes: dict[str, str]
) -> None:
    tier = uploaded(uploads, classes, moto())
    assert new_classes(tier, *NOW_TOO) == dict.fromkeys(SUFFIXES, "STANDARD") | classes


@pytest.mark.parametrize("storage_class", ["ONEZONE_IA", "STANDARD"])
@pytest.mark.usefixtures("proxy")
def test_the_class_of_the_brokers_properties_goes_first(
    uploads: Path, tmp_path: Path, storage_class: str
) -> None:
    tier = uploaded(uploads, dict.fromkeys(SUFFIXES, "STANDARD_IA"), moto())
    text = RSM.format(bucket=tier.removeprefix("s3://"))
    (config := tmp_path / "rsm").write_text(f"{text}storage.s3.storage.class={storage_class}\n")
    found = new_classes(tier, *NOW_TOO, "--rsm-config", str(config))
    assert found == dict.fromkeys(SUFFIXES, storage_class)


@pytest.mark.usefixtures("proxy")
def test_properties_without_a_class_leave_it_to_the_sources(uploads: Path, tmp_path: Path) -> None:
    tier = uploaded(uploads, dict.fromkeys(SUFFIXES, "STANDARD_IA"), moto())
    (config := tmp_path / "rsm").write_text(RSM.format(bucket=tier.removeprefix("s3://")))
    found = new_classes(tier, *NOW_TOO, "--rsm-config", str(config))
    assert found == dict.fromkeys(SUFFIXES, "STANDARD_IA")


def test_a_tier_of_kafka_keeps_its_classes_in_chunks_and_copies(
    tmp_path: Path, proxy: Proxy
) -> None:
    folder = updated_tier(tmp_path / "tier", (ORDERS,), segments=3)
    tier = uploaded(folder, {"log": "STANDARD_IA"}, moto())
    found = new_classes(tier, *NOW_TOO, "--set", "chunk.bytes=1", "--set", "segment.bytes=1")
    assert found["log"] == "STANDARD_IA"
    assert {found[suffix] for suffix in found if suffix != "log"} == {"STANDARD"}
    assert {name for key, name in objects(tier).items() if key.endswith(".log")} == {"STANDARD_IA"}


def test_a_round_waits_for_the_minimum_duration(uploads: Path, proxy: Proxy) -> None:
    tier = uploaded(uploads, dict.fromkeys(SUFFIXES, "STANDARD_IA"), moto())
    before = objects(tier)

    def entry(verb: str, *options: str, days: int = 0) -> Any:
        at = (CLOCK, str(now_ms() + days * DAY_MS))
        return ran(verb, tier, *ALWAYS, *at, *options, "--json").entry

    for verb in ("plan", "compact"):
        young = entry(verb)
        assert young["outcome"] == "nothing_to_do"
        assert "STANDARD_IA 30 d" in young["reason"]
        assert "rewrite.young.objects=true does not wait" in young["reason"]
        assert "early_deletion_usd" not in young
    assert objects(tier) == before
    old = entry("plan", days=31)
    assert old["outcome"] == "planned"
    assert "early_deletion_usd" not in old
    told = entry("plan", *NOW_TOO)
    assert told["outcome"] == "planned"
    assert 0 < told["early_deletion_usd"] < told["retrieval_usd"] * 2
    screen = ran("plan", tier, *ALWAYS, *NOW_TOO).stdout.replace("\n", " ")
    assert "Deleting what is replaced costs up to" in screen
    assert "of retrieval fees" in screen
    done = tierfold("compact", tier, *ALWAYS, *NOW_TOO, "--json").document
    (compacted,) = done["partitions"]
    assert compacted["early_deletion_usd"] == pytest.approx(told["early_deletion_usd"], rel=0.01)
    assert "retrieval_usd" not in compacted
    assert 0 < done["requests"]["retrieval_usd"] < done["requests"]["cost_usd"]


@pytest.mark.parametrize("suffix", [LOG, MANIFEST])
def test_what_is_archived_is_refused_before_anything_is_read(
    uploads: Path, proxy: Proxy, suffix: str
) -> None:
    tier = uploaded(uploads, {suffix: "DEEP_ARCHIVE"}, moto())
    client, bucket = s3_client(moto()), tier.removeprefix("s3://")
    for verb in ("plan", "compact"):
        refused = tierfold(verb, tier, *ALWAYS, "--json")
        assert refused.code == 3
        assert refused.entry["outcome"] == "refused"
        assert [one["code"] for one in refused.entry["refusals"]] == ["archived"]
        assert f"3 objects cannot be read, by brokers neither, such as the .{suffix} of" in (
            refused.entry["reason"]
        )
        assert "copy each over itself in a class that is read at once" in refused.entry["reason"]
    assert not [one for one in proxy.requests if one.kind == "gets" and suffix in one.path]
    for key, storage_class in objects(tier).items():
        if storage_class == "DEEP_ARCHIVE":
            source = {"Bucket": bucket, "Key": key}
            client.restore_object(Bucket=bucket, Key=key, RestoreRequest={"Days": 1})
            client.copy_object(Bucket=bucket, Key=key, CopySource=source, StorageClass="STANDARD")
    tierfold("compact", tier, *ALWAYS, "--json").ends(0, "compacted")


def test_classes_cost_no_request(uploads: Path, proxy: Proxy) -> None:
    seen = []
    for classes in ({}, dict.fromkeys(SUFFIXES, "STANDARD_IA")):
        tier = uploaded(uploads, classes, moto())
        proxy.requests.clear()
        ran("plan", tier, *ALWAYS, *NOW_TOO, "--json")
        ran("compact", tier, *ALWAYS, *NOW_TOO, "--engine", "local", "--json")
        seen.append(sorted(request.kind for request in proxy.requests))
    assert seen[0] == seen[1]


def test_versitygw_answers_the_usual_class_and_nothing_differs(
    uploads: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_environment(versitygw()).items():
        monkeypatch.setenv(name, value)
    tier = uploaded(uploads, dict.fromkeys(SUFFIXES, "STANDARD_IA"), versitygw())
    text = RSM.format(bucket=tier.removeprefix("s3://"))
    (config := tmp_path / "rsm").write_text(f"{text}storage.s3.storage.class=STANDARD_IA\n")
    plan = ran("plan", tier, *ALWAYS, "--rsm-config", str(config), "--json").entry
    assert plan["outcome"] == "planned"
    assert "early_deletion_usd" not in plan
    done = tierfold("compact", tier, *ALWAYS, "--rsm-config", str(config), "--json")
    done.ends(0, "compacted")


@pytest.mark.usefixtures("proxy")
def test_the_class_of_the_settings_goes_before_all(uploads: Path, tmp_path: Path) -> None:
    tier = uploaded(uploads, dict.fromkeys(SUFFIXES, "STANDARD_IA"), moto())
    text = RSM.format(bucket=tier.removeprefix("s3://"))
    (rsm := tmp_path / "rsm").write_text(f"{text}storage.s3.storage.class=ONEZONE_IA\n")
    (config := tmp_path / "t.toml").write_text('[store]\n"storage.class" = "GLACIER_IR"\n')
    found = new_classes(tier, *NOW_TOO, "--rsm-config", str(rsm), "--config", str(config))
    assert found == dict.fromkeys(SUFFIXES, "GLACIER_IR")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("GLACIER", "Give a class that is read at once, as brokers need it, too: one of STANDARD,"),
        ("Cool", "Give one of STANDARD, STANDARD_IA,"),
    ],
)
@pytest.mark.usefixtures("proxy")
def test_a_class_that_the_store_cannot_write_is_one_sentence(
    uploads: Path, tmp_path: Path, name: str, remedy: str
) -> None:
    tier = uploaded(uploads, {}, moto())
    (config := tmp_path / "t.toml").write_text(f'[store]\n"storage.class" = "{name}"\n')
    refused = tierfold("plan", tier, *ALWAYS, "--config", str(config))
    assert refused.code == 2
    assert f"storage.class cannot be '{name}' there" in refused.stderr
    assert remedy in refused.stderr
    config.write_text('[store]\n"storage.class" = "STANDARD_IA"\n')
    assert ran("plan", tier, *ALWAYS, "--config", str(config), "--json").entry["outcome"]
