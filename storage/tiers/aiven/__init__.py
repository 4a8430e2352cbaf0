"""aiven: the layout of Aiven's tiered storage plugin.

    object_names     names of topics, partitions and objects, below a key prefix
    chunk_index      where the chunks of a `.log` are stored
    manifest         reads and writes `.rsm-manifest`
    segment_owner    whose a segment is, by its manifest
    key_files        reads RSA keys from files
    data_keys        wraps and unwraps the data key of a segment
    chunk_transform  compresses and encrypts a chunk, and back
    large_chunks     decodes a large chunk a stretch at a time
    stored_segment   reads the parts of a segment
    kept             what a process keeps of the segments that it read last
    staged_objects   writes a segment
    aiven_tier       the tier
"""
