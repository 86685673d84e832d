"""Creates the stages of the pipeline from the settings; only this module calls the constructors of all stages.

A process imports only the modules of the stages that it runs.
"""

from collections.abc import Callable

from streams.config.settings import Settings
from streams.wire.errors import Misconfigured
from streams.wire.stage import Stage
from streams.wire.topics import STAGES


def stage_factory(name: str, settings: Settings) -> Callable[[int], Stage]:
    """Return the factory of a stage for a partition; raises Misconfigured for an unknown stage."""
    factory = _makers(settings).get(name)
    if factory is None:
        raise Misconfigured(f"unknown stage: {name}; available: {', '.join(STAGES)}")
    return factory


def _makers(settings: Settings) -> dict[str, Callable[[int], Stage]]:
    def measure(partition: int) -> Stage:
        from streams.detect.measure.stage import Measure

        return Measure(settings.detect, partition)

    def correlate(_partition: int) -> Stage:
        from streams.detect.correlate.stage import Correlate

        return Correlate(settings.detect)

    def attribute(_partition: int) -> Stage:
        from streams.detect.attribute.stage import Attribute

        return Attribute(settings.detect)

    def decide(_partition: int) -> Stage:
        from streams.decide.policy import load_policy
        from streams.decide.stage import Decide

        fabric, key, signer = settings.kafka.cluster, settings.decide.signing_key, None
        if key is not None:
            from streams.wire.signatures import Signer, read_private_key

            signer = Signer(read_private_key(key), fabric, "decide")
        return Decide(settings.decide, load_policy(settings.decide.policy), fabric, signer)

    return dict(zip(STAGES, (measure, correlate, attribute, decide), strict=True))
