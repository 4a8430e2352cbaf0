"""planning: what should be done with a partition, and why.

    holds            what holds a round back, besides open transactions
    regions          where a log is clean, dirty, and held back
    eligibility      how dirty a partition is, how long it has waited, what is due
    local_copies     until when a broker can have local copies of a segment's range
    local_segments   which local segments of brokers lie below the cleaner offset
    drop_limits      how long tombstones and markers stay on a served row
    open_step        whether brokers have what a served row says
    first_publication what it means to publish what was compacted without its brokers
    storage_classes  which storage classes new objects get
    storage_fees     what replacing segments costs where a storage class has fees
    early_deletion   whether to wait until objects may be replaced without a fee
    grouping         which neighbouring segments become one segment
    plan             the choice: compact, rest, or refuse, with its reason
    merges           the plan of a merge: a replacement, and what brokers have beside it
    partition_plan   one partition's plan: the choice, and the facts behind it
    chunks           how much of a plan is done at once: limits of bytes, space and partitions
    waves            how large the next wave of a run may be
    rebuild_look     what `rebuild` takes as part of the log
    rebuild_refusals why a lost metadata topic is not named again, and what to do first
    outlook          what a round would mean for brokers, once it is published
    approval         what an approved plan was made from, and what has changed since
    explanation      the plan, explained segment by segment
"""
