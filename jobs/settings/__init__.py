"""settings: a topic's settings, and where each value comes from.

    definitions       every setting: Kafka's name, its kind, what it does
    kinds             the allowed values
    store_table       options of the object store in the user's file
    given_layout      a tier's layout, as the user describes it
    cluster_table     the cluster, as the user names it
    publishing        whether a run publishes to the cluster, and how
    rsm_config        reads the broker's properties of Aiven's plugin
    rsm_place         where these properties say that brokers write to
    layers            reads defaults, the user's file, `--set`; knows names that only brokers use
    owner_labels      labels of topics by owner, for metrics and documents
    kafka_topics      a topic's settings as annotations of its resource of Strimzi
    cluster_layer     a topic's settings as the cluster has them
    resolution        decides which layer takes effect
    cluster_settings  settings of topics with what their cluster says
    beside_cluster    what the cluster has for a topic, beside what tierfold uses
    remarks           settings that are probably a mistake
"""
