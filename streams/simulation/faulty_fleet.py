"""What goes wrong with a fleet: some devices run another version than all others."""

from contextlib import suppress

from streams.simulation.effects import Interval, VersionChange
from streams.simulation.facts_source import NIC, OPTICS, SOFTWARE
from streams.simulation.fault_placement import FaultPlacer, NoRoom
from streams.simulation.ground_truth import GroundTruth, InjectedFault, Truth
from streams.wire.models import Condition

_S = 10**9
_TOLERANCE_S = 180.0
"""A change is dated by the word that tells of it, and counted with its minute."""
_ASKED_NS, _MINUTE_NS = 20 * _S, 60 * _S
"""All are asked in one minute, by one who goes round."""


def drift(places: FaultPlacer, within: Interval) -> InjectedFault:
    """One to three hosts or switches are given another firmware, and later that of all others again."""
    chance = places.chance
    kinds = [(NIC, NIC, SOFTWARE, OPTICS)[int(chance.integers(4))], NIC]
    for kind in kinds:
        of = places.devices("host") if kind == NIC else [*places.devices("T0"), *places.devices("T1")]
        with suppress(NoRoom):  # switches are few: where enough of them run something else already, it is hosts
            devices, span = places.drifting_devices(kind, of, within, (600, 1200))
            break
    else:
        raise NoRoom("too many devices run another version already: a longer time or a larger fabric is needed")
    version = f"0.{int(chance.integers(100))}.{int(chance.integers(10**6))}"
    names = tuple(sorted(places.plant.devices[device] for device in devices))
    truth = Truth(span.start_ns, span.end_ns, Condition.FLEET_VERSION_DRIFT, names[0], "", _TOLERANCE_S)
    start_ns, end_ns = ((at_ns // _MINUTE_NS + 1) * _MINUTE_NS + _ASKED_NS for at_ns in span)
    return InjectedFault(
        (GroundTruth(truth, start_ns, devices=names),),
        (VersionChange(devices, kind, version, span, (start_ns, end_ns)),),
        kind,
    )
