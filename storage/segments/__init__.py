"""segments: reads, scans, checks, rewrites and writes whole segments.

    segment_metadata     a new segment's metadata, read once and kept in the catalog
    segment_inspection   the end offset and leader epochs of an unknown segment
    usable_indexes       the offset and the time index, as far as they can be used
    overlap_check        whether overlapping segments hold the same batches
    segment_reader       decodes a segment; the public interface
    segment_walk         a corrupt segment, batch by batch
    segment_tables       a segment as two Arrow tables: batches and records
    segment_scan         keys and transactions of a segment, for the offset map
    log_sample           windows of a segment, for an estimate
    key_indexing         the key index of a segment, while it is read or written
    segment_latest       the latest value of each key of a segment
    segment_check        reads a live segment again and reports what is wrong
    group_rewrite        a group of segments into one
    rewritten_window     what one window of a segment becomes
    index_reason         whether a segment that loses nothing is rewritten for its indexes
    group_output         the new segments of a group, several if one would be too large
    producer_replay      the producers' state at any offset
    segment_writer       writes a new segment and the files beside it
    written_records      digests of the records that a segment has within a span
    segment_copy         copies a segment under a new id, and verifies the copy
    broker_upload        a segment as a broker uploads it
    log_windows          a log in windows of whole batches, read in ranges
    window               batches that are decoded together
    chosen_batches       only the batches that a rewrite needs
    log_pieces           a log in pieces of bounded size
    arrow_records        records as Arrow columns
    lookahead            windows of a segment on several threads
"""
