"""discovery: which segments belong to a partition's log.

    listing            the names and sizes in a partition's folder
    view               one partition as planning sees it, or why it is refused
    histories          which history of the log an unknown segment belongs to, by its leader epochs
    overlaps           uploads that share offsets: which are used, and from which offset on
    unknown_segments   which unknown segments join the log, wait, are set apart, or are orphans
"""
