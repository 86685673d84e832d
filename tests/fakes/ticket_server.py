"""Serves a ticket system on loopback that can be away, slow, broken or overloaded: a webhook, or Jira Cloud's API.

The Jira server checks what the real one checks of these requests (fields, the document format, transitions), answers in
the shapes of the REST API v3, and its search has new issues only after `index_s`.
"""

import asyncio
import ssl
import time
from base64 import b64decode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

USER, TOKEN = "desk@example.net", "s3cret"
Responder = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


@dataclass
class TicketServer:
    """A server on loopback; `before` and `after` may replace a response, `after` once the request was carried out."""

    port: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)
    before: Responder | None = None
    after: Responder | None = None
    tls: ssl.SSLContext | None = None
    _runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """The base URL of the tickets."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen, on the same port as before."""
        app = web.Application(middlewares=[self._intercept])
        self.add_routes(app)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True, ssl_context=self.tls)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the port and all connections."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def add_routes(self, app: web.Application) -> None:
        """Add the resources of the server."""
        raise NotImplementedError

    @web.middleware
    async def _intercept(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        if self.before is not None and (response := await self.before(request)) is not None:
            return response
        response = await handler(request)
        if self.after is not None and (other := await self.after(request)) is not None:
            return other
        return response


def drop(request: web.Request) -> None:
    """Close the connection of a request without a response."""
    assert request.transport is not None
    request.transport.abort()


@dataclass
class WebhookServer(TicketServer):
    """One resource for each ticket, and the history of its status."""

    tickets: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: dict[str, list[str]] = field(default_factory=dict)
    """The statuses of each ticket without repetitions."""

    def add_routes(self, app: web.Application) -> None:
        app.router.add_put("/desk/{id}", self._put)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/desk"

    @property
    def open_ids(self) -> set[str]:
        """The ids of the open tickets."""
        return {key for key, ticket in self.tickets.items() if ticket["status"] == "open"}

    async def _put(self, request: web.Request) -> web.Response:
        key, ticket = request.match_info["id"], await request.json()
        statuses = self.history.setdefault(key, [])
        if statuses[-1:] != [ticket["status"]]:
            statuses.append(ticket["status"])
        is_new = key not in self.tickets
        self.tickets[key] = ticket
        return web.Response(status=201 if is_new else 204)


@dataclass
class Issue:
    """One issue."""

    key: str
    fields: dict[str, Any]
    created_s: float
    status: str = "To Do"
    comments: list[dict[str, Any]] = field(default_factory=list)
    moves: list[str] = field(default_factory=list)


CATEGORY = {"To Do": "new", "In Progress": "indeterminate", "Done": "done"}


@dataclass
class JiraServer(TicketServer):
    """The project OPS with the types Task and Bug."""

    index_s: float = 0.0
    issues: dict[str, Issue] = field(default_factory=dict)
    transitions: tuple[tuple[str, str, str], ...] = (("11", "Begin", "In Progress"), ("31", "Close", "Done"))
    """(id, name, status after it)."""

    def add_routes(self, app: web.Application) -> None:
        api = "/rest/api/3"
        app.router.add_get(f"{api}/project/{{key}}", self._project)
        app.router.add_post(f"{api}/search/jql", self._search)
        app.router.add_post(f"{api}/issue", self._create)
        app.router.add_get(f"{api}/issue/{{key}}", self._issue)
        app.router.add_get(f"{api}/issue/{{key}}/comment", self._comments)
        app.router.add_post(f"{api}/issue/{{key}}/comment", self._add_comment)
        app.router.add_get(f"{api}/issue/{{key}}/transitions", self._transitions)
        app.router.add_post(f"{api}/issue/{{key}}/transitions", self._move)

    async def _project(self, request: web.Request) -> web.Response:
        _check_login(request)
        if request.match_info["key"] != "OPS":
            raise _error(404, ["No project could be found with key 'X'."])
        return web.json_response({"id": "10000", "key": "OPS", "issueTypes": [{"name": "Task"}, {"name": "Bug"}]})

    async def _search(self, request: web.Request) -> web.Response:
        _check_login(request)
        asked = await request.json()
        before, _, rest = asked["jql"].partition(' AND labels = "')
        label, _, order = rest.partition('"')
        if before != 'project = "OPS"' or order != " ORDER BY created ASC" or set(label) & set('"\\ '):
            raise _error(400, ["Error in the JQL Query."])
        indexed = [one for one in self.issues.values() if time.monotonic() - one.created_s >= self.index_s]
        found = [issue for issue in indexed if label in issue.fields["labels"]][: asked["maxResults"]]
        assert asked["fields"] == ["status"]
        shown = [{"id": "1", "key": one.key, "fields": {"status": _status(one.status)}} for one in found]
        return web.json_response({"issues": shown, "isLast": True})

    async def _create(self, request: web.Request) -> web.Response:
        _check_login(request)
        fields = (await request.json())["fields"]
        errors = {}
        if fields["project"] != {"key": "OPS"}:
            errors["project"] = "valid project is required"
        if fields["issuetype"].get("name") not in ("Task", "Bug"):
            errors["issuetype"] = "Specify a valid issue type"
        if not 0 < len(fields["summary"]) <= 255 or "\n" in fields["summary"]:
            errors["summary"] = "Summary must be less than 255 characters and one line."
        if any(" " in label for label in fields["labels"]):
            errors["labels"] = "The label contains spaces which is invalid."
        if not _is_document(fields["description"]):
            errors["description"] = "Operation value must be an Atlassian Document"
        if errors:
            raise _error(400, [], errors)
        issue = Issue(f"OPS-{len(self.issues) + 1}", fields, time.monotonic())
        self.issues[issue.key] = issue
        return web.json_response({"id": "1", "key": issue.key, "self": f"{self.url}/x"}, status=201)

    async def _issue(self, request: web.Request) -> web.Response:
        issue = self._of(request)
        return web.json_response({"id": "1", "key": issue.key, "fields": {"status": _status(issue.status)}})

    async def _comments(self, request: web.Request) -> web.Response:
        issue = self._of(request)
        assert request.query["orderBy"] == "-created"
        newest = issue.comments[::-1][: int(request.query["maxResults"])]
        return web.json_response({"startAt": 0, "total": len(issue.comments), "comments": newest})

    async def _add_comment(self, request: web.Request) -> web.Response:
        issue, body = self._of(request), (await request.json())["body"]
        if not _is_document(body):
            raise _error(400, ["Comment body is not valid!"])
        issue.comments.append({"id": str(len(issue.comments)), "body": body})
        return web.json_response(issue.comments[-1], status=201)

    async def _transitions(self, request: web.Request) -> web.Response:
        self._of(request)
        shown = [{"id": number, "name": name, "to": _status(to)} for number, name, to in self.transitions]
        return web.json_response({"expand": "transitions", "transitions": shown})

    async def _move(self, request: web.Request) -> web.Response:
        issue, asked = self._of(request), (await request.json())["transition"]["id"]
        after = next((to for number, _, to in self.transitions if number == asked), None)
        if after is None:
            raise _error(400, [f"Transition id '{asked}' is not valid for this issue."])
        issue.status = after
        issue.moves.append(after)
        return web.Response(status=204)

    def _of(self, request: web.Request) -> Issue:
        _check_login(request)
        issue = self.issues.get(request.match_info["key"])
        if issue is None:
            raise _error(404, ["Issue does not exist or you do not have permission to see it."])
        return issue


def _check_login(request: web.Request) -> None:
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    if kind != "Basic" or b64decode(value).decode() != f"{USER}:{TOKEN}":
        raise web.HTTPUnauthorized(text="Client must be authenticated to access this resource.")


def _status(name: str) -> dict[str, Any]:
    return {"name": name, "statusCategory": {"id": 1, "key": CATEGORY[name]}}


def _error(status: int, messages: list[str], errors: dict[str, str] | None = None) -> web.HTTPException:
    text = orjson.dumps({"errorMessages": messages, "errors": errors or {}}).decode()
    kinds: dict[int, type[web.HTTPException]] = {400: web.HTTPBadRequest, 404: web.HTTPNotFound}
    return kinds[status](text=text, content_type="application/json")


def _is_document(node: Any) -> bool:
    """Return whether a document has a version, known nodes, and no empty text."""
    if not isinstance(node, dict) or node.get("type") != "doc" or node.get("version") != 1:
        return False
    blocks = node.get("content")
    if not isinstance(blocks, list) or not blocks:
        return False
    for block in blocks:
        if block.get("type") not in ("paragraph", "codeBlock"):
            return False
        if not all(one.get("type") == "text" and one.get("text") for one in block.get("content", [])):
            return False
    return True


async def hang(_request: web.Request) -> None:
    """Answer no request within the timeout of a client."""
    await asyncio.sleep(60)
