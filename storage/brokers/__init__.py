"""brokers: what a Kafka cluster answers, and the one door by which events are sent to it.

    login_modules      reads `sasl.jaas.config`, in which Java's clients have users and passwords
    client_names       says which names of a client's settings are taken, refused or ignored
    client_files       checks the files of certificates and keys that settings name
    client_settings    settings of a client as librdkafka takes them
    broker_errors      says why a cluster does not answer, and which right is missing
    tls_probe          asks a port whether it speaks TLS, and why its certificate is not trusted
    reported_failures  finds the cause in what librdkafka reports while it tries again
    connection         connects to a cluster, and waits for each answer only so long
    facts              asks for topics, settings and offsets
    epoch_ends         asks where leader epochs end
    cluster_setup      asks how a cluster and its topics are set up
    metadata_reader    reads the metadata topic to its end
    event_door         sends events to the metadata topic; nothing else can write to it
    log_start_door     asks brokers to move a log start; nothing else can
    event_pace         says how long events wait, so that not too many are sent a second
    send_refusals      says why brokers do not take events
    record_reader      reads windows of a topic as a consumer does

`confluent_kafka` is imported here alone, and only once a verb has brokers to ask.
"""
