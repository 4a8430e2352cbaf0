"""discovery: which segments belong to a partition's log.

    listing            the names and sizes in a partition's folder
    ownership          whose the objects of an unknown segment are
    candidates         unknown segments, and what is known of them, whatever it is known from
    checkpoint_chains  the lineage that checkpoints make together
    histories          which history of the log a candidate belongs to, by its leader epochs
    holes              gaps between segments: holes, or missing segments
    overlaps           uploads that share offsets: which are used, and from which offset on
    phases             what brokers have of a segment that no row names
    lost_replacements  what runs deleted, brokers read again, and others have
    metadata_loss      what a metadata topic that has lost records no longer says
    facts              what is read of a partition before a decision
    refusals           why it is refused for its listing, its leader epochs, or a gap
    refused_by_brokers why it is refused for what brokers have of it
    refused_by_lineage why it is refused for what brokers answer about its leader epochs
    draft              which candidates are taken if their overlaps agree
    notes              which candidates are kept and not read, and why
    drafted_view       which candidates join the log, wait, are set apart, or are orphans
    view               one partition as planning sees it, or why it is refused
    broker_refusals    a partition whose cluster is not set up for compaction
    identity           whether cluster, catalog and tier are those that were noted
    served             a row that names a cluster is changed only with that cluster
"""
