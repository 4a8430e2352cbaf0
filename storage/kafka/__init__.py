"""kafka: Kafka's byte formats, as numpy columns and back.

    wire               Kafka's integers, for numba kernels
    checksums          CRC32C and CRC32 of batches, CRC32C of objects
    compression        the five codecs of a batch
    memory_copy        `memcpy` for kernels
    kafka_uuid         Kafka's ids as text
    topic_names        the names that Kafka allows for topics
    batch_headers      the headers of every batch of a segment, as columns
    records            the records of magic 2 batches, as columns
    legacy_batches     messages of magic 0 and 1
    control_records    the types of control records
    record_versions    timestamps, or versions in headers: what decides between records of a key
    batch_draft        new batches, from their fields
    batch_rewrite      a batch with some of its records: copied, rewritten, or emptied
    payload_encoding   kernels that encode records
"""
