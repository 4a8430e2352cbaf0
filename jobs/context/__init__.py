"""context: the tier, catalog, clock and scope of a run.

    run_context      the tier, its catalog, the clock, the run's name
    publishing_settings  whether a run publishes to its cluster, and how
    metadata_replay  the replay of brokers' metadata that a run keeps
    run_cluster      the cluster whose brokers a run asks
    beside_tier      the partitions of a tier, as a look at brokers needs them
    cluster_look     one look at a cluster's metadata topic and offsets
    tier_identity    where the tier stands, who serves it, and what that forbids
    run_clocks       compares the clocks before a run writes
    tier_opener      opens the tier and the key indexes in a worker
    log_dirs         log directories of brokers, and what they have beyond a tier
    key_files        where the keys of an encrypted tier are
    scope            the partitions that a verb works on
    partition_lists  reads a list of partitions, such as a plan
    plan_files       writes and reads plan files
    documents        writes and reads JSON documents
    byte_progress    how far a step is, in bytes
    run_progress     how far a whole run is
    segment_memory   what earlier runs read of segments that no row names
    request_prices   what requests to a bucket and its storage cost
    stored_bytes     what the partitions in scope take
    stage_seconds    how long a run spends in each stage
    timestamps       parses and prints timestamps
    sign_of_life     this run's sign of life, and those of others
    stopping         Ctrl-C and SIGTERM
    versions         the version of tierfold, and where its pages are
"""
