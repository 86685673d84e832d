"""Tests the clients of ticket systems over HTTP: the meaning of each response, and repetitions without effect."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from lab.constants import params_of
from streams.notify.tickets.book import Change, ChangeKind, TicketBook
from streams.notify.tickets.http_client import HttpClient, Interrupted
from streams.notify.tickets.jira import Jira
from streams.notify.tickets.params import TicketParams
from streams.notify.tickets.webhook import Webhook
from streams.wire.errors import Busy, Misconfigured, Reject, Retry
from streams.wire.models import Action, RemediationState
from tests.fakes.processes import FakeSeconds
from tests.fakes.ticket_server import TOKEN, USER, JiraServer, TicketServer, WebhookServer, drop, hang
from tests.fixtures.certificates import certificate
from tests.fixtures.notify_examples import params, remediation


def changes(*states: RemediationState, identity: str = "r1", **fields: Any) -> list[Change]:
    """Return the changes of the ticket of an escalated drain that goes through these states."""
    book = TicketBook(params())
    made = [
        book.process(remediation(id=identity, action=Action.DRAIN_LINK, state=state, revision=number, **fields))
        for number, state in enumerate(states)
    ]
    return [change for change in made if change is not None]


ESCALATED, VERIFYING, CLOSED = RemediationState.ESCALATED, RemediationState.VERIFYING, RemediationState.CLOSED


@asynccontextmanager
async def serving(server: TicketServer) -> AsyncIterator[None]:
    await server.start()
    try:
        yield
    finally:
        await server.stop()


@pytest.fixture
async def webhook() -> AsyncIterator[WebhookServer]:
    server = WebhookServer()
    async with serving(server):
        yield server


@pytest.fixture
async def site() -> AsyncIterator[JiraServer]:
    server = JiraServer()
    async with serving(server):
        yield server


def answering(status: int, **headers: str) -> Any:
    """Return a responder of this status."""

    async def respond(_request: web.Request) -> web.Response:
        return web.Response(status=status, headers=headers, text="<b>reason\n\x1b[0m</b>")

    return respond


@asynccontextmanager
async def webhook_client(server: WebhookServer, **settings: Any) -> AsyncIterator[Webhook]:
    async with HttpClient(params_of(TicketParams, {"url": server.url} | settings)) as client:
        yield Webhook(client)


@asynccontextmanager
async def jira_client(server: JiraServer, tmp_path: Path, clock: FakeSeconds, **jira: Any) -> AsyncIterator[Jira]:
    """Yield a client that took over `index_s` ago."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    settings = params_of(TicketParams, {
        "url": server.url, "kind": "jira", "username": USER, "token_file": tmp_path / "token", "timeout_s": 0.5,
        "jira": {"project": "OPS", "index_s": 60, **jira},
    })  # fmt: skip
    assert settings.jira is not None
    async with HttpClient(settings, conflicts=False) as client:
        made = Jira(client, settings.jira, clock)
        await made.prepare()
        clock.now += 61
        yield made


async def test_a_webhook_gets_the_whole_ticket_at_its_own_address(webhook: WebhookServer) -> None:
    """The same resource is put at each change, and a repetition is the same request."""
    opened, updated, closed = changes(ESCALATED, VERIFYING, CLOSED)
    async with webhook_client(webhook) as client:
        for change in (opened, opened, updated, closed, closed):
            await client.deliver(change)
    assert webhook.requests == [("PUT", "/desk/r1")] * 5
    assert webhook.tickets == {"r1": closed.ticket.to_json()}
    assert webhook.history == {"r1": ["open", "closed"]}


@pytest.mark.parametrize(
    ("status", "headers", "error"),
    [
        (400, {}, Reject), (409, {}, Reject), (413, {}, Reject), (422, {}, Reject),
        (401, {}, Misconfigured), (403, {}, Misconfigured), (404, {}, Misconfigured), (405, {}, Misconfigured),
        (301, {"Location": "/other"}, Misconfigured), (307, {"Location": "/other"}, Misconfigured),
        (408, {}, Retry), (429, {}, Retry), (500, {}, Interrupted), (502, {}, Interrupted), (503, {}, Interrupted),
        (429, {"Retry-After": "7"}, Busy), (503, {"Retry-After": "7"}, Busy),
        (429, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, Retry),
    ],
)  # fmt: skip
async def test_a_status_has_one_meaning(
    webhook: WebhookServer, status: int, headers: dict[str, str], error: type[Exception]
) -> None:
    """A bad ticket, a login or address that a person must correct, or a repetition; the message is one line."""
    webhook.before = answering(status, **headers)
    async with webhook_client(webhook) as client:
        with pytest.raises(error) as caught:
            await client.deliver(changes(ESCALATED)[0])
    assert type(caught.value) is error
    message = str(caught.value)
    assert f"HTTP {status}" in message and "/desk/r1" in message and message.isprintable()
    assert len(webhook.requests) == 1  # no redirect is followed
    if isinstance(caught.value, Busy):
        assert caught.value.after_s == 7


async def test_a_server_that_is_away_slow_or_broken_is_retried(webhook: WebhookServer) -> None:
    """Without a connection nothing was sent; a request without a response may have been carried out."""
    (change,) = changes(ESCALATED)
    async with webhook_client(webhook, timeout_s=0.2) as client:
        webhook.before = hang
        with pytest.raises(Interrupted):
            await client.deliver(change)

        async def abort(request: web.Request) -> None:
            drop(request)

        webhook.before = abort
        with pytest.raises(Interrupted):
            await client.deliver(change)
        await webhook.stop()
        with pytest.raises(Retry) as caught:
            await client.deliver(change)
    assert not isinstance(caught.value, Interrupted)


async def test_the_certificate_of_the_server_is_verified(tmp_path: Path) -> None:
    """Only the configured CA is accepted; no request with a token reaches another server."""
    cert_file, key_file = certificate(tmp_path, "desk")
    other_file, _ = certificate(tmp_path, "other")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert_file, key_file)
    (tmp_path / "token").write_text("x")
    server = WebhookServer(tls=context)
    async with serving(server):
        settings = {"url": server.url.replace("http:", "https:"), "token_file": tmp_path / "token"}
        for ca_file in (None, other_file):
            async with webhook_client(server, **settings, ca_file=ca_file) as client:
                with pytest.raises(Retry, match="CERTIFICATE_VERIFY_FAILED"):
                    await client.deliver(changes(ESCALATED)[0])
        assert server.requests == []
        async with webhook_client(server, **settings, ca_file=cert_file) as client:
            await client.deliver(changes(ESCALATED)[0])
    assert list(server.tickets) == ["r1"]


async def test_a_token_is_read_for_each_request_and_is_in_no_message(webhook: WebhookServer, tmp_path: Path) -> None:
    """A replaced token applies without a restart; a missing or empty file blocks with its name."""
    seen: list[str] = []

    async def record(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(status=401)

    webhook.before = record
    token = tmp_path / "token"
    async with webhook_client(webhook, token_file=token) as client:
        for text in ("first\n", "second"):
            token.write_text(text)
            with pytest.raises(Misconfigured) as caught:
                await client.deliver(changes(ESCALATED)[0])
            assert text.strip() not in str(caught.value)
        for broken in ("", "two lines\nx", "\n"):
            token.write_text(broken)
            with pytest.raises(Misconfigured, match=r"tickets\.token_file: .*token has no token"):
                await client.deliver(changes(ESCALATED)[0])
        token.unlink()
        with pytest.raises(Misconfigured, match=r"tickets\.token_file: cannot read .*No such file"):
            await client.deliver(changes(ESCALATED)[0])
    assert seen == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize(
    "lives", [[(0, 0, 1, 1, 2, 2)], [(0, 1), (0, 1, 2)]], ids=["repetitions", "a successor begins again"]
)
async def test_an_issue_is_created_commented_and_closed_once(
    site: JiraServer, tmp_path: Path, lives: list[tuple[int, ...]]
) -> None:
    """One issue with the labels, one comment for each change, one transition, also of a successor."""
    made = changes(ESCALATED, VERIFYING, CLOSED, repair_hint="replace the cable")
    for steps in lives:
        async with jira_client(site, tmp_path, FakeSeconds()) as client:
            for step in steps:
                await client.deliver(made[step])
    (issue,) = site.issues.values()
    assert issue.fields["labels"] == ["railsight", "railsight-r1"]
    assert issue.fields["summary"] == made[0].ticket.title
    assert "replace the cable" in str(issue.fields["description"])
    assert (len(issue.comments), issue.status, issue.moves) == (2, "Done", ["Done"])


async def test_an_issue_without_a_response_is_not_created_again(site: JiraServer, tmp_path: Path) -> None:
    """Search has it late: until `index_s` later a search without a result creates nothing, and then it is found."""
    site.index_s, clock = 0.5, FakeSeconds()
    (opened,) = changes(ESCALATED)

    async def lose(request: web.Request) -> None:
        if request.path.endswith("/issue"):
            drop(request)

    async with jira_client(site, tmp_path, clock) as client:
        site.after = lose
        with pytest.raises(Interrupted):
            await client.deliver(opened)
        site.after = None
        assert len(site.issues) == 1
        with pytest.raises(Busy) as caught:
            await client.deliver(opened)
        assert caught.value.after_s == 60
        await asyncio.sleep(site.index_s)  # the time of the server's search
        await client.deliver(opened)
        clock.now += 61
        await client.deliver(opened)
    assert len(site.issues) == 1


async def test_after_a_takeover_an_issue_is_created_only_when_search_proves_that_there_is_none(
    site: JiraServer, tmp_path: Path
) -> None:
    """The predecessor may have created it a moment ago; what it created before is found at once."""
    clock = FakeSeconds()
    (known,), (fresh,) = changes(ESCALATED), changes(ESCALATED, identity="r2")
    async with jira_client(site, tmp_path, clock) as client:
        await client.deliver(known)
        await client.prepare()
        await client.deliver(known)
        with pytest.raises(Busy):
            await client.deliver(fresh)
        clock.now += 60
        await client.deliver(fresh)
    assert sorted(site.issues) == ["OPS-1", "OPS-2"]


async def test_an_issue_that_a_person_closed_stays_closed(site: JiraServer, tmp_path: Path) -> None:
    """The changes are comments; only a remediation that needs a person again moves it out of Done."""
    opened, updated, closed, reopened = changes(ESCALATED, VERIFYING, CLOSED, ESCALATED)
    assert reopened.kind is ChangeKind.REOPENED
    async with jira_client(site, tmp_path, FakeSeconds()) as client:
        await client.deliver(opened)
        (issue,) = site.issues.values()
        issue.status = "Done"
        await client.deliver(updated)
        await client.deliver(closed)
        assert issue.moves == []
        await client.deliver(reopened)
    assert (issue.moves, len(issue.comments), len(site.issues)) == (["In Progress"], 3, 1)


async def test_a_deleted_issue_and_a_missing_transition_are_refused_tickets(site: JiraServer, tmp_path: Path) -> None:
    """Neither blocks the others; a change after the deletion creates the issue again."""
    opened, updated, closed = changes(ESCALATED, VERIFYING, CLOSED)
    async with jira_client(site, tmp_path, FakeSeconds()) as client:
        await client.deliver(opened)
        site.issues.clear()
        with pytest.raises(Reject, match=r"OPS-1 .* is not there any more"):
            await client.deliver(updated)
        await client.deliver(updated)
        site.transitions = (("11", "Begin", "In Progress"),)
        with pytest.raises(Reject, match=r"no transition to a status of the category Done.*close_transition"):
            await client.deliver(closed)
    assert len(site.issues) == 1


async def test_the_transition_may_be_named(site: JiraServer, tmp_path: Path) -> None:
    """Of several ways to Done the configured one is used."""
    site.transitions = (("31", "Won't do", "Done"), ("32", "Repaired", "Done"), ("11", "Begin", "In Progress"))
    opened, closed = changes(ESCALATED, CLOSED)
    used: list[Any] = []

    async def record(request: web.Request) -> None:
        if request.method == "POST" and request.path.endswith("/transitions"):
            used.append(await request.json())

    site.before = record
    async with jira_client(site, tmp_path, FakeSeconds(), close_transition="repaired") as client:
        await client.deliver(opened)
        await client.deliver(closed)
    assert used == [{"transition": {"id": "32"}}]


@pytest.mark.parametrize(
    ("jira", "reason"), [({"project": "NONE"}, "no project NONE"), ({"issue_type": "Epic"}, "it has Task, Bug")]
)
async def test_a_project_or_type_that_does_not_exist_blocks_before_a_ticket_is_refused(
    site: JiraServer, tmp_path: Path, jira: dict[str, str], reason: str
) -> None:
    """Jira would refuse every issue with 400, and each would be lost."""
    with pytest.raises(Misconfigured, match=reason):
        async with jira_client(site, tmp_path, FakeSeconds(), **jira):
            pass


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"issues": 3}', b'{"issues": [1]}'])
async def test_a_response_that_is_not_jiras_creates_nothing(site: JiraServer, tmp_path: Path, body: bytes) -> None:
    """A page of a proxy with status 200 is no proof that there is no issue."""

    async def other(request: web.Request) -> web.Response | None:
        return web.Response(body=body) if request.path.endswith("/search/jql") else None

    async with jira_client(site, tmp_path, FakeSeconds()) as client:
        site.before = other
        with pytest.raises(Retry):
            await client.deliver(changes(ESCALATED)[0])
    assert site.issues == {}


async def test_long_and_foreign_texts_are_valid_for_jira(site: JiraServer, tmp_path: Path) -> None:
    """A summary is cut to 255 characters; quotes and markup of a device change no query and no document."""
    hint = 'a"\\ OR project = "HR" {code} ' * 60
    (opened,) = changes(ESCALATED, repair_hint=hint)
    long_title = remediation(
        id="r2", action=Action.DRAIN_LINK, state=ESCALATED,
        target=remediation().target.__class__("link:" + "x" * 250 + '"\n'),
    )  # fmt: skip
    other = TicketBook(params()).process(long_title)
    assert other is not None
    async with jira_client(site, tmp_path, FakeSeconds()) as client:
        await client.deliver(opened)
        await client.deliver(other)
    assert [len(issue.fields["summary"]) <= 255 for issue in site.issues.values()] == [True, True]
