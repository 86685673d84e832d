"""`railsight persist`: writes every topic to ClickHouse until Ctrl-C or SIGTERM."""

from streams.cli.options import Bootstrap, Config, settings_of


def persist(config: Config = None, bootstrap: Bootstrap = None) -> None:
    """Store the records of Kafka, each row once; several instances share the partitions."""
    from streams.store.persist.serve import run

    settings = settings_of(config, bootstrap)
    run(settings.store, settings.kafka.client_options(), settings.persist)
