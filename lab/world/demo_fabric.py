"""Generates the demo's fabric as an inventory: pods of 8-rail hosts, rail leaves, and spines in planes above all pods.

Leaf r of a pod has rail r of every host of the pod; every leaf has `uplinks` links to every spine. A spine has no pod.
The same shape gives the same inventory.
"""

from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field

from streams.fabric.clos import ClosShape, PlanesAt, build, nic_bps
from streams.fabric.inventory import Device, Inventory, Job

RAILS = 8
_VENDOR, _SWITCH_MODEL, _HOST_MODEL = "Railsight", "RS-9264", "RS-H8"
SOFTWARE = "4.33.1F"


class DemoShape(BaseModel):
    """The size of the fabric. The default has 16 leaves and 4 spines."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pods: int = Field(default=2, ge=1)
    """The number of pods."""
    hosts: int = Field(default=4, ge=1)
    """The number of hosts in each pod."""
    planes: int = Field(default=2, ge=1)
    """The number of planes."""
    spines: int = Field(default=2, ge=1)
    """The number of spines in each plane."""
    uplinks: int = Field(default=2, ge=1)
    """The number of links from each leaf to each spine."""
    planes_at: PlanesAt = PlanesAt.SPINES
    """With `nics` every plane has its own leaves, and a NIC has a port for each plane."""


def inventory(shape: DemoShape, at_ns: int) -> Inventory:
    """Return the fabric; its jobs have been running for an hour at `at_ns`."""
    spines = shape.spines * (shape.planes if shape.planes_at is PlanesAt.SPINES else 1)
    ports = shape.planes if shape.planes_at is PlanesAt.NICS else 1
    clos = ClosShape(
        2, (shape.hosts,) * shape.pods, RAILS, shape.planes, nic_bps(ports), first_uplink=shape.hosts,
        leaf_up=spines * shape.uplinks, aggs=shape.spines, planes_at=shape.planes_at, adjacent_uplinks=True,
    )  # fmt: skip
    devices, links = build(clos, _Naming(shape.spines))
    return Inventory(devices=devices, links=links, jobs=_jobs(shape, at_ns))


class _Naming:
    """Names hosts and leaves by pod, spines by number."""

    def __init__(self, spines: int) -> None:
        self._spines = spines

    def host(self, pod: int, number: int, in_fabric: int) -> Device:
        return Device(_host(pod, number), "host", "host", _pod(pod), vendor=_VENDOR, model=_HOST_MODEL, gpus=RAILS)

    def leaf(self, pod: int, plane: int | None, rail: int, number: int) -> Device:
        plane_part = "" if plane is None else f"-plane{plane + 1}"
        return _switch(f"{_pod(pod)}{plane_part}-leaf{rail + 1}", "T0", _pod(pod), plane)

    def agg(self, pod: int | None, plane: int, number: int) -> Device:
        return _switch(f"spine{plane * self._spines + number + 1}", "T1", plane=plane)

    def top(self, plane: int, group: int, number: int) -> Device:
        raise NotImplementedError("the demo's fabric has two tiers")

    def port(self, number: int) -> str:
        return f"Ethernet{number + 1}/1"


def _pod(number: int) -> str:
    return f"pod{number + 1}"


def _host(pod: int, number: int) -> str:
    return f"{_pod(pod)}-host{number + 1}"


def _switch(name: str, tier: str, pod: str = "", plane: int | None = None) -> Device:
    return Device(
        name=name, kind="switch", tier=tier, pod=pod, plane=plane, vendor=_VENDOR, model=_SWITCH_MODEL,
        serial=f"RS-{name.upper()}", firmware=SOFTWARE,
    )  # fmt: skip


def _jobs(shape: DemoShape, at_ns: int) -> tuple[Job, ...]:
    """Return one job on every host except the last of each pod, and one on the last host of the first pod."""
    start = datetime.fromtimestamp(at_ns // 10**9, UTC) - timedelta(hours=1)
    wide = [
        Job(job="pretrain-70b", device=_host(pod, number), start=start)
        for pod in range(shape.pods)
        for number in range(shape.hosts - 1)
    ]
    return (*wide, Job(job="finetune-8b", device=_host(0, shape.hosts - 1), start=start))
