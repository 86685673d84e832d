"""Writes the texts of a ticket in the Atlassian Document Format, and finds texts in it."""

from collections.abc import Iterator
from typing import Any

from streams.notify.tickets.book import Change, ChangeKind
from streams.notify.tickets.ticket import Ticket

MAX_SUMMARY = 255
"""The limit of an issue's summary."""

_STATEMENTS = {
    ChangeKind.REOPENED: "The remediation needs a person again.",
    ChangeKind.UPDATED: "The remediation has changed.",
    ChangeKind.CLOSED: "The remediation needs no further work.",
}


def summary(ticket: Ticket) -> str:
    """Return the summary, cut to Jira's limit."""
    title = ticket.title
    return title if len(title) <= MAX_SUMMARY else f"{title[: MAX_SUMMARY - 1]}…"


def description(ticket: Ticket) -> dict[str, Any]:
    """Return the description of a new issue."""
    return _document(_lines(ticket), ticket.commands)


def comment(change: Change) -> dict[str, Any]:
    """Return the comment of a change; its last line is the mark by which a repetition finds it."""
    ticket = change.ticket
    lines = [_STATEMENTS[change.kind], *_lines(ticket)]
    return _document([*lines, mark(ticket)], ())


def mark(ticket: Ticket) -> str:
    """Return the line that identifies a comment."""
    return f"railsight remediation {ticket.id}, revision {ticket.revision}"


def texts(node: Any) -> Iterator[str]:
    """Yield the texts of a document, in their order, however deep it is."""
    pending = [node]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            if isinstance(text := one.get("text"), str):
                yield text
            pending.append(one.get("content"))
        elif isinstance(one, list):
            pending += reversed(one)


def _lines(ticket: Ticket) -> list[str]:
    part = f" ({ticket.part_number})" if ticket.part_number else ""
    lines = (
        ("Target", ticket.target), ("Ends", "; ".join(ticket.ends)), ("Site", ticket.site), ("Pod", ticket.pod),
        ("Action", f"{ticket.action}, {ticket.state}"), ("Step", f"{ticket.step}{part}" if ticket.step else ""),
        ("Hint", ticket.hint), ("Cause", ticket.cause), ("Reason", ticket.reason),
        ("Findings", ", ".join(ticket.findings)), ("Cluster", ticket.cluster), ("Runbook", ticket.runbook_url),
    )  # fmt: skip
    return [f"{name}: {value}" for name, value in lines if value]


def _document(lines: list[str], commands: tuple[str, ...]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [
        {"type": "paragraph", "content": [{"type": "text", "text": line}]} for line in lines
    ]
    if commands:
        content.append({"type": "codeBlock", "content": [{"type": "text", "text": "\n".join(commands)}]})
    return {"type": "doc", "version": 1, "content": content}
