"""Reads brokers' log directories; nothing in them is written, renamed or deleted.

    offset_checkpoints   the files that note an offset per partition
    log_directory        the partitions of a directory, and what it has of each
    stray_snapshots      which snapshots lie within a segment
    segment_files        the files of a segment, all as of one time
    segment_upload       checks a segment's bytes, and uploads it into a tier
    segment_proof        whether a segment's files are those of a segment in a tier
    near_segments        the logs in log directories that are read in place of a tier's
"""
