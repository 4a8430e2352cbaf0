"""The table `[store]` of the user's file: options of the object store of the tier and the catalog.

No option is a secret: credentials come from the environment, a profile or a role. The environment
also supplies the options that are missing (docs/object_stores.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.redaction import setting_name
from tierfold.storage.tiers.store_options import StoreOptions

OPTIONS: Final[Mapping[str, tuple[str, type]]] = {
    "endpoint": ("endpoint", str),
    "region": ("region", str),
    "path.style": ("path_style", bool),
    "ca.file": ("ca_file", str),
    "requester.pays": ("requester_pays", bool),
    "kms.key.id": ("kms_key_id", str),
    "account": ("account", str),
    "storage.class": ("storage_class", str),
    "part.bytes": ("part_bytes", int),
    "timeout.ms": ("timeout_ms", int),
    "retries": ("retries", int),
}
"""By name: the field of `StoreOptions`, and the type of its value."""

_ALLOWED: Final = {str: 'a string, such as "…"', bool: "true or false", int: "a whole number"}


def store_options(table: Mapping[str, object], where: str) -> StoreOptions:
    """Parse the table; raises BadSettings, which repeats no value."""
    found = {}
    for name, value in table.items():
        if name not in OPTIONS:
            raise BadSettings(
                f"there is no option {setting_name(name)}",
                where=where,
                remedy=f"Known are {', '.join(OPTIONS)}. Credentials come from the environment, a"
                " profile or a role.",
            )
        field, kind = OPTIONS[name]
        if type(value) is not kind or value == "":
            raise BadSettings(
                f"{name} has a value that is not allowed",
                where=where,
                remedy=f"Give {_ALLOWED[kind]}.",
            )
        found[field] = value
    try:
        return StoreOptions(**found)  # type: ignore[arg-type]
    except BadSettings as error:
        name = error.where.removeprefix("store.").replace("_", ".")
        raise BadSettings(f"{name}: {error.what}", where=where, remedy=error.remedy) from None
