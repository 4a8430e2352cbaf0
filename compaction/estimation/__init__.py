"""estimation: how many bytes a run would probably remove, from a small sample of the log.

    sources       the segments that a run would rewrite, and which records may supersede others
    windows       which bytes of them are read
    sample        what was read: records with key hashes, in windows
    indexed       clean segments, by their key indexes
    habits        how keys come back, as probabilities of what a sample shows
    fit           the mixtures of habits that a sample allows, and what they say of the whole log
    estimate      the bytes that go, with an interval
"""
