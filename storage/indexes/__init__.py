"""indexes: the files beside a segment's log.

    index_entries             entries of the offset and the time index
    offset_index              `.index`: the positions of offsets in the log
    time_index                `.timeindex`: offsets up to which no record is later than a timestamp
    index_builder             builds both indexes from a segment's batches
    index_check               checks that both lead a reader to the right place
    transaction_index         `.txnindex`: aborted transactions
    producer_snapshot         `.snapshot`: every producer's state at the segment's end
    leader_epoch_checkpoint   leader epochs, each with its first offset
"""
