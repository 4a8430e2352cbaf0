"""The options of a tier's layout; they are not secret, and travel to the workers with their tasks.

Rule: the `rsm.config.*` properties of Aiven's plugin (`RemoteStorageManagerConfig`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tierfold.compaction.model.tier_service import TierPlace


class Layout(StrEnum):
    """How a tier names its objects, and what is in them."""

    LOCAL = "local"
    """Kafka's own LocalTieredStorage."""
    AIVEN = "aiven"
    """Aiven's tiered storage plugin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """A key pair that wraps data keys (`encryption.key.pairs`)."""

    key_id: str
    path: str
    """A file with the key, PEM or a JSON Web Key; each process reads its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions:
    """What is known of a layout before an object is read; None: as the source segments are."""

    layout: Layout | None = None
    """None: as the objects show."""
    key_prefix: str = ""
    """`key.prefix`: what every object's key begins with; no slash is added."""
    key_files: tuple[KeyFile, ...] = ()
    """All of them read; the first one writes."""
    chunk_bytes: int | None = None
    """`chunk.size`."""
    is_compressed: bool | None = None
    """`compression.enabled`."""
    is_encrypted: bool | None = None
    """`encryption.enabled`."""
    storage_class: str | None = None
    """`storage.s3.storage.class`; None: not named."""
    brokers_place: TierPlace | None = None
    """Where the properties of brokers say that they write to; None: none are given, or they name a
    store that is not known."""


AS_FOUND: Final = LayoutOptions()
"""The layout that the objects show."""
