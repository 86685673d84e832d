"""The pages of `railsight serve` and their JSON, from a state without servers."""

import asyncio
import json
import re
import shutil
import subprocess
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest

from lab.world.demo_fabric import DemoShape, inventory
from streams.config.kafka import KafkaSettings
from streams.config.settings import Settings
from streams.fabric.inventory import Job
from streams.fabric.topology import Topology
from streams.locality.groups import Groups
from streams.locality.model import Knowledge, Locality
from streams.locality.params import LocalityParams
from streams.report.locality.service import Current, LocalityService, version_of
from streams.report.top.state import TopState
from streams.report.web.answers import Answers
from streams.report.web.server import application
from streams.wire.models import (
    Action,
    CollectorStatus,
    Condition,
    Endpoint,
    Finding,
    Progress,
    Remediation,
    RemediationState,
    Severity,
    Source,
    Status,
    Subject,
    Verdict,
)

TOKEN = "a token of tests"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PAGE = BEARER | {"Accept": "text/html"}
NOW_NS = 1_790_000_000_000_000_000
TOPOLOGY = Topology(inventory(DemoShape(), NOW_NS))
LINK = next(link for link in TOPOLOGY.links.values() if link.lower.device == "pod1-host1")
EVIL = "<script>alert(1)</script>"


def finding(identity: str, severity: Severity, summary: str, parent: str = "") -> Finding:
    """Return an open finding at the link of a host."""
    return Finding(
        identity, 1, False, Condition.LINK_FLAP, Status.OPEN, severity,
        Subject(LINK.id, a=Endpoint(*LINK.lower), z=Endpoint(*LINK.upper)), NOW_NS - 60_000_000_000, NOW_NS,
        summary=summary, parent_id=parent,
    )  # fmt: skip


def state() -> TopState:
    """Return a state with a cause, its child, and a remediation that waits."""
    found = TopState()
    for message in (
        finding("aa11", Severity.CRITICAL, f"a host link flaps {EVIL}"),
        finding("bb22", Severity.WARNING, "a rail is slower", parent="aa11"),
        Remediation(
            "cc33", 1, ("aa11",), Action.DRAIN_LINK, Verdict.NEEDS_APPROVAL, Subject(LINK.id),
            state=RemediationState.WAITING, repair_hint="clean the optic at swp3",
        ),
        CollectorStatus("nic-1", 1, Source.SOURCE_NIC, "pod1-host1", NOW_NS, True, last_sample_at_ns=NOW_NS),
        Progress("decide", 0, 1, NOW_NS - 2_000_000_000),
    ):  # fmt: skip
        found.update(message, time.monotonic())
    return found


class Answer(NamedTuple):
    """The answer to one request."""

    status_code: int
    headers: Mapping[str, str]
    text: str

    def json(self) -> Any:
        """Return the value of a JSON body."""
        return json.loads(self.text)


class Client:
    """Sends requests to the application without a server."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def get(self, target: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Return the answer to a GET."""
        return asyncio.run(self._get(target, headers or {}))

    async def _get(self, target: str, headers: Mapping[str, str]) -> Answer:
        path, _, query = target.partition("?")
        scope = {
            "type": "http", "method": "GET", "path": unquote(path), "raw_path": path.encode(), "scheme": "http",
            "query_string": query.encode(), "http_version": "1.1", "root_path": "", "server": ("127.0.0.1", 80),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        body = b"".join(message.get("body", b"") for message in sent)
        found = {name.decode().title(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(
            sent[0]["status"], {**found, "WWW-Authenticate": found.get("Www-Authenticate", "")}, body.decode()
        )


def client(
    found: TopState,
    params: LocalityParams | None = None,
    topology: Topology | None = TOPOLOGY,
    now_ns: Callable[[], int] = lambda: NOW_NS,
) -> Client:
    """Return a client of the application; ClickHouse and Kafka do not answer."""
    settings = Settings.model_validate({"kafka": {"bootstrap": "127.0.0.1:1"}, "store": {"url": "http://127.0.0.1:1"}})
    params = params or LocalityParams()
    service = LocalityService(KafkaSettings(), params, lambda: NOW_NS, time.monotonic)
    if topology is not None:
        locality = Locality(Groups(topology), Knowledge(), NOW_NS)
        service.current = Current(locality, version_of(locality))
    return Client(application(Answers(settings, found, service, now_ns), params, TOKEN))


class _Balance(HTMLParser):
    """Checks that every element ends, and collects the links."""

    VOID = frozenset({"meta", "link", "input", "br", "hr", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "script"
        self.links += [value or "" for name, value in attrs if name == "href"]
        if tag not in self.VOID and tag not in ("p", "li", "dt", "dd", "option", "tr", "td", "th"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            assert tag not in self.open, (tag, self.open)


def links_of(text: str) -> list[str]:
    """Return the links of a page, whose elements must end."""
    parser = _Balance()
    parser.feed(text)
    assert parser.open == [], parser.open
    return parser.links


def test_the_first_page_has_causes_first_and_what_waits() -> None:
    """It has the age of each, the command to approve and what to do at the link; text of a device is no markup."""
    answer = client(state()).get("/", headers=PAGE)
    assert answer.status_code == 200 and "default-src 'none'" in answer.headers["Content-Security-Policy"]
    links = links_of(answer.text)
    assert links.index("/findings/aa11") < links.index("/findings/bb22") and "/devices/pod1-host1" in links
    assert "railsight approve cc33" in answer.text and "Findings as of" in answer.text
    assert "for 1m00s" in answer.text and "clean the optic at swp3" in answer.text
    assert EVIL not in answer.text and "&lt;script&gt;" in answer.text


@pytest.mark.parametrize(
    ("query", "ids"),
    [("", ["aa11", "bb22"]), ("severity=critical", ["aa11"]), ("roots=true", ["aa11"]), ("device=pod9-*", []),
     ("condition=link/*", ["aa11", "bb22"]), ("condition=rail/*", [])],
)  # fmt: skip
def test_findings_are_selected_as_the_command_selects_them(query: str, ids: list[str]) -> None:
    """The JSON has the records of Kafka."""
    found = client(state()).get(f"/v1/findings?{query}", headers=BEARER).json()
    assert [one["id"] for one in found["findings"]] == ids
    assert found["open"] == 2


def test_a_device_has_its_links_findings_sources_and_neighbors() -> None:
    """Without ClickHouse the history states the reason; the rest is there."""
    answers = client(state())
    found = answers.get("/v1/devices/pod1-host1", headers=BEARER).json()
    assert [one["id"] for one in found["findings"]] == ["aa11", "bb22"]
    assert {link["finding"] and link["finding"]["id"] for link in found["links"]} == {None, "aa11"}
    assert [one["state"] for one in found["sources"]] == ["up"]
    assert found["usability"] == "good" and found["near"][0]["host"].startswith("pod1-")
    assert [one["id"] for one in found["remediations"]] == ["cc33"]
    assert "127.0.0.1:1" in found["no_past"]
    page = answers.get("/devices/pod1-host1", headers=PAGE)
    assert f"/devices/{LINK.upper.device}" in links_of(page.text)
    assert answers.get("/devices/pod1-leaf1", headers=PAGE).status_code == 200


def test_a_device_has_the_jobs_of_the_schedulers_too() -> None:
    """The inventory of a site seldom has jobs; they are on a topic of their own."""
    job = Job("4711", "pod1-host1", datetime.fromtimestamp(NOW_NS / 1e9 - 60, UTC))
    answers = client(state(), topology=TOPOLOGY.with_jobs((job,)))
    assert answers.get("/v1/devices/pod1-host1", headers=BEARER).json()["jobs"] == ["4711"]


def test_health_without_a_report_is_unknown_and_not_good() -> None:
    """The header of every page has the warning; a device without a collector is a problem."""
    empty = client(TopState(), topology=None)
    nothing = empty.get("/v1/health", headers=BEARER).json()
    assert nothing["is_behind"] and nothing["findings_as_of_ns"] is None
    assert empty.get("/devices/pod1-host1", headers=PAGE).status_code == 404
    page = empty.get("/health", headers=PAGE)
    assert "No stage has reported" in page.text and "No source has reported" in page.text
    health = client(state()).get("/v1/health", headers=BEARER).json()
    assert (health["is_behind"], health["behind_ns"], health["sources_up"]) == (False, 2_000_000_000, 1)
    assert health["problems"][0]["state"] == "no collector"


def test_the_health_names_devices_with_syslog_that_no_table_knows() -> None:
    """With the number of lines; their sources are up."""
    found = state()
    found.update(CollectorStatus("s", 1, Source.SOURCE_SYSLOG, "pod1-leaf1", NOW_NS, True, unknown_lines=1234), 0)
    answers = client(found)
    health = answers.get("/v1/health", headers=BEARER).json()
    assert (health["sources_up"], health["unknown_lines"]) == (2, [{"device": "pod1-leaf1", "lines": 1234}])
    page = answers.get("/health", headers=PAGE).text
    assert "/devices/pod1-leaf1" in links_of(page) and "1,234" in page
    assert "1,234" not in client(state()).get("/health", headers=PAGE).text


def test_all_browsers_share_one_health_a_second() -> None:
    """Its computation reads every source of the fabric. A clock that was set back does not prolong its use."""
    found, times = state(), [0.0]
    answers = client(found, now_ns=lambda: NOW_NS + round(times[-1] * 1e9))
    up = []
    for number, at_s in enumerate((0.0, 0.9, 1.0, 1.9, -60.0)):
        times.append(at_s)
        bodies = [answers.get(path, headers=BEARER).json() for path in ("/v1/health", "/v1/findings")]
        up.append({body.get("health", body)["sources_up"] for body in bodies})
        device = f"pod1-host{number + 2}"
        found.update(CollectorStatus("nic-1", 1, Source.SOURCE_NIC, device, NOW_NS, True), time.monotonic())
    assert up == [{1}, {1}, {3}, {3}, {5}]


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/devices/unknown", 404, "device unknown is not known"),
        ("/findings/zz", 422, "identity"),
        ("/findings/abcd", 503, "127.0.0.1:1"),
        ("/jobs", 503, "127.0.0.1:1"),
        ("/jobs/default/train-1", 503, "127.0.0.1:1"),
        ("/runbooks/link-flip", 404, "no runbook"),
        ("/runbooks/..%2f..%2fREADME", 404, ""),
        ("/nothing", 404, "Not Found"),
        ("/?severity=high", 422, "severity"),
    ],
)
def test_a_refusal_is_a_page_to_a_browser_and_json_to_a_program(path: str, status: int, text: str) -> None:
    """Both have the reason."""
    answers = client(state())
    page = answers.get(path, headers=PAGE)
    assert (page.status_code, page.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert text in page.text and links_of(page.text)
    plain = answers.get(path, headers=BEARER)
    assert plain.status_code == status and text in str(plain.json()["detail"])


def test_every_condition_has_a_runbook_page() -> None:
    """A table of it is a table, and the page name with its ending is found too."""
    answers = client(state())
    for slug in {condition.slug for condition in Condition if condition}:
        page = answers.get(f"/runbooks/{slug.replace('/', '-')}.md", headers=PAGE)
        assert page.status_code == 200, slug
        links_of(page.text)


def test_the_token_is_asked_from_browsers_and_programs() -> None:
    """A browser sends it as the password of any user; nothing but the OpenAPI document is answered without it."""
    answers = client(state())
    login = {"Authorization": "Basic " + b64encode(f"noc:{TOKEN}".encode()).decode()}
    assert answers.get("/", headers=login).status_code == 200
    for path in ("/", "/v1/findings", "/health", "/devices/pod1-host1", "/runbooks/link-flap"):
        for wrong in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eDp5"}):
            assert answers.get(path, headers=wrong).status_code == 401, (path, wrong)
    assert answers.get("/", headers={"Accept": "text/html"}).headers["WWW-Authenticate"].startswith("Basic")
    assert answers.get("/v1/findings").headers["WWW-Authenticate"] == "Bearer"


def test_a_client_ca_replaces_the_token_and_needs_a_certificate(tmp_path: Path) -> None:
    """Off loopback one of both is required."""
    ca, cert = tmp_path / "ca.pem", tmp_path / "cert.pem"
    params = LocalityParams(host="10.0.0.1", cert_file=cert, client_ca_file=ca)
    assert client(state(), params).get("/v1/health").status_code == 200
    for given in ({"client_ca_file": ca}, {"host": "10.0.0.1", "cert_file": cert}):
        with pytest.raises(ValueError, match="client_ca_file"):
            LocalityParams.model_validate(given)


_SCRIPT = """<script>onload = () => {
    const measured = [...document.querySelectorAll("iframe")].map(frame => {
        const page = frame.contentDocument;
        const tables = [...page.querySelectorAll("table")].filter(table => !table.closest("details"));
        return [page.documentElement.scrollWidth - frame.clientWidth,
            ...tables.map(table => table.scrollWidth - table.clientWidth),
            page.querySelector("main").innerText.length > 20];
    });
    document.body.textContent = JSON.stringify(measured);
}</script>"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Debian's chromium")
def test_pages_fit_a_phone_a_laptop_and_a_large_screen_without_a_script(tmp_path: Path) -> None:
    """In a browser at 390, 1,366 and 1,920 pixels no page and no table is wider than its place."""
    found = state()
    for stage in ("measure", "correlate", "attribute"):
        found.update(Progress(stage, 0, 1, NOW_NS - 2_000_000_000), time.monotonic())
    answers = client(found)
    texts = [answers.get(path, headers=PAGE).text for path in ("/", "/?device=*", "/devices/pod1-host1", "/health",
                                                              "/runbooks/link-down", "/devices/none")]  # fmt: skip
    shown = [
        f'<iframe sandbox="allow-same-origin" style="border:0;width:{width}px;height:900px" srcdoc="{escape(text)}">'
        "</iframe>" for width in (390, 1366, 1920) for text in texts
    ]  # fmt: skip
    (tmp_path / "pages.html").write_text(f"<!doctype html><body>{''.join(shown)}{_SCRIPT}", encoding="utf-8")
    ran = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
         "--dump-dom", (tmp_path / "pages.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    body = re.search(r"<body>(\[.*\])</body>", ran.stdout, re.DOTALL)
    assert body is not None, ran.stdout[-2000:]
    measured = json.loads(unescape(body[1]))
    assert len(measured) == len(shown)
    for number, (*wider, has_text) in enumerate(measured):
        assert has_text and max(wider) <= 0, (number, wider)
