"""What goes wrong with a fleet: some devices run another version than all others."""

from contextlib import suppress

from streams.bench.detection.effects import Runs, Span
from streams.bench.detection.facts import NIC, OPTICS, SOFTWARE
from streams.bench.detection.injection import Injection, Known
from streams.bench.detection.places import Full, Places
from streams.replay.score import Truth
from streams.wire.models import Condition

_S = 10**9
_TOLERANCE_S = 180.0
"""A change is dated by the word that tells of it, and counted with its minute."""
_ASKED_NS, _MINUTE_NS = 20 * _S, 60 * _S
"""All are asked in one minute, by one who goes round."""


def drift(places: Places, within: Span) -> Injection:
    """One to three hosts or switches are given another firmware, and later that of all others again."""
    chance = places.chance
    kinds = [(NIC, NIC, SOFTWARE, OPTICS)[int(chance.integers(4))], NIC]
    for kind in kinds:
        of = places.devices("host") if kind == NIC else [*places.devices("T0"), *places.devices("T1")]
        with suppress(Full):  # switches are few: where enough of them run something else already, it is hosts
            devices, span = places.drifting(kind, of, within, (600, 1200))
            break
    else:
        raise Full("too many devices run another version already: a longer time or a larger fabric is needed")
    version = f"0.{int(chance.integers(100))}.{int(chance.integers(10**6))}"
    names = tuple(sorted(places.plant.devices[device] for device in devices))
    truth = Truth(span.start_ns, span.end_ns, Condition.FLEET_VERSION_DRIFT, names[0], "", _TOLERANCE_S)
    start_ns, end_ns = ((at_ns // _MINUTE_NS + 1) * _MINUTE_NS + _ASKED_NS for at_ns in span)
    return Injection(
        (Known(truth, start_ns, devices=names),), (Runs(devices, kind, version, span, (start_ns, end_ns)),), kind
    )
