"""A fabric of network namespaces: two leaves and four hosts with net-snmp's agent each, and a place for railsight.

Every link passes a namespace that stands for its cable, so that a pulled cable takes the carrier of both ends, while
neither is shut by configuration. Needs root, iproute2 and snmpd.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LEAVES, HOSTS = ("leaf1", "leaf2"), ("gpu1", "gpu2", "gpu3", "gpu4")
COMMUNITY = "public"
_AGENT_S = 20.0


class SnmpFabric:
    """The running fabric; use `snmp_fabric`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._prefix = f"rs{os.getpid()}-"
        self._agents: list[subprocess.Popen[bytes]] = []
        self.noc, self.cables = f"{self._prefix}noc", f"{self._prefix}cables"

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each agent by the name of its device."""
        return {name: f"10.99.0.{number}" for number, name in enumerate((*LEAVES, *HOSTS), 11)}

    def cable(self, host: str, leaf: str) -> tuple[str, str]:
        """Return the two interfaces of a cable in the namespace of the cables."""
        number = f"{HOSTS.index(host) + 1}{LEAVES.index(leaf) + 1}"
        return f"cable{number}a", f"cable{number}z"

    def build(self) -> None:
        """Make the namespaces and links, and start the agents."""
        names = [self.noc, self.cables, *(self._prefix + device for device in self.addresses)]
        _ip("".join(f"netns add {name}\n" for name in names))
        _ip(
            "link set lo up\nlink add mgmt0 type bridge\naddr add 10.99.0.1/24 dev mgmt0\nlink set mgmt0 up\n", self.noc
        )
        for device, address in self.addresses.items():
            _ip(f"link add {device} type veth peer name mgmt netns {self._prefix}{device}\n"
                f"link set {device} master mgmt0 up\n", self.noc)  # fmt: skip
            _ip(f"link set lo up\naddr add {address}/24 dev mgmt\nlink set mgmt up\n", self._prefix + device)
        for number, host in enumerate(HOSTS, 1):
            for rail, leaf in enumerate(LEAVES, 1):
                near, far = self.cable(host, leaf)
                for name, device, port in ((near, host, f"rail{rail}"), (far, leaf, f"swp{number}")):
                    _ip(f"link add {name} type veth peer name {port} netns {self._prefix}{device}\n"
                        f"link set {name} up\n", self.cables)  # fmt: skip
                    _ip(f"link set {port} up\n", self._prefix + device)
        for device in self.addresses:
            self._start_agent(device)

    def _start_agent(self, device: str) -> None:
        config = self._folder / f"{device}.conf"
        config.write_text(f"rocommunity {COMMUNITY}\nsysName {device}\nagentaddress udp:0.0.0.0:161\n")
        state = self._folder / device
        state.mkdir()
        command = ["ip", "netns", "exec", self._prefix + device, "snmpd", "-f", "-Lo", "-C", "-c", str(config),
                   "-p", str(state / "pid")]  # fmt: skip
        with (self._folder / f"{device}.log").open("wb") as log:
            self._agents.append(subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "SNMP_PERSISTENT_DIR": str(state)}
            ))  # fmt: skip

    def wait_until_answering(self) -> None:
        """Wait for every agent; raises TimeoutError."""
        for device, address in self.addresses.items():
            deadline_s = time.monotonic() + _AGENT_S
            command = ["ip", "netns", "exec", self.noc, "snmpget", "-v2c", "-c", COMMUNITY, "-t", "1", "-r", "0",
                       address, "1.3.6.1.2.1.1.5.0"]  # fmt: skip
            while subprocess.run(command, capture_output=True, check=False).returncode:
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"the agent of {device} does not answer: {self._folder / device}.log")
                time.sleep(0.1)

    def end(self) -> None:
        """End the agents, and remove the namespaces."""
        for agent in self._agents:
            agent.terminate()
        for agent in self._agents:
            agent.wait(10)
        for name in (self.noc, self.cables, *(self._prefix + device for device in self.addresses)):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


@contextmanager
def snmp_fabric(folder: Path) -> Iterator[SnmpFabric]:
    """Yield the running fabric, whose agents answer."""
    fabric = SnmpFabric(folder)
    try:
        fabric.build()
        fabric.wait_until_answering()
        yield fabric
    finally:
        fabric.end()


def reason_not_to_run() -> str:
    """Return why the fabric cannot run here; empty if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in ("ip", "snmpd", "snmpget") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed (make peers)"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return f"no network namespaces here: {tried.stderr.strip()}" if tried.returncode else ""


def _ip(batch: str, namespace: str = "") -> None:
    command = ["ip", *(["-n", namespace] if namespace else []), "-batch", "-"]
    done = subprocess.run(command, input=batch, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
