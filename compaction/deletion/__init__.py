"""deletion: what may be deleted.

    expiry          which live segments are past `retention.ms` or `retention.bytes`
    log_start       where the log start moves to where brokers serve the partition
    dropped         which retired segments brokers no longer need
    makers          which orphans and unfinished uploads are this catalog's to delete
    served_grace    whether the grace period is long enough where brokers serve the partition
    deletion_plan   which retired, orphaned and expired segments `vacuum` may delete
    deletion_notes  what stays of a partition, and why
    deletion_checks whether it still may, right before the deletion
    deleted_topics  what goes of a topic that was deleted on its cluster
    third_send      what a look under the claim confirms of that, and what it showed afterwards
    short_ages      which ages are so short that `vacuum` asks, or says so
    superseded      when superseded segments will be gone, or why they stay
"""
