"""A small fabric of two pods, made row by row, so that a test knows its content.

Each pod has two leaves (planes 0 and 1) and two hosts, each with rail 0 on both planes; four spines join all leaves.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

from streams.fabric.inventory import Device, Inventory, Job, Link, PortName, digest
from streams.fabric.topology import Topology
from streams.wire.stage import Stage

PODS, SPINES = ("p1", "p2"), ("s1", "s2", "s3", "s4")


def link(a: str, z: str, role: str = "fabric-link", **more: object) -> Link:
    """A link from `device/port` to `device/port`."""
    (a_device, a_port), (z_device, z_port) = (end.split("/", 1) for end in (a, z))
    return Link(a_device, a_port, z_device, z_port, role, **more)  # type: ignore[arg-type]


def job(name: str, device: str, start: str, end: str | None = None) -> Job:
    """A job's stay on a device."""
    return Job(
        job=name, device=device, start=datetime.fromisoformat(start), end=datetime.fromisoformat(end) if end else None
    )


def inventory(
    *, ports: Sequence[PortName] = (), jobs: Sequence[Job] = (), maintenance: Sequence[str] = (), until: str = ""
) -> Inventory:
    """The fabric; devices named in `maintenance` are in it until then."""
    devices, links = [], []

    def device(name: str, kind: str, tier: str, **more: object) -> None:
        busy = {"maintenance_until": datetime.fromisoformat(until)} if name in maintenance else {}
        devices.append(Device(name, kind, tier, **more, **busy))  # type: ignore[arg-type]

    for spine in SPINES:
        device(spine, "switch", "T1")
    for pod in PODS:
        for plane in (0, 1):
            leaf = f"{pod}-l{plane}"
            device(leaf, "switch", "T0", pod=pod, plane=plane, site="x", team="net")
            links += [link(f"{leaf}/u{n}", f"{spine}/{leaf}") for n, spine in enumerate(SPINES)]
        for number in (1, 2):
            host = f"{pod}-h{number}"
            device(host, "host", "host", pod=pod, gpus=8)
            links += [link(f"{p}-l{n}/d{number}", f"{host}/e{n}", "host-link", rail=0, plane=n)
                      for p in (pod,) for n in (0, 1)]  # fmt: skip
    return Inventory(devices=tuple(devices), links=tuple(links), ports=tuple(ports), jobs=tuple(jobs))


def topology(own: Inventory | None = None) -> Topology:
    """The look-ups over it."""
    own = own or inventory()
    return Topology(own, digest(own))


S = TypeVar("S", bound=Stage)


def begun(stage: S, top: Topology | None = None, state: bytes | None = None, epoch: int = 1) -> S:
    """Return a stage that an owner begins, restored from a state if given; the fabric is the small one by default."""
    stage.start_epoch(epoch)
    if state is not None:
        stage.restore(state)
    stage.set_topology(top or topology())
    return stage
