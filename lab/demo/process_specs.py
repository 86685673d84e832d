"""Defines the options of one demo run, the configuration file and the command lines of its processes."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.constants import command_with
from lab.demo import acting
from lab.demo.player import Playback
from streams.fabric.inventory import Inventory
from streams.replay.score import Truth
from streams.runtime.local_pipeline import ServerAddresses, railsight_command
from streams.runtime.supervise import Part


@dataclass(frozen=True, slots=True)
class PlaybackPlan:
    """A recording that replaces the simulated fabric."""

    playback: Playback
    inventory: Inventory
    speed: float
    truths: tuple[Truth, ...] | None = None


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """Options of one run."""

    folder: Path
    seconds: float = 60.0
    seed: int = 1
    """The seed of the simulated fabric's faults."""
    playback: PlaybackPlan | None = None
    alertmanager: str | None = None
    act: bool = False
    """Automation carries out remediations that `decide` approves; the simulated links flap until they are repaired."""
    disturb: bool = False
    """Also disturb what acts (disturbances.py)."""
    grafana: bool = False
    """A Grafana shows the boards: the one at GRAFANA_URL, or one from PATH."""
    without_sandbox: bool = False
    planes: int | None = None
    """The planes of each NIC of the simulated fabric; None for a fabric whose planes begin at the spines."""


CONFIG = "railsight.toml"
INSTANCE = "one"
"""The only worker; with a fixed name it gets its partitions back at once after a kill."""
TARGETS = "sim/targets.json"
HOSTS = "sim/hosts.json"
TRUTH = "sim/truth.csv"
ACKNOWLEDGED = "acknowledged.json"
"""The file of the numbers of records that Kafka acknowledged; the check for losses compares with it."""


def write_config(folder: Path, servers: ServerAddresses, plan: DemoPlan) -> Path:
    """Write the configuration that all parts of this run share, as a user would write it."""
    lines = [
        *servers.kafka_lines(),
        "[store]",
        f'url = "{servers.clickhouse}"',
        f'password_file = "{servers.clickhouse_password_file}"',
        "[runtime]",
        f'data = "{folder / "faust"}"',
    ]
    if plan.playback is None:
        if plan.act:
            lines += acting.toml_lines()
        if plan.act or plan.planes:
            lines += ["[collect.sim.shape]", "pods = 1", 'planes_at = "nics"']
        if plan.planes:
            lines += [f"planes = {plan.planes}", "hosts = 3", "spines = 1"]
        lines += [
            "[collect.sim]",
            f'scenario = "{"repairs" if plan.act else "demo"}"',
            f'folder = "{folder / "sim"}"',
            f"faults_s = {plan.seconds}",
            f"seed = {plan.seed}",
            # No collector reads the other interfaces here, and sysfs trees cost a tenth of a core.
            f"interfaces = {['gnmi'] if plan.act else ['gnmi', 'kernel-log']}",
            "[collect.gnmi]",
            f'targets_file = "{folder / TARGETS}"',
            "cadence_s = 2",
        ]
    if plan.alertmanager is not None:
        lines += ["[notify]", f'alertmanagers = ["{plan.alertmanager}"]']
    path = folder / CONFIG
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def setup_parts(config: Path) -> Iterator[Part]:
    """Yield the commands that run once before the pipeline starts."""
    for name in ("topics", "migrate"):
        yield Part(name, railsight_command(name, "--config", str(config)))


def pipeline_parts(config: Path, plan: DemoPlan) -> Iterator[Part]:
    """Yield the processes of the pipeline, which are the same for every source of telemetry."""
    yield Part("process", command_with(_constants(plan), "process", "--config", str(config), "--instance", INSTANCE))
    yield Part("persist", railsight_command("persist", "--config", str(config)))
    if plan.alertmanager is not None:
        yield Part("notify", railsight_command("notify", "--config", str(config)))


def _constants(plan: DemoPlan) -> Mapping[str, object]:
    if plan.playback is not None:
        # A recording's times are long past: the player, not the clock, advances the watermark.
        return {"runtime.wall_clock_ticks": False}
    return acting.CONSTANTS if plan.act else {}


def simulator_part(config: Path, settle_s: float) -> Part:
    """Return the simulated fabric, whose first fault starts `settle_s` after the fabric."""
    constants = {"collect.sim.settle_s": round(settle_s, 1)}
    return Part("sim", command_with(constants, "collect", "sim", "--config", str(config)))


def collector_part(config: Path) -> Part:
    """Return the collector that reads the simulated fabric."""
    counted = config.with_name(ACKNOWLEDGED)
    return Part("gnmi", railsight_command("collect", "gnmi", "--config", str(config), "--acknowledged", str(counted)))


def host_part(config: Path) -> Part:
    """Return the collector that reads the kernel log of the first host, which has a broken GPU in the simulation."""
    folder = config.parent
    host = json.loads((folder / HOSTS).read_bytes())[0]
    settings = {
        "device": host["name"], "root": folder / "sim/hosts", "kernel_log": host["kernel_log"],
        "state_file": folder / "host.json",
    }  # fmt: skip
    given = (f"--set={name}={value}" for name, value in settings.items())
    return Part("host", railsight_command("collect", "host", "--config", str(config), *given))
