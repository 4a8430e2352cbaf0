"""The tier in the layout of Aiven's plugin: three objects per segment.

    `.log`           the segment in chunks, each compressed and encrypted if so configured
    `.indexes`       the files beside it, one after the other, encrypted if so configured
    `.rsm-manifest`  how the other two are stored

Without its manifest nothing of a segment can be read. `RemoteTier`'s parts are Kafka's, decoded;
listings show the objects as they are stored.
Rule: Aiven's plugin, `RemoteStorageManager`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tierfold.compaction.discovery.listing import IncompleteUpload, ListedSegment
from tierfold.compaction.discovery.ownership import UNSAID, Ownership
from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.storage.clock import now_ms
from tierfold.storage.tiers.aiven.chunk_index import CHUNKS_MAX, INT_MAX
from tierfold.storage.tiers.aiven.chunk_transform import ChunkTransform, DataKey, corrupt_object
from tierfold.storage.tiers.aiven.data_keys import unwrapped_key, wrapped_key
from tierfold.storage.tiers.aiven.kept import Kept
from tierfold.storage.tiers.aiven.key_files import check_key_files, read_key
from tierfold.storage.tiers.aiven.manifest import (
    MANIFEST_BYTES_MAX,
    Manifest,
    copied_manifest,
    read_manifest,
)
from tierfold.storage.tiers.aiven.object_names import (
    NAMES,
    ObjectNames,
    Suffix,
    check_prefix,
    partition_of,
)
from tierfold.storage.tiers.aiven.staged_objects import CHUNK_BYTES_DEFAULT, StagedObjects
from tierfold.storage.tiers.aiven.stored_segment import CHUNK_BYTES_HELD, StoredSegment
from tierfold.storage.tiers.layout_options import LayoutOptions
from tierfold.storage.tiers.object_store import (
    LISTERS,
    ObjectClasses,
    ObjectStore,
    StoredChecksum,
    check_copied,
)
from tierfold.storage.tiers.remote_tier import (
    Access,
    Listing,
    NearLogs,
    Part,
    RemoteTier,
    SegmentAddress,
    address_of,
    no_tier,
)
from tierfold.storage.tiers.segment_names import by_partition, incomplete_uploads


@dataclass(frozen=True, slots=True)
class AivenTier(RemoteTier):
    """A tier in this layout; see `RemoteTier`. Raises BadSettings for impossible options."""

    store: ObjectStore
    options: LayoutOptions
    _kept: Kept = field(default_factory=Kept, compare=False, repr=False)
    near: NearLogs | None = field(default=None, compare=False, repr=False)
    reads_incomplete = False
    """See `RemoteTier.reads_incomplete`: without a manifest nothing says how to decode."""

    def __post_init__(self) -> None:
        check_prefix(self.options.key_prefix)
        check_key_files(self.options.key_files)

    @property
    def names(self) -> ObjectNames:
        """The names of its objects."""
        return ObjectNames(self.options.key_prefix)

    def in_classes(self, classes: ObjectClasses) -> AivenTier:
        """See `RemoteTier.in_classes`."""
        return replace(self, store=self.store.in_classes(classes))

    def with_near(self, near: NearLogs | None) -> AivenTier:
        """See `RemoteTier.with_near`."""
        return replace(self, near=near)

    def check(self) -> None:
        """See `RemoteTier.check`.

        A topic's folder or the catalog shows that this is a tier: a file system that is not mounted
        must not look like an empty one. Every key file is read, to find one that cannot be used.
        """
        for file in self.options.key_files:
            read_key(file.path)
        self._topics()

    def partitions(self) -> tuple[PartitionKey, ...]:
        """See `RemoteTier.partitions`."""
        topics = self._topics()

        def numbers(of_topic: tuple[str, str]) -> list[int | None]:
            return [*map(partition_of, self.store.list_folders(self.names.topic_folder(*of_topic)))]

        with ThreadPoolExecutor(LISTERS) as pool:
            found = zip(topics, pool.map(numbers, topics), strict=True)
            return tuple(
                sorted(
                    PartitionKey(topic=topic, partition=partition, topic_id=topic_id)
                    for (topic, topic_id), partitions in found
                    for partition in partitions
                    if partition is not None
                )
            )

    def listings(
        self, keys: Sequence[PartitionKey]
    ) -> dict[PartitionKey, Listing | Exception]:
        """See `RemoteTier.listings`."""
        return by_partition(keys, self.names.partition_folder, self.store.list_each, NAMES.listing)

    def incomplete_uploads(
        self, keys: Sequence[PartitionKey]
    ) -> dict[PartitionKey, tuple[IncompleteUpload, ...] | Exception]:
        """See `RemoteTier.incomplete_uploads`."""
        list_each = self.store.unfinished_each
        return by_partition(keys, self.names.partition_folder, list_each, incomplete_uploads)

    def objects_of(self, key: PartitionKey, listed: ListedSegment) -> tuple[tuple[str, int], ...]:
        """See `RemoteTier.objects_of`: the `.log` goes first.

        What is left without it is an orphan, which the next `vacuum` deletes. A `.log` without its
        manifest would stay for ever: its last offset cannot be known.
        """
        address = address_of(key, listed)
        return tuple(
            (self.names.object_key(address, suffix), size_bytes)
            for suffix in Suffix
            if (size_bytes := listed.part_bytes(suffix)) is not None
        )

    def new_segment(
        self, address: SegmentAddress, sources: Sequence[SegmentAddress] = ()
    ) -> StagedObjects:
        """See `RemoteTier.new_segment`.

        What the options leave open is as in the last source. It is encrypted if one of them is.
        Encoded chunks are at most `CHUNK_BYTES_HELD` large, and not more than can be read again:
        brokers read any size.
        """
        manifests = [self._read(source).manifest for source in sources]
        options = self.options
        chunk_bytes, is_compressed = options.chunk_bytes, options.is_compressed
        if chunk_bytes is None:
            chunk_bytes = manifests[-1].chunks.chunk_bytes if manifests else CHUNK_BYTES_DEFAULT
        if is_compressed is None:
            is_compressed = bool(manifests) and manifests[-1].is_compressed
        is_encrypted = self._is_encrypted(sources, manifests)
        data_key = DataKey.fresh() if is_encrypted else None
        if is_compressed or is_encrypted:
            # Twice what the sources have: compressing again may make batches larger.
            log_bytes = min(2 * sum(one.chunks.log_bytes for one in manifests), INT_MAX)
            chunk_bytes = min(max(chunk_bytes, -(-log_bytes // CHUNKS_MAX)), CHUNK_BYTES_HELD)
        return StagedObjects(
            store=self.store,
            names=self.names,
            address=address,
            chunk_bytes=chunk_bytes,
            transform=ChunkTransform(is_compressed=is_compressed, data_key=data_key),
            wrapped_key="" if data_key is None else wrapped_key(data_key.key, options.key_files),
        )

    def copy_segment(self, key: PartitionKey, listed: ListedSegment, copy: Segment) -> Segment:
        """See `RemoteTier.copy_segment`: only the manifest names its segment, and comes last.

        An encrypted segment stays so: its data key and additional data are in the manifest, and no
        private key is needed.
        """
        source, target = address_of(key, listed), address_of(key, copy)
        store = self.in_classes(listed.classes).store
        for suffix in (Suffix.LOG, Suffix.INDEXES):
            old, new = (self.names.object_key(one, suffix) for one in (source, target))
            size_bytes = listed.part_bytes(suffix) or 0
            check_copied(store.copy(old, new), size_bytes, self.store.uri(new))
        data, manifest = self._read_manifest(source)
        self._check_owner(manifest, source)
        self._check_sizes(manifest, key, listed)
        written = copied_manifest(data, target, copy, event_ms=now_ms())
        store.create(self.names.object_key(target, Suffix.MANIFEST), written)
        return self.with_stored_sizes(copy, listed)

    def read_part(self, address: SegmentAddress, part: Part) -> NDArray[np.uint8]:
        """See `RemoteTier.read_part`."""
        return self._read(address).read_part(part)

    def ownership(self, key: PartitionKey, listed: ListedSegment) -> Ownership:
        """See `RemoteTier.ownership`: the manifest says it, and no data key is needed for it."""
        if listed.part_bytes(Suffix.MANIFEST) is None:
            return UNSAID
        address = address_of(key, listed)
        where = self.store.uri(self.names.object_key(address, Suffix.MANIFEST))
        return self._manifest(address).owner.ownership(address, where)

    def part_sizes(self, key: PartitionKey, listed: ListedSegment) -> Mapping[Part, int]:
        """See `RemoteTier.part_sizes`; reads the manifest, and compares it with the listing."""
        manifest = self._read(address_of(key, listed)).manifest
        self._check_sizes(manifest, key, listed)
        sizes = {part: manifest.part_bytes(part) for part in Part}
        return {part: size for part, size in sizes.items() if size is not None}

    def recorded_end(self, address: SegmentAddress) -> int | None:
        """See `RemoteTier.recorded_end`: the manifest's `endOffset`."""
        return self._read(address).manifest.end_offset

    def with_stored_sizes(self, segment: Segment, listed: ListedSegment) -> Segment:
        """See `RemoteTier.with_stored_sizes`."""
        return replace(
            segment,
            stored_log_bytes=listed.part_bytes(Suffix.LOG),
            stored_indexes_bytes=listed.part_bytes(Suffix.INDEXES),
        )

    def access(self, address: SegmentAddress, part: Part) -> Access:
        """See `RemoteTier.access`."""
        return self._read(address).access(part)

    def read_range(
        self, address: SegmentAddress, part: Part, start: int, length: int
    ) -> NDArray[np.uint8]:
        """See `RemoteTier.read_range`."""
        return self._read(address).read_range(part, start, length)

    def stored_checksum(self, address: SegmentAddress, part: Part) -> StoredChecksum | None:
        """See `RemoteTier.stored_checksum`: a plain `.log` is stored as it is."""
        if part is not Part.LOG or not self._read(address).manifest.is_plain:
            return None
        return self.store.stored_checksum(self.names.object_key(address, Suffix.LOG))

    def uri(self, address: SegmentAddress, part: Part) -> str:
        """See `RemoteTier.uri`."""
        if part is Part.LOG:
            return self.store.uri(self.names.object_key(address, Suffix.LOG))
        return f"{self.store.uri(self.names.object_key(address, Suffix.INDEXES))} (.{part.value})"

    def _check_sizes(self, manifest: Manifest, key: PartitionKey, listed: ListedSegment) -> None:
        """Raise CorruptLog if a listed object has another size than the manifest says."""
        for suffix, stored_bytes in (
            (Suffix.LOG, manifest.chunks.stored_bytes),
            (Suffix.INDEXES, manifest.indexes_bytes),
        ):
            listed_bytes = listed.part_bytes(suffix)
            if listed_bytes is not None and listed_bytes != stored_bytes:
                raise corrupt_object(
                    f"the object has {listed_bytes} bytes, its manifest says {stored_bytes}",
                    self.store.uri(self.names.object_key(address_of(key, listed), suffix)),
                )

    def _topics(self) -> tuple[tuple[str, str], ...]:
        """Topic and topic id of each topic; raises BadSettings if this is no tier."""
        names = self.names
        found = tuple(self.store.list_folders(names.top_folder))
        topics = tuple(filter(None, map(names.topic_of, found)))
        if not topics and names.catalog_folder not in found:
            catalog = f"{names.top_folder}/{names.catalog_folder}".lstrip("/")
            raise no_tier(
                "topic of Aiven's tiered storage plugin",
                found,
                where=self.store.uri(catalog).removesuffix(f"/{names.catalog_folder}"),
                remedy=_where_topics_are(self.options.key_prefix, found),
            )
        return topics

    def _read(self, address: SegmentAddress) -> StoredSegment:
        """The segment by its manifest; raises UnreadableObject, CorruptLog and BadSettings."""
        manifest = self._manifest(address)
        where = self._check_owner(manifest, address)
        data_key = None
        if manifest.encryption is not None:
            wrapped = manifest.encryption.wrapped_key
            opened = self._kept.data_keys.get(
                wrapped, lambda: unwrapped_key(wrapped, self.options.key_files, where)
            )
            data_key = DataKey(opened, manifest.encryption.aad)
        return StoredSegment(
            store=self.store,
            log_key=self.names.object_key(address, Suffix.LOG),
            indexes_key=self.names.object_key(address, Suffix.INDEXES),
            manifest=manifest,
            transform=ChunkTransform(is_compressed=manifest.is_compressed, data_key=data_key),
            open_chunks=self._kept.open_chunks,
        )

    def _check_owner(self, manifest: Manifest, address: SegmentAddress) -> str:
        """The manifest's name; raises UnreadableObject if it names another segment."""
        where = self.store.uri(self.names.object_key(address, Suffix.MANIFEST))
        manifest.owner.check(address, where)
        return where

    def _manifest(self, address: SegmentAddress) -> Manifest:
        """The segment's manifest, whosever it is; raises UnreadableObject and CorruptLog."""
        key = self.names.object_key(address, Suffix.MANIFEST)
        return self._kept.manifests.get(key, lambda: self._read_manifest(address)[1])

    def _read_manifest(self, address: SegmentAddress) -> tuple[NDArray[np.uint8], Manifest]:
        """Its bytes, and what they say."""
        key = self.names.object_key(address, Suffix.MANIFEST)
        data = self.store.read_range(key, 0, MANIFEST_BYTES_MAX + 1)
        with self._kept.parsing:
            return data, read_manifest(data, self.store.uri(key))

    def _is_encrypted(
        self, sources: Sequence[SegmentAddress], manifests: Sequence[Manifest]
    ) -> bool:
        """Whether a new segment is encrypted; raises BadSettings if it must be, but may not be."""
        is_wanted = self.options.is_encrypted
        for source, manifest in zip(sources, manifests, strict=True):
            if manifest.encryption is None:
                continue
            if is_wanted is False:
                raise BadSettings(
                    "the segment is encrypted, and encryption.enabled is false: its records would"
                    " be written without encryption",
                    where=self.store.uri(self.names.object_key(source, Suffix.MANIFEST)),
                    remedy="Name the properties of the brokers that wrote it, in which it is true,"
                    " or leave --rsm-config out.",
                )
            return True
        return bool(is_wanted)


def _where_topics_are(key_prefix: str, folders: Collection[str]) -> str:
    """What to do where no topic is below a key prefix; `folders`: what is there instead."""
    if key_prefix.rpartition("/")[2] in folders:
        return f"Write --key-prefix {key_prefix}/, with its slash: brokers add none to key.prefix."
    return (
        "Name the folder or bucket of the brokers' plugin (storage.root, storage.s3.bucket.name, …)"
        " as TIER, and their key.prefix only with --key-prefix or --rsm-config."
    )
