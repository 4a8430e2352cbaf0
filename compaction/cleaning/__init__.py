"""cleaning: which records and batches are kept.

    kernel_memory      words and prefetches, in numba kernels
    wide_arithmetic    sums and products of 128 bits, in numba kernels
    key_hash           a keyed 64-bit hash of a key, in numba kernels
    key_columns        the keys of many records as columns
    key_blocks         a block of keys per segment and bucket: the unit of the shuffle
    offset_map         the distributed offset map: which records are superseded
    transactions       aborted data and markers: which are kept; which transactions are undecided
    rounds             one pass over one partition: what it reads and keeps, its groups
    merges             the rewrite of a merge, which keeps everything
    cuts               the rewrite of a segment up to where an election cut the log off
    record_retention   which records, tombstones and markers stay, and delete horizons
    batch_outline      which batches the rewrite need not read
    group_outcome      whether and why a group is rewritten
    counts             how many records were kept or removed, by reason
"""
