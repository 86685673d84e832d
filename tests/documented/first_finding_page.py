"""The page of the first finding: what was typed, what was printed, and how long it took."""

import os

from tests.documented.first_finding import KEYS_PER_S, Outcome

_MAX_LINES = 120


def page(outcome: Outcome) -> str:
    """Return the page of one run."""
    load = os.getloadavg()[0]
    after_s = outcome.found_s - outcome.pulled_s
    rows = [
        ("`railsight init` to every device read", f"{outcome.ready_s:.0f}"),
        ("the pulled cable to its finding", f"{after_s:.0f}"),
        ("`railsight init` to the first finding", f"{outcome.found_s:.0f}"),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    head = [
        "# From init to the first finding\n",
        "Two leaves and four hosts with net-snmp's agents, in network namespaces of one Linux machine;"
        " a person answers `railsight init`, adds the links, starts the pipeline and pulls a cable.",
        "The page and the [recording](static/first-finding.cast) (for `asciinema play`) are written by one command,"
        " which types every key and needs root:\n",
        "```sh\npython -m tests.documented.first_finding\n```\n",
        f"| | seconds |\n|---|---|\n{table}\n",
        f"{outcome.keystrokes} keystrokes, at {KEYS_PER_S:g} keys a second."
        f" The machine had {os.cpu_count()} cores and a load of {load:.0f}.",
        "SNMP polls every 30 s and `link/down` opens after 30 s without a signal,"
        " so that the finding takes between 30 s and 90 s on an idle machine.\n",
        "## The terminal\n",
        f"```text\n{shown(outcome.text)}\n```\n",
    ]
    return "\n".join(head)


def shown(text: str) -> str:
    """Return the text of the terminal, without blank lines; long lines are cut."""
    lines = [line if len(line) <= 140 else f"{line[:139]}…" for line in text.splitlines() if line.strip()]
    if len(lines) > _MAX_LINES:
        raise ValueError(f"the terminal showed {len(lines)} lines; the page has room for {_MAX_LINES}")
    return "\n".join(lines)
