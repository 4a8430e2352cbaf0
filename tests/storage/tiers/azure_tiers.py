"""The access tiers of the blobs of a container on Azurite, and a token for the container."""

from __future__ import annotations

import base64
import email.utils
import hmac
import re
import urllib.parse
import urllib.request

from tests.storage.emulators import AZURE_ACCOUNT, AZURE_KEY
from tierfold.storage.tiers.bucket_store import BucketStore


def azure_tiers(store: BucketStore) -> dict[str, str]:
    """By name, the tier of each blob: a request signed with the account's key."""
    date = email.utils.formatdate(usegmt=True)
    lines = [
        "GET", *[""] * 11, f"x-ms-date:{date}", "x-ms-version:2021-08-06",
        f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{store.bucket}", "comp:list", "restype:container",
    ]  # fmt: skip
    request = urllib.request.Request(
        f"{store.options.endpoint}/{store.bucket}?restype=container&comp=list",
        headers={
            "Authorization": f"SharedKey {AZURE_ACCOUNT}:{_signed(lines)}",
            "x-ms-date": date,
            "x-ms-version": "2021-08-06",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        page = answer.read().decode()
    found = re.findall(r"<Name>[^<]*?([^/<]+)</Name>.*?<AccessTier>(\w+)</AccessTier>", page)
    return dict(found)


def set_tier(store: BucketStore, key: str, tier: str) -> None:
    """Move a blob to an access tier, as a lifecycle rule does."""
    date, name = email.utils.formatdate(usegmt=True), f"{store.bucket}/{key}"
    lines = [
        "PUT", *[""] * 11, f"x-ms-access-tier:{tier}", f"x-ms-date:{date}",
        "x-ms-version:2021-08-06", f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{name}", "comp:tier",
    ]  # fmt: skip
    request = urllib.request.Request(
        f"{store.options.endpoint}/{name}?comp=tier",
        method="PUT",
        headers={
            "Authorization": f"SharedKey {AZURE_ACCOUNT}:{_signed(lines)}",
            "x-ms-access-tier": tier,
            "x-ms-date": date,
            "x-ms-version": "2021-08-06",
        },
    )
    with urllib.request.urlopen(request, timeout=60):
        pass


def token_for(container: str) -> str:
    """A shared access signature (SAS) for the container, with which nothing can be signed."""
    end, resource = "2099-01-01T00:00:00Z", f"/blob/{AZURE_ACCOUNT}/{container}"
    lines = ["racwdl", "", end, resource, "", "", "", "2021-08-06", "c", *[""] * 7]
    query = {"sp": "racwdl", "se": end, "sv": "2021-08-06", "sr": "c", "sig": _signed(lines)}
    return urllib.parse.urlencode(query)


def _signed(lines: list[str]) -> str:
    digest = hmac.digest(base64.b64decode(AZURE_KEY), "\n".join(lines).encode(), "sha256")
    return base64.b64encode(digest).decode()
