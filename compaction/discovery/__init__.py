"""discovery: what is there: which segments belong to a partition's log.

    listing            what names and sizes in a partition's folder say
    view               what planning sees of one partition, or why it may see nothing
    histories          which history of the log an unknown segment belongs to, by its leader epochs
    overlaps           uploads that share offsets: which are used, and from which offset on
    unknown_segments   which unknown segments join the log; the rest wait, are set apart, or are
                       orphans
"""
