"""storage: everything that reads and writes bytes. Decisions belong to `compaction`.

    kafka          Kafka's byte formats: batches, records, checksums, compression
    brokers        what a Kafka cluster answers, and its metadata topic
    tiers          object stores, and the layout of segments in them
    catalog        the Delta tables that list the live segments
    indexes        the files beside a log: offset, time and transaction index, producer snapshot,
                   leader epochs
    key_indexes    the Bloom filter and key index of each clean segment, beside the catalog
    segments       reads, scans, checks, rewrites and writes whole segments
    log_dirs       reads brokers' log directories, and uploads their segments
    clock          the only module that reads the clock or waits
    kernel_cache   where numba keeps compiled kernels
    hash_keys      the secret with which a run hashes record keys
    private_folders   folders in which no other user of the machine can change anything

For each format there is a reader and a writer: bytes to frozen values or numpy columns, and back.
Bytes that contradict the format raise `CorruptLog` with the place. Nothing is overwritten. Each
package imports only the packages above it in this list.
"""
