"""The simulated fabric as an inventory: two pods of 8-rail hosts, rail leaves, and spines in planes above both pods.

Leaf r of a pod has rail r of every host of the pod; every leaf has `uplinks` links to every spine. A spine is of no
pod. Pure and without chance: the same shape is the same inventory.
"""

from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field

from streams.fabric.inventory import Device, Inventory, Job, Link

RAILS = 8
_HOST_SPEED_BPS = 400_000_000_000
_FABRIC_SPEED_BPS = 400_000_000_000
_VENDOR, _SWITCH_MODEL, _HOST_MODEL = "Railsight", "RS-9264", "RS-H8"
SOFTWARE = "4.33.1F"


class Shape(BaseModel):
    """How large the fabric is. The default has 16 leaves and 4 spines."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pods: int = Field(default=2, ge=1)
    hosts: int = Field(default=4, ge=1)
    """In each pod."""
    planes: int = Field(default=2, ge=1)
    spines: int = Field(default=2, ge=1)
    """In each plane."""
    uplinks: int = Field(default=2, ge=1)
    """From each leaf to each spine."""


def port_name(number: int) -> str:
    """A switch's port by its number from 1."""
    return f"Ethernet{number}/1"


def inventory(shape: Shape, at_ns: int) -> Inventory:
    """The fabric; its jobs have run for an hour at `at_ns`."""
    devices = [*_hosts(shape), *_leaves(shape), *_spines(shape)]
    return Inventory(
        devices=tuple(devices), links=(*_host_links(shape), *_fabric_links(shape)), jobs=_jobs(shape, at_ns)
    )


def _pods(shape: Shape) -> list[str]:
    return [f"pod{number}" for number in range(1, shape.pods + 1)]


def _hosts(shape: Shape) -> list[Device]:
    return [
        Device(name=f"{pod}-host{n}", kind="host", tier="host", pod=pod, vendor=_VENDOR, model=_HOST_MODEL, gpus=RAILS)
        for pod in _pods(shape)
        for n in range(1, shape.hosts + 1)
    ]


def _switch(name: str, tier: str, pod: str = "", plane: int | None = None) -> Device:
    return Device(
        name=name, kind="switch", tier=tier, pod=pod, plane=plane, vendor=_VENDOR, model=_SWITCH_MODEL,
        serial=f"RS-{name.upper()}", firmware=SOFTWARE,
    )  # fmt: skip


def _leaves(shape: Shape) -> list[Device]:
    return [_switch(f"{pod}-leaf{rail + 1}", "T0", pod) for pod in _pods(shape) for rail in range(RAILS)]


def _spines(shape: Shape) -> list[Device]:
    return [
        _switch(f"spine{plane * shape.spines + n}", "T1", plane=plane)
        for plane in range(shape.planes)
        for n in range(1, shape.spines + 1)
    ]


def _host_links(shape: Shape) -> list[Link]:
    return [
        Link(
            a_device=f"{pod}-host{n}", a_port=f"mlx5_{rail}", z_device=f"{pod}-leaf{rail + 1}", z_port=port_name(n),
            role="host-link", rail=rail, speed_bps=_HOST_SPEED_BPS,
        )
        for pod in _pods(shape)
        for n in range(1, shape.hosts + 1)
        for rail in range(RAILS)
    ]  # fmt: skip


def _fabric_links(shape: Shape) -> list[Link]:
    return [
        Link(
            a_device=leaf.name, a_port=port_name(shape.hosts + 1 + s * shape.uplinks + u),
            z_device=spine.name, z_port=port_name(1 + number * shape.uplinks + u),
            role="fabric-link", plane=spine.plane, speed_bps=_FABRIC_SPEED_BPS,
        )
        for number, leaf in enumerate(_leaves(shape))
        for s, spine in enumerate(_spines(shape))
        for u in range(shape.uplinks)
    ]  # fmt: skip


def _jobs(shape: Shape, at_ns: int) -> tuple[Job, ...]:
    """One job over all pods, on every host but the last of each; one on the last of the first pod."""
    start = datetime.fromtimestamp(at_ns // 10**9, UTC) - timedelta(hours=1)
    wide = [
        Job(job="pretrain-70b", device=f"{pod}-host{n}", start=start)
        for pod in _pods(shape)
        for n in range(1, shape.hosts)
    ]
    return (*wide, Job(job="finetune-8b", device=f"pod1-host{shape.hosts}", start=start))
