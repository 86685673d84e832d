"""`railsight process [STAGE]`: runs one stage of the pipeline, or all four in one process, until a signal."""

from typing import Annotated

import typer

from streams.cli.options import Bootstrap, Config, settings_of
from streams.wire.access import PROCESS

MetricsPort = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Serve metrics and health on this loopback port; 0: a free one.")
]


def process(
    stage: Annotated[
        str | None, typer.Argument(help="measure, correlate, attribute or decide; default: all of them.")
    ] = None,
    config: Config = None,
    bootstrap: Bootstrap = None,
    metrics_port: MetricsPort = None,
    instance: Annotated[
        str | None,
        typer.Option(help="Unique name of this worker: with it, it gets its partitions back at once after a kill."),
    ] = None,
) -> None:
    """Run one stage, or all of them; several workers of one stage share its partitions.

    Examples: `railsight process --config railsight.toml`, `railsight process measure --metrics-port 9101`.
    """
    from streams.config.stages import stage_factory
    from streams.runtime.serve import run_stages
    from streams.wire.topics import STAGES

    settings = settings_of(config, bootstrap, PROCESS if stage is None else stage)
    given = {"metrics_port": metrics_port, "instance": instance}
    runtime = settings.runtime.model_copy(update={name: value for name, value in given.items() if value is not None})
    names = STAGES if stage is None else (stage,)
    stages = {name: stage_factory(name, settings) for name in names}
    run_stages(stages, settings.kafka, runtime, health=settings.health)
