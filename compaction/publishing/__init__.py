"""publishing: what to send next to the brokers that serve a partition, derived at each look.

    look           what one reading of row and metadata topic showed: all that the decision is from
    steps          what a look says to do next, with its reason
    replacements   the events of segments that tierfold made
    ranges         which offsets look-ups find
    uploads        uploads of brokers that may still be finished
    unnamed        marked segments that the row does not name
    groups         what must be sent together: segments that share offsets
    batches        in which order the events of a batch leave no offset without a segment
    holes          offsets that no look-up finds, and what mends them
    next_step      the decision
    read_back      whether brokers took a batch as expected
    event_counts   how many events are missing until brokers have what a row says
    event_check    what every event must keep to, whatever decided to send it
    must_be_finished  which live segments brokers must have as finished
    rebuild_order  in which order a rebuild finishes them
    lost_metadata  the decision of `rebuild`: what a lost metadata topic must name again
    deletions      the third send: which objects may go, and what brokers then learn

Nothing here is stored: the row says what brokers must have, the metadata topic what they have
(docs/publishing.md).
"""
