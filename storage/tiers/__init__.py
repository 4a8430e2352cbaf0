"""tiers: object stores, and how segments are laid out in them.

    object_store           what an object store must do
    local_store            an object store in a folder
    local_paths            which paths and URIs are accepted
    local_tiered_storage   the layout of Kafka's own LocalTieredStorage
    tier_uris              opens a tier by its path or URI
"""
