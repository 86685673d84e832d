"""Disturbs a demo that acts: `railsight demo --act --disturb`, and checks what follows.

A person approves a drain of a host's link, whose repair waits then too. The automation is killed between the drain and
its answer (dying_automation.py), while it does nothing else; the port gets another name in the inventory; and a person
repairs the link and removes the drain, and reports neither.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import grpc

from collectors.gnmi.paths import from_text, to_message
from collectors.gnmi.v1 import gnmi_pb2
from lab.demo.state import DemoState
from lab.servers.repair import address, repair
from streams.detect.evidence.subjects import subject_ends
from streams.runtime.local_pipeline import railsight_command
from streams.wire.models import Action, Remediation
from streams.wire.models import RemediationState as State

MARK = "victim"
"""The file with the id of the drain before whose answer the automation is killed."""
LEAST_S = 200.0
"""A drain that waits, its rename and its return, which the automation reports after two readings in a minute."""
_TIMEOUT_S = 10.0
_POLL_S = 0.2
_RENAMED = "-a"
_NEIGHBOR = (
    "/network-instances/network-instance[name=default]/protocols/protocol[identifier=BGP][name=BGP]/bgp/neighbors"
)


class Disturbances:
    """Disturbs one demo; `lines` has what was done and what followed, `problems` what did not follow."""

    def __init__(self, folder: Path, config: Path, state: DemoState) -> None:
        self._folder, self._config, self._state = folder, config, state
        self._approved = self._target = self._renamed = ""

    async def run(self) -> None:
        """Approve, rename and return a drain of a host's link; waits for each step until it is cancelled."""
        waiting = await self._until(lambda one: one.state is State.WAITING and one.target.role == "host-link")
        self._approved, self._target = waiting.id, waiting.target.id
        while self._is_acting():  # noqa: ASYNC110 — nothing sets an event
            await asyncio.sleep(_POLL_S)
        (self._folder / MARK).write_text(waiting.id, encoding="utf-8")
        await self._command("approve", waiting.id, "--reason", "demo")
        await self._until(lambda one: one.id == waiting.id and one.state is State.DRAINED)
        ends = subject_ends(waiting.target)
        switch = ends[1]
        await self._rename(switch.device, switch.port)
        renamed = await self._until(lambda one: one.id == waiting.id and one.target.id != self._target)
        self._renamed = renamed.target.id
        await asyncio.to_thread(self._repair_by_hand, [f"{end.device}:{end.port}" for end in ends])

    def lines(self) -> Iterator[str]:
        """Yield what was done, with the states that followed."""
        killed = "killed" if self._is_killed() else "not killed"
        yield f"automation {killed} between a drain and its answer: {_states(self._drain())}"
        yield f"drained link with another name: {self._renamed or 'none'}"
        yield f"its drain removed by another party: {_states(self._returned())}"

    def problems(self) -> Iterator[str]:
        """Yield a line for each disturbance that was not made, or whose effect is not the promised one."""
        drain, returned = self._drain(), self._returned()
        if not self._is_killed():
            yield "the automation was not killed: no drain of a host's link waited, or the automation was never idle"
        if [one.state for one in drain[:4]] != [State.WAITING, State.APPROVED, State.ACCEPTED, State.DRAINED]:
            yield f"the drain before whose answer the automation was killed is {_states(drain)}"
        if self._accepted_times() != 1:
            yield f"the automation accepted that drain {self._accepted_times()} times"
        if [one.state for one in returned[:2]] != [State.DRAINED, State.PROBATION]:
            yield f"the drain that was renamed and removed by another party is {_states(returned)}"
        elif not returned[1].reason.startswith("changed by others"):
            yield f"the drain that another party removed is on probation because: {returned[1].reason}"

    def _is_killed(self) -> bool:
        return (self._folder / MARK).with_suffix(".killed").exists()

    def _is_acting(self) -> bool:
        """Return True while the automation may have something to do."""
        latest = {one.id: one for one in self._state.decisions if one.action is not Action.OBSERVE}
        return any(one.state in (State.APPROVED, State.ACCEPTED) for one in latest.values())

    def _drain(self) -> list[Remediation]:
        return [one for one in self._state.decisions if one.id == self._approved]

    def _returned(self) -> list[Remediation]:
        """Return the revisions of the renamed drain under its new name."""
        return [one for one in self._drain() if self._renamed and one.target.id == self._renamed]

    def _accepted_times(self) -> int:
        journal = self._folder / "automation-journal.jsonl"
        entries = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines() if line]
        accepted = [entry["remediation"]["id"] for entry in entries if entry["kind"] == "accepted"]
        return accepted.count(self._approved)

    async def _until(self, is_wanted: Callable[[Remediation], bool]) -> Remediation:
        while (found := next(filter(is_wanted, self._drains()), None)) is None:  # noqa: ASYNC110 — nothing sets an event
            await asyncio.sleep(_POLL_S)
        return found

    def _drains(self) -> Iterable[Remediation]:
        return (one for one in self._state.decisions if one.action is Action.DRAIN_LINK)

    async def _rename(self, device: str, port: str) -> None:
        """Publish an inventory with another name of a port; the device reports the former name, which is an alias."""
        inventory = self._folder / "sim/inventory"
        links = (inventory / "links.csv").read_text(encoding="utf-8")
        renamed = links.replace(f",{device},{port},", f",{device},{port}{_RENAMED},")
        (inventory / "links.csv").write_text(renamed, encoding="utf-8")
        with (inventory / "ports.csv").open("a", encoding="utf-8") as ports:
            ports.write(f"{device},{port}{_RENAMED},{port},\n")
        await self._command("inventory", "apply", str(inventory), "--yes")

    async def _command(self, *arguments: str) -> None:
        """Run a command of railsight as in a second terminal; its output is in the log of the demo's folder."""
        with (self._folder / "disturbances.log").open("ab") as log:
            command = railsight_command(*arguments, "--config", str(self._config))
            process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
            try:
                await process.wait()
            except asyncio.CancelledError:
                process.kill()
                await process.wait()
                raise

    def _repair_by_hand(self, ends: list[str]) -> None:
        """Take the link down, repair it, and return it without its drain."""
        targets = json.loads((self._folder / "sim/targets.json").read_bytes())
        addresses = {one["name"]: one["address"] for one in targets}
        read = [end.split(":", 1) for end in ends if end.partition(":")[0] in addresses]
        for is_enabled in (False, True):
            for device, port in read:
                path = f"/interfaces/interface[name={port}]/config/enabled"
                value = gnmi_pb2.TypedValue(json_ietf_val=json.dumps(is_enabled).encode())
                update = gnmi_pb2.Update(path=to_message(from_text(path)), val=value)
                _set(addresses[device], gnmi_pb2.SetRequest(replace=[update]))
            if not is_enabled:
                repair(address(self._folder / "sim"), *ends)
        for device, port in read:
            policies = f"{_NEIGHBOR}/neighbor[neighbor-address={port}]/apply-policy/config"
            paths = [to_message(from_text(f"{policies}/{name}-policy")) for name in ("export", "import")]
            _set(addresses[device], gnmi_pb2.SetRequest(delete=paths))


def _set(at: str, request: gnmi_pb2.SetRequest) -> None:
    with grpc.insecure_channel(at) as channel:
        call: grpc.UnaryUnaryMultiCallable[gnmi_pb2.SetRequest, bytes] = channel.unary_unary(
            "/gnmi.gNMI/Set", gnmi_pb2.SetRequest.SerializeToString
        )
        call(request, timeout=_TIMEOUT_S)


def _states(revisions: Iterable[Remediation]) -> str:
    return " → ".join(one.state.name for one in revisions) or "not there"
