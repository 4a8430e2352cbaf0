"""engines: who runs the stages that read and write whole segments.

    engine_choice     Spark or this process; an executor is started when it is needed
    stage_executor    the order of the stages, the same for every engine
    spark_executor    rows as DataFrames, stages in Spark's Python workers
    arrow_rows        rows as Arrow batches, for Spark's Python workers
    local_executor    rows as lists, stages on threads of this process
    task_assignment   which task does what, by bytes
    scan              segments → key blocks, records superseded in their own segment, transactions
    reduce            key blocks by (partition, key bucket) → superseded records per segment
    rewrite           superseded records and groups → staged objects, and receipts
    check             segments → what is wrong with them, and where latest values differ
    rows              the rows between driver and stages
"""
