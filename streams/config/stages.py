"""Makes the stages of the pipeline from the settings: the one place that knows each stage's constructor.

A stage's module is imported only by the process that runs it.
"""

import hashlib
from collections.abc import Callable

from streams.config.settings import Settings
from streams.wire.errors import Misconfigured
from streams.wire.stage import Stage
from streams.wire.topics import STAGES


def stage_factory(name: str, settings: Settings) -> Callable[[int], Stage]:
    """What makes the stage's owner of a partition; raises Misconfigured for a stage that does not exist."""
    make = _makers(settings).get(name)
    if make is None:
        raise Misconfigured(f"no such stage: {name} (there are {', '.join(STAGES)})")
    return make


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
        from streams.decide.stage import Decide

        return Decide(settings.decide)

    return dict(zip(STAGES, (measure, correlate, attribute, decide), strict=True))


def settings_digest(settings: Settings) -> str:
    """Names the thresholds and the policy that a run had: 12 digits of SHA-256 over their JSON."""
    said = settings.detect.model_dump_json() + settings.decide.model_dump_json()
    return hashlib.sha256(said.encode()).hexdigest()[:12]
