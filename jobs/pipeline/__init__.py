"""pipeline: from the survey of partitions to the commit.

    known_partition    a partition in scope, before it is inspected
    asked_brokers      adds what brokers have of the partitions
    discovery          lists a partition and reads its unknown segments
    replaced_classes   asks for the storage classes of what a round replaces
    survey             gathers the facts about every partition, and plans it
    originals          finds the segments that brokers wrote, live or replaced
    partition_run      one partition during a run: its plan, its claim, its chunks
    claim_report       the report of a partition that was not claimed
    claiming           claims the partitions, begins the rounds
    round_execution    scans, reduces and rewrites claimed rounds, on any engine
    merging            rewrites the group of a merge
    check_and_commit   checks the rewritten segments and commits them
    held_partitions    claims, commits, rechecks and releases many partitions
    pace               how large the next wave may be, and whether it may begin
    run_loop           claims, executes and commits, wave by wave
    publication        how far the publication of a partition got
    partition_report   the outcome of a partition
    left_unpublished   which due partitions a run leaves, because it may not publish them
    chunk_reports      the reports of a partition's chunks as one
    run_records        writes the rows of the `runs` table
"""
