"""`python -m tests.bench.locality_requests`: requests that schemathesis makes of the locality's OpenAPI document.

Serves the demo's fabric on loopback without Kafka; its state changes each second between a healthy rail and a degraded
one, so that long polls and streams have events. All phases run: examples, coverage, fuzzing and stateful. Schemathesis
comes into an environment of its own (`uv tool run`), so that the lock has nothing of it; `--st` names an installed one.
Exits 1 for an answer 500 or any violation of the document, and for fewer requests than `--at-least`.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streams.config.kafka import KafkaSettings
from streams.config.settings import Settings
from streams.locality.model import Knowledge, Locality
from streams.locality.params import LocalityParams
from streams.report.locality.service import Current, LocalityService, version_of
from streams.report.top.state import TopState
from streams.report.web import server
from streams.report.web.answers import Answers
from streams.report.web.server import application
from streams.wire.models import Condition, Finding, Severity, Status, Subject
from tests.worlds.localities import NOW_NS, demo_groups

TOKEN = "a-token-of-tests"
CHANGE_S = 1.0
UV = [str(Path(sys.executable).with_name("uv")), "tool", "run", "--from", "schemathesis==4.32.5", "st"]
DEGRADED = Finding(
    "0123456789abcdef", 1, False, Condition.RAIL_DEGRADED, Status.OPEN, Severity.WARNING, Subject("rail:pod1-host2/3"),
    NOW_NS, NOW_NS, summary="pod1-host2 rail 3 sends less than its peers",
)  # fmt: skip
_CONFIG = """
request-timeout = 20
[[operations]]
include-path = "/v1/events"
parameters = {{"query.seconds" = 1}}
generation = {{max-examples = {slow}}}
[[operations]]
include-path = "/v1/version"
parameters = {{"query.wait_s" = 0.01}}
"""
"""Streams and long polls are bounded, or each request of them takes up to an hour."""


class ChangingService(LocalityService):
    """A service whose state is the demo's fabric, in turn without and with a degraded rail."""

    async def run(self) -> None:
        """Change the state until cancelled."""
        states = [self._state(Knowledge()), self._state(Knowledge(findings=(DEGRADED,)))]
        while True:
            for state in states:
                self.current, self._problem = state, ""
                changed, self._changed = self._changed, asyncio.Event()
                changed.set()
                await asyncio.sleep(CHANGE_S)

    def _state(self, knowledge: Knowledge) -> Current:
        locality = Locality(demo_groups(), knowledge, NOW_NS)
        return Current(locality, version_of(locality))


class CountingApplication:
    """Counts the requests by operation, and the answers by status."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.requests: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.statuses[message["status"]] += 1
                route = scope.get("route")
                path = getattr(route, "path", "") if scope["method"] == "GET" else ""
                self.requests[path or "no operation of the document"] += 1
            await send(message)

        await self._app(scope, receive, counted if scope["type"] == "http" else send)


async def run(program: list[str], examples: int, workers: int, seed: int) -> tuple[int, CountingApplication]:
    """Serve, and run schemathesis; return its exit code and the counts."""
    params = LocalityParams(port=0)
    service = ChangingService(KafkaSettings(bootstrap="127.0.0.1:1"), params, time.time_ns, time.monotonic)
    counted = CountingApplication(application(Answers(Settings(), TopState(), service), params, TOKEN))
    listener = server.listen(params)
    http = server.http_server(counted, params)
    tasks = [asyncio.create_task(service.run()), asyncio.create_task(http.serve(sockets=[listener]))]
    try:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "schemathesis.toml"
            config.write_text(_CONFIG.format(slow=max(10, examples // 20)))
            process = await asyncio.create_subprocess_exec(
                *program, "--config-file", str(config), "run",
                f"http://127.0.0.1:{listener.getsockname()[1]}/openapi.json", "--header",
                f"Authorization: Bearer {TOKEN}", "--max-examples", str(examples), "--workers", str(workers),
                "--seed", str(seed), "--generation-database", "none", "--continue-on-failure",
                "--phases", "examples,coverage,fuzzing,stateful", cwd=folder,
            )  # fmt: skip
            code = await process.wait()
    finally:
        http.should_exit = True
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return code, counted


def main() -> None:
    """Run, and print the counts as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--st", help="an installed schemathesis; default: uv fetches one")
    parser.add_argument("--examples", type=int, default=1500, help="of each operation in a phase")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-least", type=int, default=10_000, help="requests in all")
    given = parser.parse_args()
    code, counts = asyncio.run(run([given.st] if given.st else UV, given.examples, given.workers, given.seed))
    total = sum(counts.requests.values())
    failed = sum(count for status, count in counts.statuses.items() if status >= 500)
    result = {
        "requests": total, "by_operation": dict(counts.requests.most_common()), "server_errors": failed,
        "by_status": {str(status): count for status, count in sorted(counts.statuses.items())}, "exit_code": code,
    }  # fmt: skip
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    sys.exit(bool(code or failed or total < given.at_least))


if __name__ == "__main__":
    main()
