"""model: the types that every other package uses.

    units                  offset spans and sizes
    hash_key               the secret with which a run hashes record keys
    segment_ids            Kafka's ids as text, and the marks in those that tierfold made
    segments               partition, segment, and the catalog's row of a partition
    kept_sums              the sums that a commit stores with a row
    origins                who wrote a segment, whose bytes it has, who names it
    bindings               who serves the tier, as a run knows it
    serving                what a row says for the brokers that serve the partition
    passes                 which passes consumers have seen long enough
    tier_service           what the tier says of its cluster and catalog, and where it stands
    spared_bytes           superseded bytes that rounds left in live segments
    rules                  the effective settings of one topic
    kafka_versions         the versions of Kafka that this release was compared with
    strategies             the compaction strategies of a partition
    producers              a producer's state, as the producer snapshot stores it
    aborted_transactions   an aborted transaction, as the transaction index lists it
    leader_epochs          which leader epochs a segment holds
    cleaner_vectors        the cleaner offset by leader epoch
    rights                 rights of Kafka's authorizer
    refusal_parts          what is wrong where a partition is refused
    outcomes               how a claim or a commit ends
    errors                 the errors, by who must act
    redaction              text that is safe to show: no secrets, no terminal escapes
    wording                how messages and tables write numbers
"""
