"""Which segments of a broker's log directory are uploaded into a tier, and which may go from it.

    local_log     what a log directory has of a partition
    copy_lag      when a rolled segment is old enough, or far enough behind (KIP-1241)
    upload_plan   what becomes of each segment, with its reason
    upload_refusals   why nothing of a partition is uploaded
    local_retention   whether each segment may go from the directory, with the reason
"""
