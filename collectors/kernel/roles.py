"""Decides whether a port is a fabric or a management port, by the host's own evidence. Pure; settings take precedence.

A management NIC is not a fabric NIC (DETECTION 1), and neither names nor speeds alone decide: a fabric port that
trained low must remain one.
"""

from collections.abc import Iterable, Sequence

from collectors.kernel.ports import Port, Role

_MUCH_SLOWER = 4
"""A card of another model with at most this fraction of the fastest port's speed carries other traffic: 100G beside
400G. Half the speed is one generation within a fabric, and a slow port of the same model is degraded."""


def roles(
    ports: Sequence[Port], fabric: Iterable[str] = (), management: Iterable[str] = ()
) -> dict[str, tuple[Role, str]]:
    """Return (role, evidence) by identity."""
    fabric, management = tuple(fabric), tuple(management)
    rdma = [port for port in ports if port.rdma and not port.is_virtual]
    without_route = [port for port in rdma if not port.has_default_route]
    compared = without_route or rdma
    fastest = max((port.speed_bps or 0.0 for port in compared), default=0.0)
    models = {_model(port) for port in compared if port.speed_bps == fastest and fastest}
    found = {}
    for port in ports:
        if port.matches(fabric):
            found[port.identity] = Role.FABRIC, "configured in the settings"
        elif port.matches(management):
            found[port.identity] = Role.MANAGEMENT, "configured in the settings"
        else:
            found[port.identity] = _role(port, fastest, models, others_are_free=bool(without_route))
    return found


def _role(port: Port, fastest: float, models: set[str], *, others_are_free: bool) -> tuple[Role, str]:
    if port.is_virtual:
        return Role.VIRTUAL, "no port of its own"
    if not port.rdma:
        return Role.MANAGEMENT, "no RDMA device"
    if port.link_layer == "InfiniBand":
        return Role.FABRIC, "InfiniBand"
    if port.has_default_route and others_are_free:
        return Role.MANAGEMENT, "carries the default route, and other RDMA ports do not"
    if port.speed_bps and port.speed_bps * _MUCH_SLOWER <= fastest and _model(port) not in models:
        return Role.MANAGEMENT, f"{port.speed_bps / 1e9:.0f}G beside {fastest / 1e9:.0f}G of another model"
    return Role.FABRIC, "RDMA over Ethernet"


def _model(port: Port) -> str:
    return f"{port.model}/{port.board}"
