"""cleaning: which records and batches are kept.

    key_hash           a 64-bit hash of a key, in numba kernels
    key_columns        the keys of many records as columns
    key_blocks         the unit of the shuffle: one serialized block of keys per segment and bucket
    offset_map         the distributed offset map: which records are superseded
    transactions       aborted data and markers: which are kept, which may go
    record_retention   which records, tombstones and markers stay, and delete horizons
    emptied_batches    which batches are emptied already
    group_outcome      what becomes of a group of segments: rewritten and why, unchanged, or empty
    keyless_records    how many records without a key may be dropped
    counts             how many records ended how; the counts must add up
"""
