"""Reads the broker's own properties of Aiven's plugin, so that an operator need not translate them.

The file is a broker's `server.properties`, where `remote.log.storage.manager.impl.prefix` sets the
prefix of the plugin's names, by default `rsm.config.`; or it has the plugin's names alone. Unknown
names are ignored: they belong to brokers, stores and caches. Their values may be secrets, so
messages repeat only the values of the few names that are read here.

Rule: Java `Properties.load`; Aiven `RemoteStorageManagerConfig`, whose defaults apply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import javaproperties

from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.settings.rsm_place import place_of_brokers
from tierfold.storage.tiers.layout_options import KeyFile, Layout, LayoutOptions
from tierfold.storage.tiers.storage_class_names import allowed

DEFAULT_PREFIX: Final = "rsm.config."
"""Kafka `RemoteLogManagerConfig.DEFAULT_REMOTE_STORAGE_MANAGER_CONFIG_PREFIX`."""

CHUNK_BYTES_MAX: Final = 2**30 - 1
"""`chunk.size` at most, in the plugin."""

_MANAGER: Final = "remote.log.storage.manager."
_PLUGIN: Final = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
_PAIRS: Final = "encryption.key.pairs"
_NAMES: Final = ("chunk.size", "compression.enabled", "encryption.enabled", "storage.backend.class")
"""Every configuration of the plugin has at least one of these."""

_CLASS: Final = "storage.s3.storage.class"

_FIELDS: Final = frozenset({"REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY"})
"""The values of `custom.metadata.fields.include`; only events to brokers contain these fields."""

_NO_NAMES: Final[tuple[str, ...]] = ()

_Value = TypeVar("_Value")


def read_rsm_config(path: Path) -> LayoutOptions:
    """The layout that a broker with these properties writes; raises BadSettings."""
    try:
        text = path.read_bytes().decode("latin-1")  # As Java's Properties reads a stream.
    except OSError as error:
        raise BadSettings(
            f"the broker's properties cannot be read: {error.strerror}",
            where=str(path),
            remedy="Name the broker's server.properties, or a file with the plugin's properties.",
        ) from error
    return layout_of_properties(text, where=str(path))


def layout_of_properties(text: str, *, where: str) -> LayoutOptions:
    """The layout in the text of such a file; `where` names the file in messages.

    Raises BadSettings for text that is not Java properties, a file of another plugin, and a value
    that is not allowed.
    """
    try:
        named = javaproperties.loads(text)
    except ValueError:  # From None: the cause would quote the text.
        raise BadSettings(
            "the file has an escape \\u without four hexadecimal digits",
            where=where,
            remedy="Write it as Java's properties do, such as \\u00e9.",
        ) from None
    given = _Properties(values=_of_plugin(named, where), where=where)
    format_ = given.value("segment.format", str.lower, "kafka")
    if format_ != "kafka":
        raise BadSettings(
            "segment.format is not kafka",
            where=where,
            remedy="tierfold reads no Iceberg tables; only segments in Kafka's format.",
        )
    given.value("custom.metadata.fields.include", _fields, _NO_NAMES)
    prefix = given.value("key.prefix", str, "")
    is_encrypted = given.value("encryption.enabled", _flag, default=False)
    is_compressed: bool | None = given.value("compression.enabled", _flag, default=False)
    # The plugin then looks at the first batch of each segment; the manifests say what it decided.
    if is_compressed and given.value("compression.heuristic.enabled", _flag, default=False):
        is_compressed = None
    return LayoutOptions(
        layout=Layout.AIVEN,
        key_prefix=prefix,
        key_files=_key_files(given) if is_encrypted else (),
        chunk_bytes=given.value("chunk.size", _chunk_bytes, None),
        is_compressed=is_compressed,
        is_encrypted=is_encrypted,
        storage_class=given.value(_CLASS, _storage_class, None),
        brokers_place=place_of_brokers(given.values, prefix),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Properties:
    """The plugin's properties."""

    values: Mapping[str, str]
    where: str

    def value(self, name: str, parse: Callable[[str], _Value], default: _Value) -> _Value:
        """The parsed value; raises BadSettings if it is not allowed."""
        if name not in self.values:
            return default
        text = self.values[name].strip()
        if "${" in text:
            raise BadSettings(
                f"{name} is a reference that only the broker can resolve",
                where=self.where,
                remedy="Write the value itself in a copy of the file, or give the option instead.",
            )
        try:
            return parse(text)
        except ValueError as error:
            raise BadSettings(
                f"{name} cannot be {text!r}", where=self.where, remedy=f"Give {error}."
            ) from None


def _of_plugin(named: Mapping[str, str], where: str) -> dict[str, str]:
    """The plugin's properties, without their prefix; raises BadSettings if there are none."""
    plugin = named.get(f"{_MANAGER}class.name", _PLUGIN).strip()
    if plugin != _PLUGIN:
        raise BadSettings(
            f"the broker uses the plugin {plugin}, not Aiven's",
            where=where,
            remedy="Leave the file out; tierfold reads the layouts of LocalTieredStorage and of"
            " Aiven's plugin.",
        )
    prefix = named.get(f"{_MANAGER}impl.prefix", DEFAULT_PREFIX).strip()
    found = {
        name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)
    }
    if not found and f"{_MANAGER}impl.prefix" not in named:
        found = dict(named)
    if not found.keys() & set(_NAMES):
        raise BadSettings(
            "the file has no property of Aiven's plugin, such as chunk.size",
            where=where,
            remedy=f"Name the broker's server.properties, with names such as {prefix}chunk.size, or"
            " a file with the plugin's properties.",
        )
    return found


def _key_files(given: _Properties) -> tuple[KeyFile, ...]:
    """The key pairs, the active one first; raises BadSettings if one lacks a property."""
    ids = given.value(_PAIRS, _listed, _NO_NAMES)
    active = given.value("encryption.key.pair.id", str, "")
    if active not in ids:
        raise BadSettings(
            f"encryption.key.pair.id names none of {_PAIRS}",
            where=given.where,
            remedy=f"Add the active key pair to {_PAIRS}.",
        )
    files = []
    for key_id in sorted(ids, key=lambda one: one != active):
        names = [f"{_PAIRS}.{key_id}.{kind}.key.file" for kind in ("private", "public")]
        found = [path for name in names if (path := given.value(name, str, ""))]
        if not found or ":" in key_id:
            raise BadSettings(
                f"the key pair {key_id!r} has no key file, or a colon in its id",
                where=given.where,
                remedy=f"Add {names[0]}.",
            )
        files.append(KeyFile(key_id=key_id, path=found[0]))
    return tuple(files)


def _flag(text: str) -> bool:
    """Kafka's `ConfigDef` takes these in any case."""
    if text.lower() not in {"true", "false"}:
        raise ValueError("true or false")
    return text.lower() == "true"


def _chunk_bytes(text: str) -> int | None:
    digits = text.removeprefix("+")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= 10
    if not is_number or not 1 <= int(digits) <= CHUNK_BYTES_MAX:
        raise ValueError(f"a number of bytes from 1 to {CHUNK_BYTES_MAX}")
    return int(digits)


def _storage_class(text: str) -> str | None:
    """A name of the AWS SDK's enum `StorageClass`, which the plugin's `S3StorageConfig` checks."""
    if instead := allowed("s3", text):
        raise ValueError(instead)
    return text


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _fields(text: str) -> tuple[str, ...]:
    fields = _listed(text)
    if not _FIELDS.issuperset(fields):
        raise ValueError(f"names of {', '.join(sorted(_FIELDS))}")
    return fields
