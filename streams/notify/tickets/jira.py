"""Delivers tickets to Jira Cloud by its REST API v3, with one issue per ticket, found by the label `railsight-ID`.

Creating an issue is not idempotent, and Jira's search finds a new issue only after a delay. Therefore an issue is
created only if a search does not find it, and not within `index_s` after a takeover or a request without an answer. A
comment ends with a mark, and is not repeated if one of the newest comments has the mark. A person may close the issue
before the remediation ends; the issue then stays closed, with comments.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from streams.notify.tickets.book import Change, ChangeKind, Ticket, TicketStatus
from streams.notify.tickets.http_client import HttpClient, Interrupted, parse
from streams.notify.tickets.params import JiraParams
from streams.wire.errors import Busy, Misconfigured, Reject, Retry

_API = "/rest/api/3"
_NEWEST_COMMENTS = "50"
_DONE = "done"
"""The key of the status category Done; the others are `new` and `indeterminate`."""


class Jira:
    """A client of one project of a Jira site."""

    def __init__(self, client: HttpClient, params: JiraParams, now_s: Callable[[], float]) -> None:
        self._client, self._params, self._now_s = client, params, now_s
        self._issues: dict[str, str] = {}
        """Remediation id -> the issue of its open ticket, because search does not find new issues yet."""
        self._search_proves_s = 0.0
        """From this time on, a search without a result proves that there is no issue."""

    async def prepare(self) -> None:
        """Check that project and issue type exist; assume that search lacks new issues of a predecessor."""
        self._issues.clear()
        self._search_proves_s = self._now_s() + self._params.index_s
        project = await self._get(f"{_API}/project/{quote(self._params.project, safe='')}")
        if project is None:
            raise Misconfigured(
                f"tickets.jira.project: Jira has no project {self._params.project} that the account may see; correct"
                " the key, or give the account the permission to browse it"
            )
        types = [str(one.get("name")) for one in _objects(project, "issueTypes")]
        if self._params.issue_type not in types:
            raise Misconfigured(
                f"tickets.jira.issue_type: the project {self._params.project} has no type {self._params.issue_type};"
                f" it has {', '.join(types) or 'none'}"
            )

    async def deliver(self, change: Change) -> None:
        """Create the issue, or add the change to it as a comment and a transition."""
        ticket = change.ticket
        issue = await self._find(ticket)
        if issue is None:
            if ticket.status is TicketStatus.OPEN:
                await self._create(ticket)
            return
        status = await self._get(f"{_API}/issue/{issue}", {"fields": "status"})
        if status is None:
            self._issues.pop(ticket.id, None)
            raise Reject(f"the issue {issue} of the remediation {ticket.id} is not there any more")
        if change.kind is ChangeKind.OPENED:
            return  # a request without an answer has created the issue
        await self._comment(issue, change)
        fields = status.get("fields")
        is_done = _category(fields.get("status") if isinstance(fields, dict) else None) == _DONE
        if change.kind is ChangeKind.CLOSED:
            self._issues.pop(ticket.id, None)
            if not is_done:
                await self._move(issue, to_done=True)
        elif change.kind is ChangeKind.REOPENED and is_done:
            await self._move(issue, to_done=False)

    async def _find(self, ticket: Ticket) -> str | None:
        """Return the key of the ticket's issue; raises Busy while search may lack the issue."""
        if (known := self._issues.get(ticket.id)) is not None:
            return known
        project = self._params.project
        query = {
            "jql": f'project = "{project}" AND labels = "{label(ticket)}" ORDER BY created ASC',
            "maxResults": 1,
            "fields": ["status"],
        }
        path = f"{_API}/search/jql"
        found = _objects(parse(await self._client.request("POST", path, query), path), "issues")
        if found:
            issue = quote(str(found[0].get("key", "")), safe="")
            if not issue:
                raise Retry(f"{path}: an issue without a key")
            if ticket.status is TicketStatus.OPEN:
                self._issues[ticket.id] = issue
            return issue
        wait_s = self._search_proves_s - self._now_s()
        if wait_s > 0:
            raise Busy(f"no issue of {ticket.id} is found, which Jira's search proves only after a wait", wait_s)
        return None

    async def _create(self, ticket: Ticket) -> None:
        fields = {
            "project": {"key": self._params.project},
            "issuetype": {"name": self._params.issue_type},
            "summary": issue_summary(ticket),
            "description": issue_description(ticket),
            "labels": [*self._params.labels, label(ticket)],
        }
        path = f"{_API}/issue"
        # Without a key in the answer, the request may have created an issue that search does not find yet.
        self._search_proves_s, before_s = self._now_s() + self._params.index_s, self._search_proves_s
        try:
            content = await self._client.request("POST", path, {"fields": fields})
        except (Reject, Retry, Misconfigured) as error:
            if not isinstance(error, Interrupted):
                self._search_proves_s = before_s
            raise
        key = parse(content, path).get("key")
        if not isinstance(key, str) or not key:
            raise Retry(f"{path}: the response has no key of the new issue")
        self._search_proves_s = before_s
        self._issues[ticket.id] = quote(key, safe="")

    async def _comment(self, issue: str, change: Change) -> None:
        """Add the comment of a change, unless it exists."""
        path = f"{_API}/issue/{issue}/comment"
        page = await self._get(path, {"orderBy": "-created", "maxResults": _NEWEST_COMMENTS})
        mark = comment_mark(change.ticket)
        comments = _objects(page or {}, "comments")
        if not any(text == mark for comment in comments for text in document_texts(comment.get("body"))):
            await self._client.request("POST", path, {"body": comment_body(change)})

    async def _move(self, issue: str, *, to_done: bool) -> None:
        """Apply a transition to a status of the category Done, or of another one; raises Reject if there is none."""
        path = f"{_API}/issue/{issue}/transitions"
        name = self._params.close_transition if to_done else ""
        for transition in _objects(await self._get(path) or {}, "transitions"):
            matches = (_category(transition.get("to")) == _DONE) == to_done
            if str(transition.get("name", "")).casefold() == name.casefold() if name else matches:
                await self._client.request("POST", path, {"transition": {"id": str(transition.get("id", ""))}})
                return
        if to_done:
            wanted = f"transition {name}" if name else "transition to a status of the category Done"
            raise Reject(
                f"the issue {issue} has no {wanted} that the account may use: close it by hand, and set"
                " tickets.jira.close_transition"
            )

    async def _get(self, path: str, query: Mapping[str, str] | None = None) -> Mapping[str, Any] | None:
        """Return an object of Jira, or None if it does not exist."""
        content = await self._client.request("GET", path, query=query, is_missing_none=True)
        return None if content is None else parse(content, path)


def label(ticket: Ticket) -> str:
    """Return the label of a ticket's issue, for searches."""
    return f"railsight-{ticket.id}"


def _objects(page: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects of a list; raises Retry for other content, as `parse` does."""
    found = page.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise Retry(f"the response of Jira has no list of {name}")
    return found


def _category(status: Any) -> str:
    """Return the key of a status's category."""
    category = status.get("statusCategory") if isinstance(status, dict) else None
    return str(category.get("key", "")) if isinstance(category, dict) else ""


MAX_SUMMARY = 255
"""Jira's limit of an issue's summary, in characters."""

_STATEMENTS = {
    ChangeKind.REOPENED: "The remediation needs a person again.",
    ChangeKind.UPDATED: "The remediation has changed.",
    ChangeKind.CLOSED: "The remediation needs no further work.",
}


def issue_summary(ticket: Ticket) -> str:
    """Return the summary of an issue, cut to Jira's limit."""
    title = ticket.title
    return title if len(title) <= MAX_SUMMARY else f"{title[: MAX_SUMMARY - 1]}…"


def issue_description(ticket: Ticket) -> dict[str, Any]:
    """Return the description of a new issue."""
    return _document(_lines(ticket), ticket.commands)


def comment_body(change: Change) -> dict[str, Any]:
    """Return the comment of a change; its last line is the mark by which a repetition finds it."""
    ticket = change.ticket
    lines = [_STATEMENTS[change.kind], *_lines(ticket)]
    return _document([*lines, comment_mark(ticket)], ())


def comment_mark(ticket: Ticket) -> str:
    """Return the line that identifies a comment."""
    return f"railsight remediation {ticket.id}, revision {ticket.revision}"


def document_texts(node: Any) -> Iterator[str]:
    """Yield the texts of a document of any depth, in their order."""
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
        ("Action", f"{ticket.action}, {ticket.state}"),
        ("Step", f"{ticket.repair_step}{part}" if ticket.repair_step else ""),
        ("Hint", ticket.repair_hint), ("Cause", ticket.cause), ("Reason", ticket.reason),
        ("Findings", ", ".join(ticket.finding_ids)), ("Cluster", ticket.cluster), ("Runbook", ticket.runbook_url),
    )  # fmt: skip
    return [f"{name}: {value}" for name, value in lines if value]


def _document(lines: list[str], commands: tuple[str, ...]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [
        {"type": "paragraph", "content": [{"type": "text", "text": line}]} for line in lines
    ]
    if commands:
        content.append({"type": "codeBlock", "content": [{"type": "text", "text": "\n".join(commands)}]})
    return {"type": "doc", "version": 1, "content": content}
