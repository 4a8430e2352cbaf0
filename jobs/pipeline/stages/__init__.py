"""The stages of the pipeline that run on Spark: DataFrame in, DataFrame out.

    segment_rows   the columns that travel between the stages
    scan           segments → key blocks, records superseded in their own segment, transactions
    reduce         key blocks by (partition, key bucket) → superseded records per segment
    rewrite        superseded records and groups → staged objects, and receipts
    verify         segments → what is wrong with them, and where latest values differ
    worker_memory  keeps a worker's garbage collector from walking loaded libraries

Only packed columns (keys among them), bitmaps and receipts cross a shuffle. Values never leave the
worker that read them and never enter the JVM.
"""
