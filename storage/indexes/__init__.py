"""indexes: the files beside a segment's log.

    index_entries             what the offset and the time index share
    offset_index              `.index`: where an offset lies in the log
    time_index                `.timeindex`: the offset up to which records are no younger than
                              a timestamp
    index_builder             both indexes from a segment's batches
    index_check               whether both lead a reader to the right place
    transaction_index         `.txnindex`: aborted transactions
    producer_snapshot         `.snapshot`: every producer's state at the segment's end
    leader_epoch_checkpoint   leader epochs and where each begins
"""
