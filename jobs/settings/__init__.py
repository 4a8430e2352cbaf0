"""settings: what a topic's settings are, and who set them.

    definitions      every setting: Kafka's name, its kind, its default
    kinds            what a value may be
    layers           defaults, the user's files, `--set`
    resolution       which layer wins
    broker_names     names that only brokers use
    remarks          settings that are probably a mistake
    reference_page   makes docs/settings.md
"""
