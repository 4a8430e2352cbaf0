"""discovery: which segments belong to a partition's log.

    listing            the names and sizes in a partition's folder
    view               one partition as planning sees it, or why it is refused
    served             a row that names a cluster is changed only with that cluster
    checkpoint_chains  the lineage that checkpoints make together
    ownership          whose the objects of an unknown segment are
    histories          which history of the log an unknown segment belongs to, by its leader epochs
    holes              gaps between segments: holes, or missing segments
    overlaps           uploads that share offsets: which are used, and from which offset on
    facts              what is read of a partition before a decision
    refusals           why it is refused for its listing, its leader epochs, or a gap
    unknown_segments   which unknown segments join the log, wait, are set apart, or are orphans
"""
