"""Translates the addresses of a probe report to elements of the network: links by direction, switches and hosts. Pure.

An element is named `device/port`, the link in the direction into that port, or `device`. The paths of a prober hardly
change: a layout is made once and used for all its reports with the same paths.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streams.fabric.ids import Port
from streams.wire.models import ProbeReport

Numbers = npt.NDArray[np.int64]
TO = ">"
"""Begins the name of the element that counts only the probes to a rail, without the replies that it receives."""


class FlowPath(NamedTuple):
    """The elements of a flow: its rails, and the ports at which it enters switches, -1 where one is unknown."""

    source: int
    target: int
    forward: tuple[int, ...]
    back: tuple[int, ...]


class FlowLayout(NamedTuple):
    """The elements of all flows of a report."""

    key: tuple[tuple[object, ...], ...]
    paths: tuple[FlowPath | None, ...]
    """None for a flow whose rails the inventory does not name."""
    flow: Numbers
    element: Numbers
    """Each element that a flow crosses, beside the number of the flow."""


def layout_key(report: ProbeReport) -> tuple[tuple[object, ...], ...]:
    """Return the fields that decide the layout."""
    return (
        report.address, report.flow_source, report.flow_target, report.flow_forward_hops, report.flow_reverse_hops,
        report.hop,
    )  # fmt: skip


def make_layout(report: ProbeReport, addresses: Mapping[str, Port], number: Callable[[str], int]) -> FlowLayout:
    """Return the layout of a report; `number` returns the number of an element."""
    ports = [addresses.get(address) for address in report.address]
    entered = [-1 if port is None else number(f"{port.device}/{port.port}") for port in ports]
    flows: list[int] = []
    elements: list[int] = []
    paths: list[FlowPath | None] = []
    place = 0
    for flow, (source, target) in enumerate(zip(report.flow_source, report.flow_target, strict=True)):
        middle = place + report.flow_forward_hops[flow]
        end = middle + report.flow_reverse_hops[flow]
        hops, place = (report.hop[place:middle], report.hop[middle:end]), end
        own, other = ports[source], ports[target]
        if own is None or other is None:
            paths.append(None)
            continue
        forward, back = (tuple(entered[hop - 1] if hop else -1 for hop in path) for path in hops)
        paths.append(FlowPath(entered[source], entered[target], forward, back))
        switches = [ports[hop - 1] for path in hops for hop in path if hop]
        links = (one for one in (*forward, *back, entered[source], entered[target]) if one >= 0)
        devices = [*(port.device for port in switches if port is not None), own.device, other.device]
        to_rail = f"{TO}{other.device}/{other.port}"
        crossed = dict.fromkeys((*links, *map(number, devices), number(to_rail)))
        elements += crossed
        flows += [flow] * len(crossed)
    return FlowLayout(
        layout_key(report), tuple(paths), np.array(flows, np.int64), np.array(elements, np.int64)
    )  # fmt: skip
