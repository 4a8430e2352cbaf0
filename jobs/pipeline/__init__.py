"""pipeline: from the survey of partitions to the commit.

    discovery          lists a partition and reads its unknown segments
    survey             plans every partition from metadata alone
    originals          finds the segments that brokers wrote, live or replaced
    task_assignment    turns rounds into rows for the workers
    spark_executor     runs scan, reduce and rewrite on Spark
    stages             the Spark stages of `compact` and `verify`
    proposals          turns receipts into a commit
    check_and_commit   checks the rewritten segments and commits them
    commits            commits, and resolves those that got no answer
    run_loop           claims, executes and commits, chunk by chunk
    partition_report   the outcome of a partition
    run_records        writes the rows of the `runs` table
"""
