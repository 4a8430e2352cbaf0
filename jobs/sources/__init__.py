"""sources: `kafka-segments` and the catalog as DataFrames.

    segment_source    `spark.read.format("kafka-segments")`
    segment_planning  plans a read on the driver
    segment_tasks     reads what a task was assigned, on a worker
    segment_columns   its columns
    segment_options   its options
    latest            all records of a tier, or the newest of each key
    catalog_tables    the catalog's tables
"""
