"""host/gpu-fault: a GPU breaks: the driver reports an Xid, and two that follow from it."""

from lab.world.effects import Effect, Interval
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.ground_truth import EVENT_TOLERANCE_S, GroundTruth, InjectedFault, Truth
from lab.world.host_agents import GPUS_PER_HOST, gpu_address, xid_event
from streams.wire.models import Condition

_S = 10**9
_XIDS = (48, 62, 64, 74, 79, 94, 95, 119, 92, 63)
_FOLLOWING_XIDS = (45, 154)


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Break one GPU of a host without a broken GPU."""
    rng = placer.rng
    device, interval = placer.host_for_gpu_fault(within, (300, 900))
    code, gpu = int(rng.choice(_XIDS)), gpu_address(int(rng.integers(GPUS_PER_HOST)))
    host = placer.fabric.devices[device]
    codes = [(0.0, code), *((float(rng.uniform(0.1, 20)), int(rng.choice(_FOLLOWING_XIDS))) for _ in range(2))]
    effects: list[Effect] = [
        xid_event(host, gpu, xid, interval.start_ns + round(after_s * _S), number + 1)
        for number, (after_s, xid) in enumerate(codes)
    ]
    truth = Truth(*interval, Condition.HOST_GPU_FAULT, host, gpu, EVENT_TOLERANCE_S)
    return InjectedFault((GroundTruth(truth, interval.start_ns),), tuple(effects), f"xid {code}")


HOST_GPU_FAULT = Fault(Condition.HOST_GPU_FAULT, inject)
