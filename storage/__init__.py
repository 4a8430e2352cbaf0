"""storage: everything that reads and writes bytes. Decisions belong to `compaction`.

    kafka          Kafka's byte formats: batches, records, checksums, compression
    tiers          object stores, and how segments are laid out in them
    catalog        the Delta tables that list the live segments
    indexes        the files beside a log: offset, time and transaction index, producer snapshot,
                   leader epochs
    segments       whole segments: read, scanned, checked, rewritten, written
    clock          the only module that reads the clock or waits
    kernel_cache   where numba keeps compiled kernels

Readers and writers come in pairs: bytes to frozen values or numpy columns, and back. Bytes that
contradict the format raise `CorruptLog` with the place. Nothing is overwritten. Each package
imports only the packages above it in this list.
"""
