"""kafka: Kafka's byte formats, as numpy columns and back.

    wire               Kafka's integers, for numba kernels
    checksums          CRC32C and CRC32 of batches, CRC32C of objects
    compression        the five codecs of a batch
    memory_copy        `memcpy` for kernels
    kafka_uuid         Kafka's ids as text
    topic_names        what a topic may be called
    batch_headers      the headers of every batch of a segment, as columns
    records            the records of magic 2 batches, as columns
    legacy_batches     messages of magic 0 and 1
    control_records    what a control batch says
    record_versions    timestamps, or versions in headers: what decides between records of a key
    batch_draft        batches that we make
    batch_rewrite      a batch with some of its records: copied, rewritten, or emptied
    payload_encoding   kernels that encode records
"""
