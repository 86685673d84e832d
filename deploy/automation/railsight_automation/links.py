"""Takes links out of use by gNMI Set: by routing policy at both ends, and by `enabled=false` only for a repair.

A drained port stays up, so that it can be measured. The drain policy precedes the neighbor's other policies: it lowers
the preference of routes and continues the evaluation, so that the filters of the other policies stay in effect.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from railsight_automation.commands import CommandOperation, arguments
from railsight_automation.errors import DeviceError, Refused
from railsight_automation.gnmi_client import GnmiClient
from railsight_automation.journal import Change
from railsight_automation.messages import Endpoint, Remediation
from railsight_automation.plan import Plan, Setting

_FABRIC_LINK = "fabric-link"
_KIND = "gnmi"


@dataclass(frozen=True)
class LinkParams:
    """Settings of `[links]`."""

    drain_policy: str = "GRACEFUL-SHUTDOWN"
    """A routing policy of each device: RFC 8326's community out, the lowest preference in, no result."""
    network_instance: str = "default"
    neighbors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Device -> port -> the address of the BGP neighbor; by default the neighbor is unnumbered: the port's name."""
    idle_bps: float = 100e6
    """A port below this rate is idle: a thousandth of 100 Gb/s, more than routing and LLDP send."""
    idle_s: float = 30.0
    """Longest wait until a drained link is idle, before a repair takes it down."""
    repair_command: tuple[str, ...] = ()
    """Repairs a link; its arguments are the target's id and ends, and exit status 0 means that the link is repaired."""
    repair_s: float = 540.0
    """Longest time of a repair, below the ten minutes that `decide` waits for an answer."""


@dataclass(frozen=True)
class _Leaf:
    client: GnmiClient
    device: str
    path: str

    @property
    def address(self) -> str:
        return f"{_KIND}:{self.device}:{self.path}"

    async def read(self) -> Any:
        return await self.client.get(self.device, self.path)

    async def write(self, value: Any) -> None:
        await self.client.set(self.device, self.path, value)


@dataclass(frozen=True)
class PolicySetting(_Leaf):
    """An import or export policy of a BGP neighbor, a list of names."""

    policy: str

    async def read(self) -> list[str]:
        return list(await super().read() or [])

    async def write(self, value: list[str]) -> None:
        await super().write(value or None)

    def out(self, present: list[str], remediation_id: str) -> list[str]:
        return present if self.policy in present else [self.policy, *present]

    def back(self, present: list[str], change: Change) -> list[str]:
        return list(change.prior) if present == change.written else [name for name in present if name != self.policy]

    def is_own(self, present: list[str], change: Change) -> bool:
        return self.policy in present

    def is_out(self, present: list[str]) -> bool:
        return self.policy in present


class EnabledSetting(_Leaf):
    """The leaf `enabled` of a port; a missing value is true, as in OpenConfig."""

    async def read(self) -> bool:
        value = await super().read()
        return True if value is None else bool(value)

    def out(self, present: bool, remediation_id: str) -> bool:
        return False

    def back(self, present: bool, change: Change) -> bool:
        return bool(change.prior)

    def is_own(self, present: bool, change: Change) -> bool:
        return not present

    def is_out(self, present: bool) -> bool:
        return not present


class Links:
    """Plans the actions on links."""

    actions = ("DRAIN_LINK", "RESTORE_LINK", "REPAIR_LINK")
    kind = _KIND

    def __init__(self, client: GnmiClient, params: LinkParams) -> None:
        self._client = client
        self._params = params

    def plan(self, remediation: Remediation) -> Plan:
        """Return the settings of both ends; a host's end has no gNMI, so its link needs only the switch's end."""
        if remediation.action == "REPAIR_LINK" and not self._params.repair_command:
            raise Refused("REPAIR_LINK is not configured: it is a ticket for people; set links.repair_command")
        ends = self._ends(remediation)
        policies = tuple(
            PolicySetting(self._client, end.device, self._policy_path(end, name), self._params.drain_policy)
            for end in ends
            for name in ("export-policy", "import-policy")
        )
        enabled = tuple(EnabledSetting(self._client, end.device, _port_path(end, "config/enabled")) for end in ends)
        if remediation.action == "DRAIN_LINK":
            return Plan(policies)
        if remediation.action == "RESTORE_LINK":
            return Plan(policies, enabled)
        command = (*self._params.repair_command, *arguments(remediation))
        return Plan(policies, enabled, self._until_idle(ends), CommandOperation(command, self._params.repair_s))

    def at(self, address: str) -> Setting:
        """Return the setting of a journaled change."""
        _, device, path = address.split(":", 2)
        if device not in self._client.devices:
            raise Refused(f"{device} is not among the gNMI targets any more")
        if path.endswith("/enabled"):
            return EnabledSetting(self._client, device, path)
        return PolicySetting(self._client, device, path, self._params.drain_policy)

    def _ends(self, remediation: Remediation) -> list[Endpoint]:
        ends = [end for end in (remediation.a, remediation.z) if end is not None and end.port]
        known = [end for end in ends if end.device in self._client.devices]
        missing = [end.device for end in ends if end not in known]
        if not known or (missing and remediation.role == _FABRIC_LINK) or len(ends) != 2:
            raise Refused(f"{remediation.target_id}: no gNMI target for {', '.join(missing) or 'an end without port'}")
        return known

    def _policy_path(self, end: Endpoint, name: str) -> str:
        neighbor = self._params.neighbors.get(end.device, {}).get(end.port, end.port)
        return (
            f"/network-instances/network-instance[name={self._params.network_instance}]/protocols"
            f"/protocol[identifier=BGP][name=BGP]/bgp/neighbors/neighbor[neighbor-address={_key(neighbor)}]"
            f"/apply-policy/config/{name}"
        )

    def _until_idle(self, ends: list[Endpoint]) -> Callable[[], Awaitable[None]]:
        async def wait() -> None:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + self._params.idle_s
            before, at = await self._octets(ends), loop.time()
            while True:
                await asyncio.sleep(min(1.0, self._params.idle_s / 4))
                after, now = await self._octets(ends), loop.time()
                rate = 8 * max(b - a for a, b in zip(before, after, strict=True)) / (now - at)
                if rate < self._params.idle_bps:
                    return
                if now > deadline:
                    raise DeviceError(f"the drained link still carries {rate / 1e9:.2f} Gb/s: no other path has room")
                before, at = after, now

        return wait

    async def _octets(self, ends: list[Endpoint]) -> list[int]:
        paths = [(end, f"state/counters/{name}") for end in ends for name in ("in-octets", "out-octets")]
        values = [await self._client.get(end.device, _port_path(end, path), is_state=True) for end, path in paths]
        if None in values:
            raise DeviceError("a port has no octet counters, so that it cannot be shown to be idle")
        return [int(value) for value in values]


def _port_path(end: Endpoint, path: str) -> str:
    return f"/interfaces/interface[name={_key(end.port)}]/{path}"


def _key(value: str) -> str:
    """Return the value of a key in a path; a bracket in the name of a port ends no key."""
    return value.replace("\\", "\\\\").replace("]", "\\]")
