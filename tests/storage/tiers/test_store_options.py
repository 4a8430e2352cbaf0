"""Options and credentials of a store: where they come from, and that no secret shows."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.storage.emulators import IDENTITY, moto, new_bucket, new_name
from tests.storage.s3_proxy import proxied
from tierfold.compaction.model.errors import BadSettings, TierfoldError, UnreadableObject
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.locations import delta_options, location_of, open_store, s3a_options
from tierfold.storage.tiers.store_options import StoreOptions

SECRET = IDENTITY["AWS_SECRET_ACCESS_KEY"]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither this machine's credentials nor its metadata service."""
    for name in IDENTITY:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.parametrize(
    ("scheme", "environment", "expected"),
    [
        ("s3", {}, StoreOptions()),
        (
            "s3",
            {"AWS_ENDPOINT_URL": "https://a", "AWS_DEFAULT_REGION": "eu-west-1"},
            StoreOptions(endpoint="https://a", region="eu-west-1"),
        ),
        (
            "s3",
            {
                "AWS_ENDPOINT_URL": "https://a",
                "AWS_ENDPOINT_URL_S3": "https://b",
                "AWS_REGION": "eu-west-2",
                "AWS_DEFAULT_REGION": "eu-west-1",
                "AWS_CA_BUNDLE": "/ca.pem",
                "AWS_REQUEST_PAYER": "requester",
                "AWS_SSE_KMS_KEY_ID": "key",
                "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
            },
            StoreOptions(
                endpoint="https://b",
                region="eu-west-2",
                ca_file="/ca.pem",
                requester_pays=True,
                kms_key_id="key",
                path_style=False,
            ),
        ),
        (
            "az",
            {
                "AZURE_STORAGE_ACCOUNT_NAME": "account",
                "AZURE_STORAGE_ENDPOINT": "http://a/b",
                "AWS_REGION": "x",
            },
            StoreOptions(account="account", endpoint="http://a/b"),
        ),
        ("gs", {"GOOGLE_BASE_URL": "http://a"}, StoreOptions(endpoint="http://a")),
    ],
)
def test_missing_options_come_from_the_environment(
    scheme: str, environment: dict[str, str], expected: StoreOptions
) -> None:
    assert StoreOptions().completed(scheme, environment) == expected
    given = StoreOptions(endpoint="https://given", path_style=True, requester_pays=False)
    completed = given.completed(scheme, environment)
    assert completed.endpoint == "https://given"
    assert (completed.path_style, completed.requester_pays) == (True, False)


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        ("host:9000", "the endpoint is not a URL"),
        ("ftp://host", "the endpoint is not a URL"),
        ("https://", "the endpoint is not a URL"),
        ("https://host:99999999", "the endpoint is not a URL"),
        (f"https://AKIA:{SECRET}@host", "a user, a query or a fragment"),
        (f"https://host?sig={SECRET}", "a user, a query or a fragment"),
    ],
)
def test_a_wrong_endpoint_is_refused_without_its_secret(endpoint: str, message: str) -> None:
    for made in (
        lambda: StoreOptions(endpoint=endpoint),
        lambda: StoreOptions().completed("s3", {"AWS_ENDPOINT_URL": endpoint}),
    ):
        with pytest.raises(BadSettings, match=message) as caught:
            made()
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("name", "value"), [("part_bytes", 1), ("timeout_ms", 0), ("retries", -1)])
def test_a_number_that_is_too_small_is_refused(name: str, value: int) -> None:
    with pytest.raises(BadSettings, match=f"store.{name}: it is {value}, and must be at least"):
        StoreOptions(**{name: value})


def test_a_word_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(BadSettings, match="AWS_REQUEST_PAYER: it is neither true nor false"):
        StoreOptions().completed("s3", {"AWS_REQUEST_PAYER": "perhaps"})


def test_no_credentials_are_reported() -> None:
    store = BucketStore("s3", new_name(), "", StoreOptions(endpoint=moto()))
    for use in (lambda: store.read("x"), lambda: store.create("x", b""), lambda: store.list("")):
        with pytest.raises(UnreadableObject, match=r"there are no credentials\. Set them in the"):
            use()


def test_a_profile_that_is_missing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "elsewhere")
    with pytest.raises(BadSettings, match="AWS_PROFILE: there is no such profile"):
        BucketStore("s3", new_name(), "", StoreOptions(endpoint=moto())).read("x")


def test_a_file_of_certificates_that_is_missing_is_reported(identity: None) -> None:
    options = StoreOptions(endpoint=moto(), ca_file="/no/such.pem")
    with pytest.raises(TierfoldError, match=r"/no/such\.pem: cannot read the file of trusted"):
        BucketStore("s3", new_name(), "", options).read("x")


def test_azure_needs_an_account() -> None:
    with pytest.raises(BadSettings, match="Set AZURE_STORAGE_ACCOUNT_NAME"):
        BucketStore("az", "container", "", StoreOptions()).read("x")


def test_a_profile_names_credentials_region_and_endpoint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bucket = new_bucket(moto())
    (tmp_path / "config").write_text(
        f"[profile work]\nregion = us-east-1\nendpoint_url = {moto()}\n"
        f"aws_access_key_id = AKIAPROFILE\naws_secret_access_key = {SECRET}\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "work")
    store = BucketStore("s3", bucket, "", StoreOptions())
    store.create("x", b"data")
    assert store.read("x").tobytes() == b"data"


def test_every_request_carries_the_payer_and_new_objects_the_key(identity: None) -> None:
    with proxied(moto()) as (proxy, endpoint):
        options = StoreOptions(
            endpoint=endpoint, requester_pays=True, kms_key_id="a-key", part_bytes=5 << 20
        )
        store = BucketStore("s3", new_bucket(moto()), "p", options)
        store.create("small", b"x")
        store.create("large", bytes(6 << 20))
        store.read("small")
        list(store.list(""))
        list(store.unfinished(""))
        store.stored_checksum("large")
        store.delete("small")
        headers = [
            (request, {name.lower(): value for name, value in request.headers.items()})
            for request in proxy.requests
        ]
    assert {request.kind for request, _ in headers} > {"puts", "begins", "parts", "gets", "heads"}
    assert all(found.get("x-amz-request-payer") == "requester" for _, found in headers)
    for request, found in headers:
        if request.kind in {"puts", "begins"}:
            assert found["x-amz-server-side-encryption"] == "aws:kms"
            assert found["x-amz-server-side-encryption-aws-kms-key-id"] == "a-key"


def test_no_secret_shows(identity: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-planted-token")
    store = BucketStore("s3", new_bucket(moto()), "", StoreOptions(endpoint=moto(), retries=0))
    store.create("x", b"data")
    with pytest.raises(UnreadableObject) as caught:
        store.read("y")
    texts = (repr(store), str(store), str(caught.value), str(pickle.dumps(store)))
    for secret in (SECRET, "a-planted-token", IDENTITY["AWS_ACCESS_KEY_ID"]):
        assert not any(secret in text for text in texts)
        assert secret.encode() not in pickle.dumps(store)


def test_delta_rs_takes_the_options(identity: None) -> None:
    location = location_of(f"s3://{new_bucket(moto())}/catalog", of="catalog")
    options = StoreOptions(endpoint=moto())
    given = delta_options(location, options)
    assert given["aws_conditional_put"] == "etag"
    for _ in range(2):
        write_deltalake(str(location), pa.table({"a": [1]}), mode="append", storage_options=given)
    assert DeltaTable(str(location), storage_options=given).version() == 1
    names = [entry.key for entry in open_store(location, options).list("_delta_log")]
    assert names == [f"_delta_log/{number:020d}.json" for number in range(2)]


def test_delta_rs_takes_credentials_that_were_replaced(
    identity: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = location_of("s3://bucket/catalog", of="catalog")
    for key in ("AKIAFIRST", "AKIASECOND"):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
        given = delta_options(location, StoreOptions(endpoint="http://127.0.0.1:1"))
        assert given["aws_access_key_id"] == key


def test_spark_takes_the_options_without_credentials(identity: None) -> None:
    location = location_of("s3://bucket/catalog", of="catalog")
    found = s3a_options(location, StoreOptions(endpoint="http://host:1", requester_pays=True))
    prefix = "spark.hadoop.fs.s3a.bucket.bucket"
    assert found[f"{prefix}.endpoint"] == "http://host:1"
    assert found[f"{prefix}.path.style.access"] == "true"
    assert found[f"{prefix}.connection.ssl.enabled"] == "false"
    assert found[f"{prefix}.requester.pays.enabled"] == "true"
    assert SECRET not in str(found)
    amazon = s3a_options(location, StoreOptions(region="eu-west-1"))
    assert amazon[f"{prefix}.endpoint.region"] == "eu-west-1"
    assert f"{prefix}.endpoint" not in amazon
    assert amazon[f"{prefix}.path.style.access"] == "false"
