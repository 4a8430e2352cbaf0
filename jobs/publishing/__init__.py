"""publishing: lets the brokers that serve a partition know what its row says, look by look.

    served_partition   a claimed partition, and one look at it
    looks              takes looks: row, listing, metadata topic, offsets, in this order
    verified_objects   reads what brokers are to read, before they are sent it
    service_note       the tier's note of who serves it, before the first send
    row_steps          changes the row where a look asks for that, not for events
    segment_copies     copies segments under new ids, and verifies the copies
    joint_sends        looks, sends what follows, and looks again
    joint_publication  sends or changes the row, until it is done
    joint_deletion     sends that segments are gone, once their objects are
    joint_rebuild      names again what a lost metadata topic had, until all is named
    rebuild_looks      looks at partitions whose metadata may be lost, and decides
    log_start_probe    reads one record at the log start as a consumer does
    publishing_run     what all partitions share that one run publishes
    deleter            sends what follows from the deletions of one run
    publisher          publishes the partitions of one run, some at a time
    open_swaps         publishes what earlier runs have committed
    open_step          publishes what is open of one partition, for `restore`
    canary             reads a partition as a consumer does, and compares it with the tier
    canary_errors      what a canary that found something means, and what to do
    tier_proof         whether the tier is the one that brokers read, as canaries have shown
    canary_note        the tier's note that a canary counted, or that a person published without one

`compaction.publishing` decides each step; nothing here does (docs/publishing.md).
"""
