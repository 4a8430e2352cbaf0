"""catalog: the catalog: one row per partition with its live segments, and one per run.

    catalog         reads rows, claims partitions, commits
    attempts        one claim or commit, and how it ended by the row
    schema          the columns of the tables
    cells           which values a cell may hold
    rows            between rows and `PartitionState`
    runs_table      what each run did
    delta_tables    Delta tables through delta-rs: read, append, compare and swap
    delta_log       the log of a table: checked, synced, cut
    delta_commits   one commit file, and whether it is whole
    log_boundary    below which version old commits are deleted
    file_sync       files and folders made durable
"""
