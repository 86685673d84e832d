"""The commands that the laboratory adds to `railsight`, registered under the entry-point group `railsight.commands`."""

from streams.cli.commands import Command, Task

COMMANDS = (
    Command(
        "demo",
        Task.LABORATORY,
        "lab.cli.demo:demo",
        "Run the pipeline on a simulated fabric with faults, and score it.",
    ),
    Command(
        "bench",
        Task.LABORATORY,
        "lab.cli.bench.command:bench",
        "Measure what the pipeline costs on this machine.",
        interactive=False,
    ),
    Command(
        "chaos",
        Task.LABORATORY,
        "lab.cli.chaos:chaos",
        "Run the pipeline under faults and check what was lost.",
    ),
)
