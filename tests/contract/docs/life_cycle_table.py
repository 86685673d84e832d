"""The table of the life cycle in docs/remediation.md, made from the transitions of `decide`.

`python -m tests.contract.docs` writes it; test_reference.py compares both.
"""

from pathlib import Path

from streams.decide.life_cycle import TIMEOUTS, TRANSITIONS, Event
from streams.wire.models import RemediationState as State

PAGE = Path(__file__).parents[3] / "docs/remediation.md"
BEGIN, END = "<!-- life-cycle:begin -->\n", "<!-- life-cycle:end -->\n"


def page() -> str:
    """Return the page with the table of today's transitions."""
    text = PAGE.read_text("utf-8")
    return f"{text.partition(BEGIN)[0]}{BEGIN}{table()}\n{END}{text.partition(END)[2]}"


def table() -> str:
    """Return one row for each state, with its events and its timeout."""
    rows = ["| state | leaves on | timeout |", "|---|---|---|"]
    for state in State:
        if state is State.STATE_UNSPECIFIED:
            continue
        events = [
            f"{event} → {after.name}"
            for (before, event), after in TRANSITIONS.items()
            if before is state and event not in (Event.TIMEOUT, Event.CLOSE)
        ]
        after = TRANSITIONS.get((state, Event.TIMEOUT))
        limit = f"`{TIMEOUTS[state]}` → {after.name}" if after is not None else "–"
        rows.append(f"| {state.name} | {'; '.join(events)} | {limit} |")
    return "\n".join(rows)
