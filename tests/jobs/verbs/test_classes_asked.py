"""A rewrite on Azure or Google keeps storage classes, which no listing shows there."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.jobs.commands import ALWAYS, CLOCK, Ran, tierfold
from tests.jobs.tiers import key_of, updated_tier
from tests.storage.emulators import (
    AZURE_ACCOUNT,
    AZURE_KEY,
    azurite,
    moto,
    new_bucket,
    new_container,
    s3_client,
)
from tests.storage.gcs_proxy import google, signing_account
from tests.storage.tiers.aiven_objects import Variant
from tests.storage.tiers.aiven_tiers import aiven_tier
from tests.storage.tiers.azure_tiers import azure_tiers, set_tier, token_for
from tierfold.compaction.model.rules import DAY_MS
from tierfold.storage.clock import now_ms
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER
from tierfold.storage.tiers.store_options import StoreOptions

ORDERS: Final = key_of("orders", 0)
NOW_TOO: Final = ("--set", "rewrite.young.objects=true")
LOG, INDEXES, MANIFEST = SUFFIXES = ("log", "indexes", "rsm-manifest")
UNKNOWN: Final = "The storage class of what a rewrite replaces is unknown"


@pytest.fixture(scope="module")
def uploads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tier of Aiven's plugin: one partition with three segments."""
    folder = tmp_path_factory.mktemp("local")
    local = updated_tier(folder / "tier", (ORDERS,), segments=3)
    return aiven_tier(local, folder / "aiven", Variant())


class Azure(NamedTuple):
    """A tier on Azurite, and the settings by which tierfold finds it."""

    store: BucketStore
    config: Path

    def name(self, storage_class: str) -> None:
        """Name a class in the settings."""
        text = self.config.read_text()
        self.config.write_text(f'{text}"storage.class" = "{storage_class}"\n')

    def ran(self, verb: str, *options: str, days: int = 0) -> Ran:
        at = (CLOCK, str(now_ms() + days * DAY_MS))
        place = (self.store.uri(""), "--config", self.config)
        return tierfold(verb, *place, *ALWAYS, *at, *options, "--json")

    def tiers(self) -> dict[str, str]:
        """By name, the access tier of each object of a segment."""
        found = azure_tiers(self.store)
        return {name: tier for name, tier in found.items() if name.endswith(SUFFIXES)}


@pytest.fixture
def azure(uploads: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Azure:
    """A tier on Azurite whose objects have the account's default tier, Hot."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY)
    options = StoreOptions(endpoint=azurite(), account=AZURE_ACCOUNT)
    store = BucketStore("az", new_container(azurite()), "", options)
    for path in sorted(path for path in uploads.rglob("*") if path.is_file()):
        store.create(str(path.relative_to(uploads)), path.read_bytes())
    (config := tmp_path / "t.toml").write_text(
        f'[store]\nendpoint = "{azurite()}"\naccount = "{AZURE_ACCOUNT}"\n'
    )
    return Azure(store, config)


def unknown(done: Ran) -> list[str]:
    """What the result says of classes that the store would not name."""
    return [warning for warning in done.document["warnings"] if UNKNOWN in warning]


def moved(azure: Azure, suffixes: tuple[str, ...], tier: str) -> None:
    """Move all objects of these kinds to an access tier, as a lifecycle rule does."""
    (folder,) = (one for one in azure.store.list_folders("") if one != CATALOG_FOLDER)
    for entry in azure.store.list(f"{folder}/0"):
        if entry.key.endswith(suffixes):
            set_tier(azure.store, entry.key, tier)


@pytest.mark.parametrize("suffixes", [(), SUFFIXES, (LOG,)])
def test_new_blobs_have_the_access_tiers_of_the_sources(
    azure: Azure, suffixes: tuple[str, ...]
) -> None:
    moved(azure, suffixes, "Cool")
    before = azure.tiers()
    done = azure.ran("compact", *NOW_TOO)
    assert done.entry["outcome"] == "compacted"
    assert unknown(done) == []
    new = {name: tier for name, tier in azure.tiers().items() if name not in before}
    expected = dict.fromkeys(SUFFIXES, "Hot") | dict.fromkeys(suffixes, "Cool")
    assert {name.rpartition(".")[2]: tier for name, tier in new.items()} == expected


def test_a_round_waits_for_the_minimum_duration_of_azure(azure: Azure) -> None:
    moved(azure, SUFFIXES, "Cool")
    for verb in ("plan", "compact"):
        young = azure.ran(verb).entry
        assert young["outcome"] == "nothing_to_do"
        assert "Cool 30 d" in young["reason"]
    young, old = azure.ran("plan", *NOW_TOO).entry, azure.ran("plan", days=31).entry
    assert young["outcome"] == old["outcome"] == "planned"
    assert young["early_deletion_usd"] > 0
    assert "early_deletion_usd" not in old
    assert young["retrieval_usd"] == pytest.approx(old["retrieval_usd"])


def test_a_partition_costs_a_request_for_each_log_and_two_for_the_others(azure: Azure) -> None:
    def heads(*options: str) -> int:
        return int(azure.ran("plan", *options).document["requests"]["heads"])

    assert heads() - heads("--set", "min.cleanable.dirty.ratio=1") == 5


def test_the_class_of_the_settings_goes_first_and_sources_have_their_own_fees(
    azure: Azure,
) -> None:
    azure.name("Cool")
    before = azure.tiers()
    assert set(before.values()) == {"Hot"}
    assert azure.ran("compact").entry["outcome"] == "compacted"  # Hot has no minimum duration.
    new = {name: tier for name, tier in azure.tiers().items() if name not in before}
    assert sorted(new.values()) == ["Cool"] * 3
    assert set(azure_tiers(azure.store).values()) == {"Hot", "Cool"}  # The catalog is not moved.


def test_live_blobs_in_an_archive_are_refused_before_they_are_read(azure: Azure) -> None:
    assert azure.ran("compact").entry["outcome"] == "compacted"
    moved(azure, (LOG,), "Archive")
    refused = azure.ran("plan", "--first-dirty", "0")
    assert refused.entry["outcome"] == "refused"
    assert [one["code"] for one in refused.entry["refusals"]] == ["archived"]
    assert "its storage class is Archive" in refused.entry["reason"]


def test_who_cannot_sign_reads_once_what_happens(
    azure: Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved(azure, SUFFIXES, "Cool")
    before = azure.tiers()
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_KEY", token_for(azure.store.bucket))
    (warning,) = unknown(azure.ran("plan"))
    assert warning.startswith(f"{UNKNOWN}: the credentials cannot sign a request")
    done = azure.ran("compact", *NOW_TOO)
    assert done.entry["outcome"] == "compacted"
    assert len(unknown(done)) == 1
    new = {name: tier for name, tier in azure.tiers().items() if name not in before}
    assert set(new.values()) == {"Hot"}
    azure.name("Cool")
    assert unknown(azure.ran("plan", "--first-dirty", "0")) == []


def test_new_objects_on_google_have_the_class_of_the_sources(
    uploads: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", signing_account())
    bucket = new_bucket(moto())
    for path in sorted(path for path in uploads.rglob("*") if path.is_file()):
        s3_client(moto()).put_object(
            Bucket=bucket,
            Key=str(path.relative_to(uploads)),
            Body=path.read_bytes(),
            StorageClass="STANDARD_IA",  # moto knows only the classes of S3.
        )

    def classes() -> dict[str, Any]:
        found = s3_client(moto()).list_objects_v2(Bucket=bucket)["Contents"]
        return {one["Key"]: one["StorageClass"] for one in found if one["Key"].endswith(SUFFIXES)}

    before = classes()
    with google(moto()) as endpoint:
        monkeypatch.setenv("GOOGLE_BASE_URL", endpoint)
        say = functools.partial(tierfold, "compact", f"gs://{bucket}", *ALWAYS, "--json")
        done = say("--catalog", tmp_path / "catalog")
    assert done.entry["outcome"] == "compacted"
    assert unknown(done) == []
    new = {key: name for key, name in classes().items() if key not in before}
    assert list(new.values()) == ["STANDARD_IA"] * 3
