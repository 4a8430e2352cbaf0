"""diagnosis: what is wrong with a tier and its cluster, for people who may never compact it.

    findings      one illness: its code, how bad it is, what to do
    examined      what is known of one partition, before it is diagnosed
    uploads       uploads and deletions that brokers never finished, and unfinished swaps
    objects       objects that are missing, and objects that nothing needs
    offsets       offsets that consumers cannot read, overlaps, many small segments
    marks         what other verbs refuse, and what other catalogs made
    cluster       how a cluster and its topics are set up, and its metadata topic
    diagnosis     all of it
"""
