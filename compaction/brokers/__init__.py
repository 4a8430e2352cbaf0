"""brokers: what brokers have of a tier, as their topic `__remote_log_metadata` says.

    events                what the topic's records say
    event_bytes           their bytes, read and written
    metadata_partitions   which partition of the topic holds the events of a user partition
    broker_view           what brokers have of one partition, and which segment a look-up finds
    partition_fold        events of one partition, folded as a broker does
    metadata_fold         records of the topic, folded to a view of each partition
    metadata_size         how large the topic is, and how fast it grows
    noted_segment         a segment that a row takes from what brokers noted of it
    cluster_facts         what a cluster answers when it is asked
    epoch_ends            what brokers answer about the end of a leader epoch
    lineage               whether the tier is still the log of its brokers
    cluster_configs       settings as brokers answer them
    broker_versions       which version of Kafka brokers have at least
    topic_retention       what brokers keep of a topic, locally and in the tier
    missing_rights        rights that are missing, with the commands that grant them
    preconditions         what must hold on a cluster before a tier is compacted for it
    cluster_view          one look at a cluster: its brokers' views, and their offsets
    unnamed_writes        what runs made that brokers have and the row does not name
    beside_catalog        how what brokers have differs from what a catalog has
"""
