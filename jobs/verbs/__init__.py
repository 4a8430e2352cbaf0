"""verbs: one module per verb.

    plan             `plan`
    estimating          reads a sample of partitions, and estimates what would go
    compact          `compact`
    approved_plans   its partitions of an approved plan, refused where anything has changed
    status           `status`
    doctor           `doctor`
    verify           `verify`
    verified         what `verify` found out about one partition
    verified_by_brokers  what it finds by brokers' metadata, and as a consumer reads
    verify_targets   what `verify` reads of each partition
    second_opinion   `verify --second-opinion`
    init             `init`: what a first settings file says of each topic
    history          `history`
    runs             `runs`
    row_change       claims a row and commits one change: `restore`, `forget`
    restore          `restore`
    restore_target   which earlier state `restore --to` names
    restore_check    whether the tier has what `restore` brings back
    adoption         what `forget` takes over from brokers
    adopted_copies   what comes back for that as copies, and whether it can
    leave_alone      `forget --leave-alone`
    forget           `forget`
    rebuild          `rebuild`
    upload           `upload`
    upload_survey    what it would do
    local_retention  `local-retention`
    logs_beside_tier  the partitions of a log directory, each beside what the tier has of it
    vacuum           `vacuum`
    vacuum_sends     what `vacuum` sends to brokers before and after it deletes
    vacuum_survey    what `vacuum` may delete of each partition
    vacuum_deleted_topics  what it may delete of topics that the cluster does not have
    deletion_candidates    what it deletes of a partition, with its objects
    vacuum_outcome   one partition in a run of `vacuum`, up to its outcome
    catalog_cleanup  deletes what the catalog no longer needs, after `vacuum`
    waiting          waits for live runs that hold partitions
    dump             `dump`; a segment as two tables
    kernel_warmup    compiles every kernel: runs verbs on a small tier
"""
