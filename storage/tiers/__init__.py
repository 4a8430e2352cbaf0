"""tiers: object stores, and the layout of segments in them.

    remote_tier            the interface of a tier: its partitions, segments and their parts
    object_store           the interface of an object store
    local_store            an object store in a folder
    local_paths            resolves a path or a `file:` URI
    local_tiered_storage   the layout of Kafka's own LocalTieredStorage
    tier_uris              opens a tier by its path or URI
"""
