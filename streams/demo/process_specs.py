"""What the demo runs beside the servers: its configuration file, and the command line of each part."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from streams.runtime.process_specs import railsight_command
from streams.runtime.supervise import Part

if TYPE_CHECKING:
    from streams.demo.run import DemoPlan

CONFIG = "railsight.toml"
INSTANCE = "one"
"""There is one worker; named, it has its partitions back at once after a kill."""
TARGETS = "sim/targets.json"
TRUTH = "sim/truth.csv"
ACKNOWLEDGED = "acknowledged.json"
"""What the collector has been told that Kafka has: who proves that nothing is lost counts against it."""


def write_config(folder: Path, bootstrap: str, url: str, plan: "DemoPlan") -> Path:
    """Write the configuration that all parts of this run share; it is what a user would write."""
    lines = [
        "[kafka]",
        f'bootstrap = "{bootstrap}"',
        "[store]",
        f'url = "{url}"',
        "[runtime]",
        f'data = "{folder / "faust"}"',
    ]
    if plan.playback is not None:
        # A recording's times are long past: its player, not the clock, says how far time has come.
        lines += ["wall_clock_ticks = false"]
    else:
        lines += [
            "[collect.sim]",
            f'folder = "{folder / "sim"}"',
            f"faults_s = {plan.seconds}",
            'interfaces = ["gnmi"]',  # nobody reads the others here, and sysfs trees cost a tenth of a core to keep
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
    """What is done before anything else runs."""
    for name in ("topics", "migrate"):
        yield Part(name, railsight_command(name, "--config", str(config)))


def pipeline_parts(config: Path, alertmanager: str | None) -> Iterator[Part]:
    """What runs from then on, whatever the telemetry comes from."""
    yield Part("process", railsight_command("process", "--config", str(config), "--instance", INSTANCE))
    yield Part("persist", railsight_command("persist", "--config", str(config)))
    if alertmanager is not None:
        yield Part("notify", railsight_command("notify", "--config", str(config)))


def simulator_part(config: Path) -> Part:
    """The simulated fabric."""
    return Part("sim", railsight_command("collect", "sim", "--config", str(config)))


def collector_part(config: Path) -> Part:
    """The collector that reads it."""
    counted = config.with_name(ACKNOWLEDGED)
    return Part("gnmi", railsight_command("collect", "gnmi", "--config", str(config), "--acknowledged", str(counted)))
