"""What an exception of a client becomes; `test_bucket_faults` has a store that fails."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from tests.storage.emulators import new_name
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.storage.tiers.bucket_store import BucketStore
from tierfold.storage.tiers.store_errors import translated
from tierfold.storage.tiers.store_options import StoreOptions


def said(error: Exception) -> str:
    with pytest.raises(UnreadableObject) as caught, translated("s3://bucket", "read"):
        raise error
    return caught.value.what


@pytest.mark.parametrize(
    ("named", "expected"), [("eu-west-1", ", eu-west-1"), ("", ""), ("http://AKIA/", "")]
)
def test_only_what_looks_like_a_region_is_repeated(named: str, expected: str) -> None:
    answer = {
        "Error": {"Code": "PermanentRedirect", "Region": named},
        "ResponseMetadata": {"HTTPStatusCode": 301},
    }
    error = ClientError(answer, "GetObject")  # type: ignore[arg-type]
    assert said(error) == f"cannot read this: the bucket is in another region{expected}"


def test_an_error_without_an_answer_names_no_status() -> None:
    error = ParamValidationError(report="AKIA")
    assert said(error) == "cannot read this: the store refuses the request"


def test_an_error_of_another_library_passes() -> None:
    with pytest.raises(ZeroDivisionError), translated("s3://bucket", "read"):
        raise ZeroDivisionError


def test_a_service_of_identities_that_fails_is_not_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("CLIENT_ID", "CLIENT_SECRET", "TENANT_ID"):
        monkeypatch.setenv(f"AZURE_{name}", "x")
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "http://127.0.0.1:9")
    options = StoreOptions(endpoint="http://127.0.0.1:9", account="x", retries=0)
    with pytest.raises(UnreadableObject, match="there are no credentials"):
        BucketStore("az", new_name(), "", options).read("f/object")
