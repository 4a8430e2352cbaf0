"""Every verb works on a bucket; requests are counted, few, and priced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.claims import own_id_of
from tests.jobs.commands import ALWAYS, CLOCK, COMPACT, Ran, tierfold
from tests.jobs.tiers import NOW_MS, key_of, latest_updates, records_in, updated_tier
from tests.storage.emulators import s3, s3_client, s3_environment, uploaded
from tests.storage.s3_proxy import Proxy, proxied
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.tiers.local_tiered_storage import part_key
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER, Part, SegmentAddress

ORDERS: Final = key_of("orders", 0)
NOW: Final = (CLOCK, str(NOW_MS))
SOON: Final = (CLOCK, str(NOW_MS + 60_000))
DETACHED: Final = ("--set", "tier.binding=detached")
CATALOG_PREFIX: Final = "tier/_tierfold/"


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy in front of a server, which counts what the store and the catalog ask for."""
    with proxied(s3()) as (running, endpoint):
        for name, value in s3_environment(endpoint).items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def tier(tmp_path: Path, proxy: Proxy) -> str:
    """A tier of one partition with three segments, in a bucket."""
    assert not proxy.requests
    return uploaded(updated_tier(tmp_path / "tier", (ORDERS,), segments=3), s3())


def of_tier(proxy: Proxy) -> list[str]:
    """The kinds of the requests for the tier's own objects, and forget all."""
    kinds = [
        request.kind
        for request in proxy.requests
        if CATALOG_PREFIX not in f"{request.path}{request.query.get('prefix', '')}"
    ]
    proxy.requests.clear()
    return kinds


def objects(tier: str) -> set[str]:
    """The keys of a tier's segments."""
    bucket, _, prefix = tier.removeprefix("s3://").partition("/")
    found = s3_client(s3()).list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/kafka-")
    return {entry["Key"] for entry in found.get("Contents", ())}


def read_live(tier: str, folder: Path) -> dict[bytes | None, bytes | None]:
    """Key → value of the live segments."""
    entry = ran("status", tier, "--json", "--segments").entry
    bucket = tier.removeprefix("s3://").partition("/")[0]
    logs = []
    for segment in entry["segments"]:
        key = segment["log"].removeprefix(f"s3://{bucket}/")
        logs.append(folder / Path(key).name)
        s3_client(s3()).download_file(bucket, key, str(logs[-1]))
    return {key: value for _, key, value in records_in(logs)}


def ran(*arguments: str) -> Ran:
    found = tierfold(*arguments)
    assert found.code == 0, found
    return found


def test_a_tour_of_every_verb(tier: str, tmp_path: Path) -> None:
    uploads = objects(tier)
    assert ran("plan", tier, *ALWAYS, *NOW, "--json").entry["outcome"] == "planned"
    compacted = ran("compact", tier, *ALWAYS, *NOW, *DETACHED, "--json")
    assert compacted.entry["outcome"] == "compacted"
    verified = {"by_checksum": 0, "by_reading_back": 5}  # Only Amazon's own endpoint is trusted.
    assert compacted.entry["parts_verified"] == verified
    assert read_live(tier, tmp_path) == latest_updates(3)
    assert uploads < objects(tier)
    assert "agree with the originals" in ran("verify", tier).stdout
    states = ran("history", tier, "orders-0", "--json").entry["history"]
    back = str(states[-1]["committed_at_ms"])
    assert ran("restore", tier, "orders-0", "--to", back, *SOON, "--json").entry["outcome"]
    later = (CLOCK, str(NOW_MS + 2 * 86_400_000))
    assert ran("vacuum", tier, *DETACHED, *later, "--json").entry["outcome"] == "vacuumed"
    assert objects(tier) == uploads
    rows = RunsTable(f"{tier}/_tierfold").read()
    assert [row.command for row in rows] == ["compact", "restore", "vacuum"]
    assert rows[0].verified == verified
    assert rows[0].requests["puts"] >= 5
    assert rows[-1].requests["deletes"] >= 5
    assert all(row.cost_usd is not None and row.cost_usd > 0 for row in rows)


def test_requests_are_counted_as_the_server_sees_them(tier: str, proxy: Proxy) -> None:
    for arguments in (("plan", *ALWAYS), ("compact", *ALWAYS), ("status",), ("verify",)):
        verb, *options = arguments
        document = ran(verb, tier, *options, *(NOW if verb != "status" else ()), "--json").document
        seen = of_tier(proxy)
        counted = document["requests"]
        for kind in ("lists", "heads", "gets", "puts", "deletes"):
            assert counted[kind] == seen.count(kind), (verb, kind, counted, seen)
        assert counted["cost_usd"] > 0
    assert counted["cost_usd_per_tb_compacted"] is None


def test_the_tables_end_with_the_requests_and_their_price(tier: str) -> None:
    line = ran("compact", tier, *ALWAYS, *NOW, *DETACHED).stdout.replace("\n", " ")
    assert "requests (" in line
    assert "at list prices of" in line
    assert "per TB compacted" in line


@pytest.mark.soak
def test_the_plan_of_an_unchanged_tier_reads_no_object(tmp_path: Path, proxy: Proxy) -> None:
    keys = [key_of("many", number) for number in range(30)]
    folder = updated_tier(tmp_path / "tier", keys, segments=6)
    tier = uploaded(folder, s3())
    ran("compact", tier, *ALWAYS, *NOW)
    of_tier(proxy)
    document = ran("plan", tier, *COMPACT, *NOW, "--json").document
    count = len(objects_below(tier))
    assert count > 1000
    assert {entry["outcome"] for entry in document["partitions"]} == {"nothing_to_do"}
    kinds = of_tier(proxy)
    assert set(kinds) == {"lists"}
    assert len(kinds) <= 10 + count // 1000


def objects_below(tier: str) -> list[str]:
    """The keys of a tier's segments, however many."""
    bucket, _, prefix = tier.removeprefix("s3://").partition("/")
    pages = s3_client(s3()).get_paginator("list_objects_v2")
    return [
        entry["Key"]
        for page in pages.paginate(Bucket=bucket, Prefix=f"{prefix}/kafka-")
        for entry in page.get("Contents", ())
    ]


@pytest.mark.parametrize("is_detached", [False, True])
def test_vacuum_ends_uploads_of_ours_but_no_brokers(tier: str, is_detached: bool) -> None:
    bucket = tier.removeprefix("s3://").partition("/")[0]
    ran("compact", tier, *ALWAYS)
    brokers = "B" * 21 + "A"
    for segment_id in (own_id_of(Catalog(f"{tier}/{CATALOG_FOLDER}")), brokers):
        key = part_key(SegmentAddress(ORDERS, segment_id, 99), Part.LOG)
        s3_client(s3()).create_multipart_upload(Bucket=bucket, Key=f"tier/{key}")
    options = DETACHED if is_detached else ()
    ran("vacuum", tier, *options, "--orphan-age", "0s", "--json")
    left = s3_client(s3()).list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    assert [brokers in upload["Key"] for upload in left] == ([] if is_detached else [True])


def test_vacuum_lists_the_unfinished_uploads_of_all_partitions_at_once(
    tmp_path: Path, proxy: Proxy
) -> None:
    keys = [key_of("many", number) for number in range(3)]
    tier = uploaded(updated_tier(tmp_path / "tier", keys, segments=2), s3())
    bucket = tier.removeprefix("s3://").partition("/")[0]
    ran("compact", tier, *ALWAYS)
    catalog = Catalog(f"{tier}/{CATALOG_FOLDER}")
    for expected in (1, 3):  # Again before one is ended, and at the end.
        proxy.requests.clear()
        ran("vacuum", tier, "--orphan-age", "0s", "--json")
        asked = [request for request in proxy.requests if request.kind == "lists"]
        assert sum("uploads" in request.query for request in asked) == expected
        assert s3_client(s3()).list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
        for key in keys[:2]:
            log = part_key(SegmentAddress(key, own_id_of(catalog), 99), Part.LOG)
            s3_client(s3()).create_multipart_upload(Bucket=bucket, Key=f"tier/{log}")


def test_vacuum_keeps_an_upload_that_went_on_after_it_was_listed(tier: str, proxy: Proxy) -> None:
    ran("compact", tier, *ALWAYS)
    client, bucket = s3_client(s3()), tier.removeprefix("s3://").partition("/")[0]
    ours = own_id_of(Catalog(f"{tier}/{CATALOG_FOLDER}"))
    names = [part_key(SegmentAddress(ORDERS, ours, at), Part.LOG) for at in (97, 98)]
    uploads = [{"Bucket": bucket, "Key": f"tier/{name}"} for name in names]
    ids = [client.create_multipart_upload(**upload)["UploadId"] for upload in uploads]
    looks: list[int] = []

    def goes_on() -> None:
        looks.append(1)
        if len(looks) == 2 * len(uploads):  # Just before its parts are listed a second time.
            client.upload_part(**uploads[1], UploadId=ids[1], PartNumber=1, Body=b"a part")

    proxy.add("lists", times=10**6, text="uploadId", before=goes_on)
    ran("vacuum", tier, *DETACHED, "--orphan-age", "0s", "--json")
    left = client.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [upload["Key"] for upload in left] == [uploads[1]["Key"]]


@pytest.mark.parametrize(
    ("uri", "code", "words"),
    [
        ("s3://no-such-bucket-here/tier", 3, ("the bucket does not exist", "Check its name")),
        ("s3://{bucket}/elsewhere", 2, ("there is no folder kafka-tiered-storage",)),
        ("s3://key:secret@{bucket}/tier", 2, ("credentials come from the environment",)),
        ("s3a://{bucket}/tier", 2, ("Write s3://bucket/prefix",)),
    ],
)
def test_a_wrong_place_is_one_sentence(
    tier: str, uri: str, code: int, words: tuple[str, ...]
) -> None:
    found = tierfold("status", uri.format(bucket=tier.removeprefix("s3://").partition("/")[0]))
    assert (found.code, found.stdout) == (code, "")
    assert len(found.stderr.strip().splitlines()) == 1
    assert all(word in found.stderr for word in words)
    assert "secret" not in found.stderr.replace("credentials", "")


def test_a_forbidden_bucket_is_not_an_empty_one(tier: str, proxy: Proxy) -> None:
    proxy.add("lists", times=10**6, answer=(403, FORBIDDEN))
    found = tierfold("compact", tier, *ALWAYS, *NOW)
    assert found.code == 3
    assert "access is denied" in found.stderr
    proxy.faults.clear()
    assert ran("status", tier, "--json").entry["epoch"] == 0


FORBIDDEN: Final[Any] = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
