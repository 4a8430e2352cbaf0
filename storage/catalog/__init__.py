"""catalog: one row per partition with its live segments, and the table of runs.

    catalog         reads rows, claims partitions, commits
    attempts        one claim or commit, and its outcome as the row decides it
    schema          the columns of the tables
    cells           checks the value of every cell
    rows            rows to `PartitionState` and back
    runs_table      what each run did
    discovered_table   what planning has read of segments that no row names
    sign_folder     the signs of life of runs at work
    delta_tables    Delta tables through delta-rs: read, append, compare and swap
    table_scans     reads rows of a table, without files that have none of them
    delta_errors    the errors of delta-rs as one sentence each
    delta_log       the log of a table: checked, synced, cut
    delta_commits   one commit file, and whether it is whole
    log_boundary    the version below which old commits are deleted
    opened_files    finds the files of a table by its URI
    table_files     the interface of a table's files
    file_bounds     bounds on what files of a table may hold
    folder_files    a table's files in a local folder
    bucket_files    a table's files in an object store
    file_sync       makes files and folders durable
"""
