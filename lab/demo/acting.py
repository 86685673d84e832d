"""The part of the demo that acts: its shortened settings, the reference automation, and the texts of remediations."""

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from lab.constants import is_constant
from streams.config.kafka import KafkaSettings
from streams.config.settings import Settings
from streams.detect.evidence.subjects import subject_ends
from streams.instrument.shipped import shipped
from streams.runtime.supervise import Part
from streams.wire.errors import Misconfigured
from streams.wire.models import Action, Remediation, Verdict
from streams.wire.models import RemediationState as State

ACTOR = "demo-automation"
AUTOMATION_CONFIG = "automation.toml"
BAD_LINKS = "sim/bad-links.json"
LEAST_S = 60.0
DEFAULT_S = 140.0
"""Two relapses are drained by then, and the third waits for an approval."""

DEMO_SETTINGS: Mapping[str, float | bool | str] = {
    "detect.lateness_s": 10.0,
    "detect.flap.quiet_s": 8.0,
    "detect.link.admin_grace_s": 5.0,
    "detect.window.readings_s": 2.0,
    "decide.mode": "act",
    "decide.settle_s": 3.0,
    "decide.accept_unread_hosts": True,
    "decide.pod_cap": 4,
    "decide.fabric_cap_ratio": 0.05,
    "decide.probation_s": 30.0,
    "decide.qualification.qualify_s": 16.0,
}
"""The settings that differ from the defaults, so that a life cycle of days takes minutes in a fabric of 128 links.

16 s at 200 Gb/s are the minimum that proves `qualification.ber`. No collector reads the hosts. The caps allow three
links to be out at a time. Floors, budgets, rates, the cool-down and the number of relapses are the defaults."""

CONSTANTS = {name: value for name, value in DEMO_SETTINGS.items() if is_constant(name)}
"""The settings above that are constants of the product."""


def setting_lines() -> Iterator[str]:
    """Yield a line for each setting of the demo, with its default."""
    defaults = Settings()
    for name, value in DEMO_SETTINGS.items():
        yield f"{name} = {_text(value)} (default {_text(_value(defaults, name))})"


def toml_lines() -> Iterator[str]:
    """Yield the settings as lines of the configuration file, without constants."""
    sections: dict[str, list[str]] = {}
    for name, value in DEMO_SETTINGS.items():
        section, _, key = name.rpartition(".")
        if name not in CONSTANTS:
            sections.setdefault(section, []).append(f"{key} = {json.dumps(value)}")
    for section, lines in sections.items():
        yield f"[{section}]"
        yield from lines


def automation_part(folder: Path, kafka: KafkaSettings, targets: str, killed: str = "") -> Part:
    """Write the configuration of the reference automation, and return its process; raises Misconfigured.

    With `killed`, a file in the folder, it is killed once before an answer (dying_automation.py).
    """
    package = automation_folder()
    config = folder / AUTOMATION_CONFIG
    command = [sys.executable, "-m", "lab.servers.repair", str((folder / targets).parent)]
    config.write_text(
        "\n".join(
            [
                f"actor = {json.dumps(ACTOR)}",
                'journal = "automation-journal.jsonl"',
                "[kafka]",
                f"bootstrap = {json.dumps(kafka.bootstrap)}",
                *_login_lines(kafka),
                "[gnmi]",
                f"targets = {json.dumps(targets)}",
                "[links]",
                f"repair_command = {json.dumps(command)}",
                "",
            ]
        ),
        encoding="utf-8",
    )
    return Part(
        "automation",
        (
            "/usr/bin/env",
            f"PYTHONPATH={package}",
            sys.executable,
            "-m",
            *(("lab.demo.dying_automation", str(folder / killed)) if killed else ("railsight_automation",)),
            "--config",
            str(config),
        ),
    )


def _login_lines(kafka: KafkaSettings) -> Iterator[str]:
    """Yield the automation's login settings; which the automation reads from its own file."""
    login = {"mechanism": kafka.sasl_mechanism, "username": kafka.username, "password_file": kafka.password_file}
    yield from (f"{name} = {json.dumps(str(value))}" for name, value in login.items() if value)


def automation_folder() -> Path:
    """Return the folder of the reference automation; raise Misconfigured if it is not installed."""
    folder = shipped("deploy/automation")
    if not (folder / "railsight_automation").is_dir():
        raise Misconfigured(f"--act needs {folder}, which is missing; install the wheel, or run it in a clone")
    return folder


def answer_command(answer: str, remediation_id: str, bootstrap: str) -> str:
    """Return the command `approve` or `repaired` for a remediation, for another terminal in the same folder."""
    own = Path(sys.executable).with_name("railsight")
    program = "railsight"
    if not shutil.which(program) and own.exists():
        program = str(own.relative_to(Path.cwd()) if own.is_relative_to(Path.cwd()) else own)
    return f"{program} {answer} {remediation_id[:12]} --bootstrap {bootstrap}"


def _value(settings: object, name: str) -> object:
    for part in name.split("."):
        settings = getattr(settings, part)
    return settings


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value).lower()


_FIRST = (State.WAITING, State.ESCALATED, State.DENIED)
"""States at the top of the screen: the operator can act on them, or needs the reason why nothing happens."""


def headline(remediation: Remediation) -> str:
    """Return the id, the action and the target."""
    target = remediation.target
    ends = [f"{end.device}/{end.port}" for end in subject_ends(target)]
    return f"{remediation.id[:12]} {remediation.action.name} {' -- '.join(ends) or target.id}"


def outcome(remediation: Remediation) -> str:
    """Return the state, the guard that limited it with its number and values, and the reason."""
    parts = [part for part in (_guard(remediation), remediation.reason) if part]
    return f"{remediation.state.name}: {'; '.join(parts)}" if parts else remediation.state.name


def answer_lines(remediation: Remediation, bootstrap: str) -> tuple[str, ...]:
    """Return the commands that answer a waiting remediation; empty for any other."""
    if remediation.state not in (State.WAITING, State.ESCALATED):
        return ()
    # After its last relapse the target is in service; other escalated targets are, or may be, out of service.
    if remediation.state is State.WAITING or remediation.verdict is Verdict.NEEDS_APPROVAL:
        return "approve it in a second terminal:", answer_command("approve", remediation.id, bootstrap)
    return "report its repair in a second terminal:", answer_command("repaired", remediation.id, bootstrap)


def shown(remediations: Iterable[Remediation]) -> list[Remediation]:
    """Return the remediations for the screen: waiting and denied ones first, then the newest; no observations."""
    acting = [one for one in remediations if one.action is not Action.OBSERVE and one.state is not State.CLOSED]
    closed = [one for one in remediations if one.action is not Action.OBSERVE and one.state is State.CLOSED]
    newest = sorted(acting, key=lambda one: -(one.decided_at_ns or 0))
    first = [one for state in _FIRST for one in newest if one.state is state]
    others = [one for one in newest if one.state not in _FIRST]
    return [*first, *others, *sorted(closed, key=lambda one: -(one.decided_at_ns or 0))]


def _guard(remediation: Remediation) -> str:
    if not remediation.constraint or remediation.state is State.CLOSED:
        return ""
    values = [
        f"{name} {value:g}"
        for name, value in (("observed", remediation.constraint_observed), ("limit", remediation.constraint_limit))
        if value is not None
    ]
    number = f"guard {remediation.guard} " if remediation.guard else ""
    return f"{number}{remediation.constraint}" + (f" ({', '.join(values)})" if values else "")
