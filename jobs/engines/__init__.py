"""engines: run the stages that read and write whole segments.

    engine_choice     chooses Spark or this process, and limits what this process reads
    stage_executor    the order of the stages, the same for every engine
    spark_executor    rows as DataFrames, stages in Spark's Python workers
    spark_tasks       each row in the partition with its task's number
    arrow_rows        rows as Arrow batches, for Spark's Python workers
    local_executor    rows as lists, stages on threads of this process
    task_assignment   assigns work to tasks, by bytes
    scan              segments → key blocks, records superseded in their own segment, transactions
    probe             key indexes of clean segments → which ones the scan reads
    reduce            key blocks by (partition, key bucket) → superseded records per segment
    rewrite           superseded records and groups → staged objects, and receipts
    check             segments → their corruptions, and the keys whose latest values differ
    rows              the rows between driver and stages, and the base class of scan and check
"""
