"""fleet/version-drift: one to three devices run another version than all others of their kind."""

from contextlib import suppress

from lab.world.effects import Interval, VersionChange
from lab.world.facts_source import NIC, OPTICS, SOFTWARE
from lab.world.fault_placement import FaultPlacer, NoRoom
from lab.world.faults.fault import Fault
from lab.world.ground_truth import GroundTruth, InjectedFault, Truth
from streams.wire.models import Condition

_S = 10**9
_TOLERANCE_S = 180.0
"""A change is dated by the facts that report it, and counted with its minute."""
_POLLED_AFTER_NS, _MINUTE_NS = 20 * _S, 60 * _S
"""All changed devices are polled within one minute."""


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Give one to three hosts or switches another firmware for 600 to 1200 s, then the common one again."""
    rng = placer.rng
    kinds = [(NIC, NIC, SOFTWARE, OPTICS)[int(rng.integers(4))], NIC]
    for kind in kinds:
        candidates = placer.devices("host") if kind == NIC else [*placer.devices("T0"), *placer.devices("T1")]
        with suppress(NoRoom):  # switches are few: where enough of them have drifted already, hosts drift instead
            devices, interval = placer.drifting_devices(kind, candidates, within, (600, 1200))
            break
    else:
        raise NoRoom("too many devices run another version already: a longer time or a larger fabric is needed")
    version = f"0.{int(rng.integers(100))}.{int(rng.integers(10**6))}"
    names = tuple(sorted(placer.fabric.devices[device] for device in devices))
    truth = Truth(*interval, Condition.FLEET_VERSION_DRIFT, names[0], "", _TOLERANCE_S)
    start_ns, end_ns = ((at_ns // _MINUTE_NS + 1) * _MINUTE_NS + _POLLED_AFTER_NS for at_ns in interval)
    return InjectedFault(
        (GroundTruth(truth, start_ns, devices=names),),
        (VersionChange(devices, kind, version, interval, (start_ns, end_ns)),),
        kind,
    )


FLEET_VERSION_DRIFT = Fault(Condition.FLEET_VERSION_DRIFT, inject)
