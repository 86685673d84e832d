"""Lists the subcommands of `railsight`, grouped by task.

Other packages add subcommands under the entry-point group `railsight.commands`: each entry is a tuple of `Command`, in
a module without other imports, because every start imports it.
"""

import importlib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.metadata import entry_points
from typing import Any

GROUP = "railsight.commands"


class Task(StrEnum):
    """The groups of `railsight --help`, in its order."""

    RUN = "Run the pipeline"
    LOOK = "Look at the fabric"
    ACT = "Act and answer"
    DATA = "Record, backtest and tune"
    PLAN = "Plan with the fabric"
    ADMINISTER = "Administer"
    LABORATORY = "Laboratory"


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand: its name, its task, its target (`module:attribute`, a function or a Typer), and its line of help.

    `form` is the class of a command with its own help, in the form of `target`; empty for typer's class.
    `interactive` commands report starting and killed servers themselves, so the warnings of libraries are muted.
    """

    name: str
    task: Task
    target: str
    help: str
    form: str = ""
    interactive: bool = True

    def load(self) -> Any:
        """Import and return the target."""
        return _imported(self.target)

    def load_form(self) -> Any:
        """Import and return the class; None for typer's."""
        return _imported(self.form) if self.form else None


def _imported(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _command(
    task: Task, name: str, meaning: str, place: str = "", *, form: str = "", interactive: bool = True
) -> Command:
    """Return a command of `streams.cli`; by default its module and function have the command's name."""
    module = place or name
    return Command(name, task, f"streams.cli.{module}:{name.replace('-', '_')}", meaning, form, interactive)


_RUN, _LOOK, _ACT, _DATA, _PLAN, _ADMINISTER = list(Task)[:-1]
_OWN: tuple[Command, ...] = (
    _command(_RUN, "up", "Run the whole pipeline on this machine with your collectors.", "pipeline"),
    _command(_RUN, "collect", "Run one collector.", form="streams.cli.collect:CollectCommand", interactive=False),
    _command(_RUN, "process", "Run one stage of the pipeline, or all of them.", "parts", interactive=False),
    _command(_RUN, "persist", "Write every topic to ClickHouse.", "parts", interactive=False),
    _command(_RUN, "notify", "Send findings to Alertmanager.", "parts", interactive=False),
    _command(_RUN, "tickets", "Send tickets to the repair desk's system.", "parts", interactive=False),
    _command(_RUN, "broker", "Run Apache Kafka on this machine.", "servers", interactive=False),
    _command(_RUN, "clickhouse", "Run ClickHouse on this machine.", "servers", interactive=False),
    _command(_LOOK, "status", "List how each device is read, and what is blind."),
    _command(_LOOK, "top", "Show the fabric, findings, links and jobs on a terminal.", "findings"),
    _command(_LOOK, "findings", "List the open findings."),
    _command(_LOOK, "explain", "Print one finding with its evidence.", "findings"),
    _command(_LOOK, "serve", "Serve pages and JSON of all this, and publish the locality.", interactive=False),
    _command(_LOOK, "job", "Report whether the network was clean for a job.", "history"),
    _command(_LOOK, "lemons", "List links, hosts and parts with more faults than others.", "history"),
    _command(_ACT, "ack", "Acknowledge a finding.", "controls"),
    _command(_ACT, "remediations", "List the open remediations, explain or close one.", "findings"),
    _command(_ACT, "approve", "Approve a remediation that waits.", "controls"),
    _command(_ACT, "reject", "Reject a remediation.", "controls"),
    _command(_ACT, "repaired", "Report the repair of a remediation's target.", "controls"),
    _command(_ACT, "returned", "Report that a target is in service again.", "controls"),
    _command(_ACT, "maintenance", "No page and no action on a subject.", "controls"),
    _command(_ACT, "exclude", "No action on a subject.", "controls"),
    _command(_ACT, "kill-switch", "Stop every action.", "controls"),
    _command(_DATA, "record", "Record what arrives, for backtests.", "recordings"),
    _command(_DATA, "export", "Write what ClickHouse holds as a recording, for backtests.", "recordings"),
    _command(_DATA, "backtest", "Run the stages over recordings or ClickHouse.", interactive=False),
    _command(_DATA, "score", "Compare findings with the ground truth.", "backtest", interactive=False),
    _command(_DATA, "tune", "Propose settings for a number of findings a week.", "backtest", interactive=False),
    _command(_PLAN, "inventory", "Generate, draft, import, check or publish an inventory."),
    _command(_PLAN, "near", "List the hosts near one, with the capacity that is left.", "locality"),
    _command(_PLAN, "place", "Rank sets of hosts for a job.", "locality"),
    _command(_PLAN, "topology", "Write the topology for schedulers.", "locality"),
    _command(_ADMINISTER, "init", "Write a first configuration: targets, inventory, secrets."),
    _command(_ADMINISTER, "doctor", "Check this machine and the running pipeline.", "checks"),
    _command(_ADMINISTER, "config", "Check a configuration, or print the settings in force.", "checks"),
    _command(_ADMINISTER, "grafana", "Install the boards and the alert rules in a running Grafana."),
    _command(_ADMINISTER, "logs", "Print the log of a part of the running pipeline.", "pipeline"),
    _command(_ADMINISTER, "topics", "Create the topics, or list differences.", "administer", interactive=False),
    _command(_ADMINISTER, "migrate", "Bring the tables of ClickHouse up to date.", "administer", interactive=False),
    _command(_ADMINISTER, "acl", "Print, apply or check the ACLs of Kafka.", "administer"),
    _command(_ADMINISTER, "key", "Make the keys of controls and of telemetry.", "administer", interactive=False),
)


@cache
def commands() -> tuple[Command, ...]:
    """Return all installed subcommands in the order of `railsight --help`."""
    added = (command for entry in entry_points(group=GROUP) for command in entry.load())
    order = list(Task)
    return tuple(sorted((*_OWN, *added), key=lambda command: order.index(command.task)))
