"""Options of other programs that read or write tables in a bucket: delta-rs, and Spark's S3A.

They say the same as the options of the store's own clients.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from tierfold.storage.tiers.bucket_clients import (
    S3Endpoint,
    environment_number,
    s3_endpoint,
    s3_session,
)
from tierfold.storage.tiers.store_errors import translated
from tierfold.storage.tiers.store_options import StoreOptions

if TYPE_CHECKING:
    from botocore.credentials import Credentials

_SDK_CREDENTIALS = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"


def delta_rs_options(scheme: str, where: str, options: StoreOptions) -> dict[str, str]:
    """See `locations.delta_options`."""
    full = options.completed(scheme, os.environ)
    common = {
        "max_retries": str(full.retries),
        "retry_timeout": "180s",
        "backoff_config.init_backoff": "100ms",
        "connect_timeout": f"{full.connect_timeout_ms}ms",
        "timeout": f"{full.timeout_ms}ms",
    }
    found: dict[str, str | None] = {
        "az": {"account_name": full.account, "azure_storage_endpoint": full.endpoint},
        "gs": {"google_base_url": full.endpoint},
        "s3": {},
    }[scheme]
    if full.uses_http:
        found["allow_http"] = "true"
    if scheme == "s3":
        found |= _s3_options(where, full)
    return common | {name: value for name, value in found.items() if value is not None}


def s3a_conf(bucket: str, options: StoreOptions) -> dict[str, str]:
    """See `locations.s3a_options`."""
    full = options.completed("s3", os.environ)
    endpoint = s3_endpoint(bucket, full)
    prefix = f"spark.hadoop.fs.s3a.bucket.{bucket}"
    found = {
        "aws.credentials.provider": _SDK_CREDENTIALS,
        "endpoint.region": endpoint.region,
        "path.style.access": str(not endpoint.is_virtual).lower(),
    }
    if not endpoint.is_aws:
        found["endpoint"] = endpoint.url
        found["connection.ssl.enabled"] = str(not endpoint.uses_http).lower()
    if full.requester_pays:
        found["requester.pays.enabled"] = "true"
    return {f"{prefix}.{name}": value for name, value in found.items()}


def _s3_options(where: str, options: StoreOptions) -> dict[str, str | None]:
    bucket = where.removeprefix("s3://").partition("/")[0]
    endpoint, refreshed = _resolved(bucket, options, environment_number())
    with translated(where, "open"):
        credentials = refreshed.get_frozen_credentials()
    return {
        "aws_access_key_id": credentials.access_key,
        "aws_secret_access_key": credentials.secret_key,
        "aws_session_token": credentials.token,
        "aws_region": endpoint.region,
        "aws_endpoint_url": None if endpoint.is_aws else endpoint.for_obstore(bucket),
        "allow_http": "true" if endpoint.uses_http else None,
        "aws_virtual_hosted_style_request": str(endpoint.is_virtual).lower(),
        "aws_conditional_put": "etag",
        "aws_request_payer": "true" if options.requester_pays else None,
        "aws_server_side_encryption": None if options.kms_key_id is None else "aws:kms",
        "aws_sse_kms_key_id": options.kms_key_id,
    }


@functools.cache
def _resolved(
    bucket: str, options: StoreOptions, _environment: int
) -> tuple[S3Endpoint, Credentials]:
    """The endpoint, and credentials that boto3 refreshes; finding them takes 120 ms of CPU."""
    endpoint = s3_endpoint(bucket, options)
    with translated(f"s3://{bucket}", "open"):
        return endpoint, s3_session(options).get_credentials()
