"""The stages of the pipeline that run on Spark: DataFrame in, DataFrame out.

    segment_rows   the columns that travel between the stages
    scan           segments → key blocks, records superseded in their own segment, transactions
    reduce         key blocks by (partition, key bucket) → superseded records per segment
    rewrite        superseded records and groups → staged objects, and receipts
    verify         segments → what is wrong with them, and where latest values differ
    worker_memory  what a worker's garbage collector should leave alone

Only packed columns, bitmaps and receipts cross a shuffle. Keys do, packed; values never leave the
worker that read them, and never enter the JVM.
"""
