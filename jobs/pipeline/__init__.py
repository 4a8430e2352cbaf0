"""pipeline: from the survey of partitions to the commit.

    discovery          lists a partition and reads its unknown segments
    survey             what is there and what should be done, from metadata alone
    originals          the segments that brokers wrote, live or replaced
    task_assignment    a round as rows for the workers
    spark_executor     scan, reduce and rewrite, on Spark
    stages             these three, and those of `verify`
    proposals          from receipts to a commit
    check_and_commit   checks what was rewritten, and commits it
    commits            commits that got no answer
    run_loop           chunk after chunk: claim, execute, commit
    partition_report   what happened to a partition
    run_records        the rows of the `runs` table
"""
