"""Opens a remote tier by its path or URI, and says which URIs may be used at all."""

from __future__ import annotations

from compaction.errors import BadSettings
from compaction.shown import without_secrets
from storage.local_store import LocalStore
from storage.local_tiered_storage import LocalTieredStorage, tier_path


def open_tier(uri: str) -> LocalTieredStorage:
    """The tier at `uri`: the folder that holds `kafka-tiered-storage`, as a path or `file://` URI.

    Raises BadSettings where there is none.
    """
    return LocalTieredStorage(LocalStore(tier_path(uri)))


def uri_without_secrets(uri: str) -> str:
    """`uri` as it is; raises BadSettings where it carries a user, a password or a query.

    URIs are told, stored, and sent to workers as they are; credentials are none of theirs.
    """
    if "://" in uri and without_secrets(uri) != uri:
        raise BadSettings(
            "the URI carries a user, a password or a query",
            where=uri,
            remedy="Write it without; give credentials by environment variables or a role, as"
            " URIs are kept in histories, process lists and logs.",
        )
    return uri
