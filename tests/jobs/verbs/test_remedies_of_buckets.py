"""Remedies of a bucket's errors: once the cause is gone, the same command succeeds.

An emulator and a proxy stand for the store; what a person changes there is that the proxy answers
no more with that error.
"""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.commands import ALWAYS, Ran, tierfold, told
from tests.jobs.tiers import files_below, key_of, updated_tier
from tests.storage.emulators import (
    IDENTITY,
    free_port,
    moto,
    s3,
    s3_client,
    s3_environment,
    uploaded,
)
from tests.storage.s3_proxy import RESET, Answer, Proxy, error, proxied
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER

ORDERS: Final = key_of("orders")
FOR_EVER: Final = 10**6
FEW_RETRIES: Final = '[store]\nretries = 1\n"timeout.ms" = 900\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A tier in a bucket, and what lies between."""

    tier: str
    proxy: Proxy
    options: tuple[str, ...]
    server: str

    def compacted(self, *options: str) -> Ran:
        return tierfold("compact", self.tier, *ALWAYS, *self.options, "--json", *options)

    def is_compacted(self, *options: str) -> None:
        """Assert that the command succeeds now, and `verify` finds nothing wrong."""
        self.compacted(*options).ends(0, "compacted")
        assert tierfold("verify", self.tier, *self.options, *options, "--json").code == 0

    def segments(self) -> list[str]:
        """The names of the segments' objects."""
        bucket = self.tier.removeprefix("s3://").partition("/")[0]
        found = s3_client(self.server).list_objects_v2(Bucket=bucket).get("Contents", [])
        return [one["Key"] for one in found if CATALOG_FOLDER not in one["Key"]]


@pytest.fixture
def server() -> Callable[[], str]:
    """Starts the emulator."""
    return s3


@pytest.fixture
def bucket(
    server: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bucket]:
    (config := tmp_path / "few_retries.toml").write_text(FEW_RETRIES)
    with proxied(server()) as (proxy, endpoint):
        for name, value in s3_environment(endpoint).items():
            monkeypatch.setenv(name, value)
        tier = uploaded(updated_tier(tmp_path / "tier", (ORDERS,), segments=2), server())
        yield Bucket(tier=tier, proxy=proxy, options=("--config", str(config)), server=server())


# 1. What the store answers.

ANSWERS: Final[dict[str, tuple[Answer, str]]] = {
    "forbidden": (error(403, "AccessDenied"), "Allow this identity to"),
    "an expired token": (error(400, "ExpiredToken"), "Renew them"),
    "an unknown key": (error(403, "InvalidAccessKeyId"), "Check which ones this process uses"),
    "a wrong clock": (error(403, "RequestTimeTooSkewed"), "Set the clock, for example with NTP"),
    "another region": (
        error(400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>"),
        "Name its region in AWS_REGION or in the settings.",
    ),
    "overload": (error(503, "SlowDown"), "Run again later, or with fewer tasks in parallel."),
    "an internal error": (error(500, "InternalError"), "Run again; if it persists, ask"),
    "an archived object": (error(403, "InvalidObjectState"), "Restore it from the archive class"),
    "a KMS key": (error(400, "KMS.DisabledException"), "Check the key, and allow this identity"),
    "an unknown error": (error(418, "Teapot"), "Check the endpoint, the region and the"),
    "no answer": (RESET, "Check the network"),
    "changed on the way": (error(400, "BadDigest"), "Run again; if it persists, check the network"),
    "a conflict": (error(409, "OperationAborted"), "Run again: every attempt takes new names."),
    "a name that is taken": (error(412, "PreconditionFailed"), "Run again: every attempt takes"),
}


def answered_requests() -> Iterator[Any]:
    """Each answer to each kind of request; in CI each answer to one kind, the kinds in turn."""
    kinds = ("puts", "gets", "lists")
    for number, name in enumerate(ANSWERS):
        for kind in kinds:
            in_ci = kind == kinds[number % len(kinds)]
            yield pytest.param(name, kind, marks=() if in_ci else pytest.mark.soak)


@pytest.mark.parametrize(("name", "kind"), [*answered_requests()])
def test_once_the_store_answers_otherwise_the_command_succeeds(
    name: str, kind: str, bucket: Bucket
) -> None:
    answer, remedy = ANSWERS[name]
    before = bucket.segments()
    bucket.proxy.add(kind, times=FOR_EVER, answer=answer)
    failed = bucket.compacted()
    assert failed.code == 3, failed
    said = failed.entry["reason"] if failed.entries else failed.stderr
    assert remedy in said, said
    assert bucket.segments() == before
    bucket.proxy.faults.clear()
    bucket.is_compacted()


@pytest.mark.parametrize("how", [{"cut_after_bytes": 3}, {"silent_s": 2.0}])
def test_after_an_answer_that_ended_early_or_came_late(
    how: dict[str, Any], bucket: Bucket
) -> None:
    bucket.proxy.add("gets", times=FOR_EVER, text=".log", **how)
    reason = bucket.compacted().ends(3, "refused")["reason"]
    assert "Check the network and the store, then run again." in reason
    bucket.proxy.faults.clear()
    bucket.is_compacted()


# 2. What the environment says.


def test_without_credentials_they_are_set_in_the_environment(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    refused = bucket.compacted()
    assert not told(refused.stderr, "there are no credentials", "Set them in the environment")
    assert refused.code == 3
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, IDENTITY[name])
    bucket.is_compacted()


def test_credentials_that_are_not_accepted_are_replaced(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-another-store")
    refused = bucket.compacted()
    said = "Check which ones this process uses (environment, profile, role), and that they belong"
    assert not told(refused.stderr, "the credentials are not accepted", said), refused
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", IDENTITY["AWS_SECRET_ACCESS_KEY"])
    bucket.is_compacted()


def test_a_profile_that_is_missing_is_put_into_the_file_that_is_named(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "of-the-tier")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    bucket.compacted().refuses("no such profile", "and AWS_CONFIG_FILE if the file is not")
    config = tmp_path / "aws"
    config.write_text(
        "[profile of-the-tier]\n"
        f"aws_access_key_id = {IDENTITY['AWS_ACCESS_KEY_ID']}\n"
        f"aws_secret_access_key = {IDENTITY['AWS_SECRET_ACCESS_KEY']}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    bucket.is_compacted()


def test_a_bucket_that_does_not_exist_has_another_name(bucket: Bucket) -> None:
    refused = tierfold("compact", "s3://no-such-bucket/tier", *ALWAYS, *bucket.options)
    assert refused.code == 3
    assert "Check its name, and the endpoint or storage account." in refused.stderr, refused
    bucket.is_compacted()


def test_an_endpoint_that_cannot_be_reached_is_mended(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
        refused = bucket.compacted()
    assert refused.code == 3
    assert "Check the endpoint, the network and the proxy, then run again." in refused.stderr
    bucket.is_compacted()


def test_an_endpoint_whose_certificate_is_not_trusted_needs_the_file_of_its_ca(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "ca.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    made += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    made += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(
        [*made, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with proxied(s3(), tls) as (_, endpoint):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        refused = bucket.compacted()
        assert refused.code == 3
        said = "Name the file of its CA in SSL_CERT_FILE, and for S3 in AWS_CA_BUNDLE, too."
        assert said in refused.stderr, refused.stderr
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "ca.pen"))
        refused = bucket.compacted()
        assert not told(refused.stderr, "ca.pen", "Check the path in AWS_CA_BUNDLE"), refused
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
        bucket.is_compacted()


# 3. What lies in the bucket.


@pytest.mark.parametrize("server", [moto])  # It checks no signature, which covers the condition.
def test_a_store_that_ignores_conditions_needs_a_catalog_elsewhere(
    bucket: Bucket, tmp_path: Path
) -> None:
    bucket.proxy.dropped.add("if-none-match")
    said = "Put the catalog on a store that keeps it, or in a folder (--catalog)."
    refused = bucket.compacted()
    assert refused.code == 2, refused
    assert said in refused.stderr
    bucket.is_compacted("--catalog", str(tmp_path / "catalog"))
    assert files_below(tmp_path / "catalog")


@pytest.mark.parametrize("server", [moto])  # Versitygw keeps objects as files, so without `..`.
def test_an_object_with_a_name_that_no_broker_writes_is_deleted(bucket: Bucket) -> None:
    name, _, prefix = bucket.tier.removeprefix("s3://").partition("/")
    folder = bucket.segments()[0].rpartition("/")[0]
    assert folder.startswith(prefix)
    client = s3_client(moto())
    client.put_object(Bucket=name, Key=f"{folder}/../x", Body=b"x")
    refused = bucket.compacted()
    said = "Rename or delete that object; neither Kafka nor tierfold writes such names."
    assert refused.code == 3, refused
    assert said in refused.stdout, refused
    client.delete_object(Bucket=name, Key=f"{folder}/../x")
    bucket.is_compacted()


def test_a_file_of_the_catalog_that_is_gone_is_restored_from_a_backup(bucket: Bucket) -> None:
    bucket.is_compacted()
    name, _, _ = bucket.tier.removeprefix("s3://").partition("/")
    client = s3_client(bucket.server)
    keys = [one["Key"] for one in client.list_objects_v2(Bucket=name)["Contents"]]
    backup = {
        key: client.get_object(Bucket=name, Key=key)["Body"].read()
        for key in keys
        if CATALOG_FOLDER in key and key.endswith(".parquet")
    }
    for key in backup:
        client.delete_object(Bucket=name, Key=key)
    for _ in range(2):  # To run again does not help.
        failed = bucket.compacted()
        said = "Run again. If that does not help, restore the catalog from a backup."
        assert (failed.code, said in failed.stderr) == (3, True), failed
    for key, content in backup.items():
        client.put_object(Bucket=name, Key=key, Body=content)
    bucket.compacted().ends(0, "nothing_to_do")
