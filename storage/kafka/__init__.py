"""kafka: Kafka's byte formats, as numpy columns and back.

    wire               Kafka's integers, for numba kernels
    columns            numpy columns whose fields a dataclass lists
    checksums          CRC32C and CRC32 of batches, CRC32C of objects
    compression        the five codecs of a batch
    gzip_members       gzip as Java reads it, and any stream within a limit
    payloads           the payloads of a window in one buffer, decompressed
    native_codecs      lz4 and zstd for all batches of a window at once
    native_calls       C functions of packages, for kernels
    memory_copy        `memcpy` for kernels
    kafka_uuid         draws new ids
    topic_names        the names that Kafka allows for topics
    batch_layout       the layout of batch headers, and one header read by it
    batch_lengths      a log from batch to batch, by their lengths
    batch_headers      the headers of all batches of a segment, as columns
    records            the records of magic 2 batches, as columns
    legacy_batches     messages of magic 0 and 1
    control_records    the types of control records
    record_sizes       the limit of a record that was compressed
    record_versions    timestamps or header values that decide between records of a key
    batch_draft        new batches, from their fields
    batch_rewrite      a batch with some of its records: copied, rewritten, or emptied
    batch_search       the first batch in bytes that begin anywhere
    payload_encoding   kernels that encode records
"""
