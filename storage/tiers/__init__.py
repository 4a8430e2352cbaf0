"""tiers: object stores, and the layout of segments in them.

    remote_tier            the interface of a tier: its partitions, segments and their parts
    object_store           the interface of an object store
    request_counts         counts the requests to a store
    near_reads             counts what was read from files in place of a tier's logs
    listed_count           counts the objects that are listed
    folder_handles         opens and deletes files without following links
    file_copies            copies the bytes of a file into another
    file_ranges            ranges of files as arrays, mapped or copied
    local_store            an object store in a folder
    store_options          options of a store that are not secret
    store_errors           says why a store refused a request
    bucket_clients         opens the clients of a bucket: obstore's, boto3's
    storage_class_names    the storage classes in which objects can be written
    s3_objects             writes objects of S3, and asks for their checksums
    s3_uploads             streams objects to S3 in parts, and copies them there
    s3_pages               reads the pages of S3's listings, with storage classes
    bucket_listings        the objects that a listing of a bucket shows, by folder
    copied_objects         writes and copies objects of Azure and GCS
    table_options          options of delta-rs and of Spark's S3A
    bucket_store           an object store in a bucket
    asked_classes          asks Azure and Google Cloud for storage classes
    signed_heads           asks for one by a signed URL
    locations              names the place of a tier or a catalog, and opens its store
    store_clocks           asks a store for its time
    segment_names          names of a segment's objects, which both layouts have
    local_tiered_storage   the layout of Kafka's own LocalTieredStorage
    aiven                  the layout of Aiven's tiered storage plugin
    layout_options         options of a layout that are not secret
    service_notes          the note of who serves the tier, and which catalog publishes
    new_tier               begins a tier where there is none
    tier_uris              opens a tier by its path or URI
"""
