"""The stages of the pipeline that run on Spark: DataFrame in, DataFrame out.

    segment_rows   the columns that travel between the stages
    scan           segment references → key blocks, own losers, marks of transactions
    reduce         key blocks by (partition, key bucket) → losers per segment
    rewrite        losers and groups → staged objects, and receipts
    worker_memory  what a worker's garbage collector should leave alone

Only packed columns, bitmaps and receipts cross a shuffle. Keys do, packed; values never leave the
worker that read them, and never enter the JVM.
"""
