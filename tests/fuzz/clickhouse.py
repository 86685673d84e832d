"""Fuzzes the embedded ClickHouse: no statement reaches a file, a process or a host outside of it.

    python -m tests.fuzz.clickhouse --minutes 60 [--seed 1] [--layer http|engine]

Layer `http` sends to the server as its users do: writer, reader and GET in turn. Layer `engine` passes the same
statements to the engine in its sandbox directly, without the policy of statements, so that the sandbox alone is tested.
The canaries: files with a random text that no response may contain, a folder that must stay empty, a listener that
nothing may connect to, the child processes of the server, and a table that a reader may not change.
"""

import argparse
import http.client
import json
import random
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse, Limits, User
from tests.fuzz.clickhouse_grammar import Grammar, Request, Targets, Vocabulary

_WRITER, _READER = User("default", "fuzz-writer"), User("reader", "fuzz-reader", read_only=True)
_SENTINEL = "sentinel_of_readers"


class Canaries:
    """The files, folder and listener that only a break-out would touch."""

    def __init__(self, folder: Path) -> None:
        self.token = f"canary-{secrets.token_hex(8)}"
        self.out = folder / "out"
        self.out.mkdir()
        self.out.chmod(0o777)
        read = folder / "read"
        read.mkdir()
        self.files = [read / name for name in ("canary", "canary.csv", "canary.txt")]
        for file in self.files:
            file.write_text(f"{self.token}\n")
        self.connections: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.port = int(self._listening.getsockname()[1])
        self._datagrams.bind(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()
        threading.Thread(target=self._receive, daemon=True).start()

    def targets(self, more_files: list[Path]) -> Targets:
        """Return the targets for the grammar."""
        command = f"sh -c 'echo {self.token}; touch {self.out}/ran'"
        return Targets([str(f) for f in (*self.files, *more_files)], str(self.out), self.port, command)

    def breaches(self) -> list[str]:
        """Return what was reached so far."""
        found = [f"connection {one}" for one in self.connections]
        found += [f"file {one} written" for one in self.out.iterdir()]
        found += [f"file {one} changed" for one in self.files if one.read_text() != f"{self.token}\n"]
        return found

    def close(self) -> None:
        self._listening.close()
        self._datagrams.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, address = self._listening.accept()
                self.connections.append(str(address))
                peer.close()

    def _receive(self) -> None:
        with suppress(OSError):
            while True:
                self.connections.append(f"datagram {self._datagrams.recvfrom(1000)[1]}")


@dataclass
class Outcome:
    """The counts of a run; `breaches` is empty unless a statement broke out."""

    statements: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    restarts: int = 0
    breaches: list[str] = field(default_factory=list)

    def line(self) -> str:
        refused = sum(count for code, count in self.codes.items() if code)
        return (
            f"statements={self.statements} accepted={self.codes[0]} refused={refused} restarts={self.restarts} "
            f"breaches={len(self.breaches)} codes={dict(self.codes.most_common(12))}"
        )


class HttpFuzzer:
    """Sends statements to one server."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.canaries = Canaries(folder)
        self.outcome = Outcome()
        self._rng = random.Random(seed)
        self._data = folder / "data"
        limits = Limits(server_memory_bytes=2 << 30, query_memory_bytes=256 << 20, concurrent_queries=4)
        self._params = ClickHouseParams(data=self._data, users=(_WRITER, _READER), limits=limits)
        self._server = EmbeddedClickHouse(self._params)
        self._server.start()
        # A file of the server beside the engine's folder, which the engine's process must not read either.
        beside = self._data / "face" / "password-canary"
        beside.write_text(f"{self.canaries.token}\n")
        self._grammar = Grammar(self._rng, self.canaries.targets([beside]), self._vocabulary())
        self._prepare()

    def run(self, statements: int | None, until: float) -> Outcome:
        """Send statements until their number or the time is reached, or the first breach."""
        while (statements is None or self.outcome.statements < statements) and time.monotonic() < until:
            request = self._grammar.request()
            user, method = self._rng.choice(((_WRITER, "POST"), (_WRITER, "POST"), (_READER, "POST"), (_WRITER, "GET")))
            self._send(request, user, method)
            if self.outcome.breaches:
                break
        self.outcome.breaches += [one for one in self.canaries.breaches() if one not in self.outcome.breaches]
        return self.outcome

    def close(self) -> None:
        self._server.stop()
        self.canaries.close()

    def _send(self, request: Request, user: User, method: str) -> None:
        self.outcome.statements += 1
        try:
            code, body = self._exchange(request, user, method)
        except (OSError, http.client.HTTPException):
            self._restart_if_ended()
            code, body = -1, b""
        self.outcome.codes[code] += 1
        problems = []
        # A refused statement may be quoted in its error; the token is in no statement but the command's.
        sent = request.sql + repr(request.parameters) + repr(request.tables)
        if self.canaries.token.encode() in body and self.canaries.token not in sent:
            problems.append("the response has the canary's text")
        if self.outcome.statements % 20 == 0:
            problems += self.canaries.breaches() + self._children()
        if user is _READER and self._rng.random() < 0.02 and self._count() not in {None, "1"}:
            problems.append("a reader changed a table")
        if problems:
            self.outcome.breaches += [f"{problem}: {request} as {user.name} by {method}" for problem in problems]

    def _exchange(self, request: Request, user: User, method: str) -> tuple[int, bytes]:
        parameters = {"max_execution_time": "2", "max_result_rows": "1000", **request.parameters}
        headers = {"X-ClickHouse-User": user.name, "X-ClickHouse-Key": user.password}
        body = request.sql.encode(errors="surrogateescape")
        if method == "GET":
            parameters["query"], body = request.sql, b""
        elif request.tables:
            parameters["query"] = request.sql
            body, headers["Content-Type"] = _form(request.tables, parameters)
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=20)
        try:
            query = urllib.parse.urlencode(parameters, errors="surrogateescape")
            connection.request(method, f"/?{query}", body, headers)
            answer = connection.getresponse()
            return int(answer.getheader("X-ClickHouse-Exception-Code") or 0), answer.read()
        finally:
            connection.close()

    def _vocabulary(self) -> Vocabulary:
        def names(table: str) -> list[str]:
            return self._ask(f"SELECT name FROM system.{table} FORMAT TSV").split()

        documented = self._ask("SELECT examples, syntax FROM system.functions FORMAT JSONCompactEachRow")
        examples = [
            sql.strip()
            for line in documented.split("\n")
            if line
            for text in json.loads(line)
            for sql in re.findall(r"(?:SELECT|WITH)[^`;]{5,400}", str(text))
        ]
        return Vocabulary(names("functions"), names("table_functions"), names("table_engines"), examples)

    def _prepare(self) -> None:
        self._ask("CREATE TABLE IF NOT EXISTS probe (x String, y Int8) ENGINE = MergeTree ORDER BY y")
        self._ask(f"CREATE DATABASE IF NOT EXISTS {_SENTINEL}")
        self._ask(f"CREATE TABLE IF NOT EXISTS {_SENTINEL}.one (x Int8) ENGINE = MergeTree ORDER BY x")
        if self._count() == "0":
            self._ask(f"INSERT INTO {_SENTINEL}.one VALUES (1)")

    def _count(self) -> str | None:
        with suppress(OSError, http.client.HTTPException, AssertionError):
            return self._ask(f"SELECT count() FROM {_SENTINEL}.one").strip()
        return None

    def _ask(self, sql: str) -> str:
        code, body = self._exchange(Request(sql, {"max_result_rows": "0"}), _WRITER, "POST")
        assert code == 0, body
        return body.decode(errors="replace")

    def _children(self) -> list[str]:
        process = self._server._process
        pid = None if process is None else process.pid
        if pid is None:
            return []
        with suppress(OSError):
            children = [c for one in Path(f"/proc/{pid}/task").glob("*/children") for c in one.read_text().split()]
            return [f"child process {child}" for child in children]
        return []

    def _restart_if_ended(self) -> None:
        if self._server.exit_code is None:
            return
        self.outcome.restarts += 1
        self._server.stop()
        self._server = EmbeddedClickHouse(self._params)
        self._server.start()
        self._prepare()


def _form(tables: dict[str, str], parameters: dict[str, str]) -> tuple[bytes, str]:
    boundary = secrets.token_hex(8)
    parts = []
    for name, structure in tables.items():
        parameters[f"{name}_structure"] = structure
        parameters[f"{name}_format"] = "CSV"
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="x"\r\n\r\n1\r\n'
        parts.append(head)
    return ("".join(parts) + f"--{boundary}--\r\n").encode(), f"multipart/form-data; boundary={boundary}"


_ENGINE_CHILD = """
import sys, json
from pathlib import Path
from streams.embedded.clickhouse.__main__ import enter_sandbox
from streams.embedded.clickhouse.data_dir import write_configuration
from streams.embedded.clickhouse.engine import Engine
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.params import Limits
data = Path(sys.argv[1]); data.mkdir(exist_ok=True)
limits = Limits(server_memory_bytes=2 << 30, query_memory_bytes=256 << 20)
config = write_configuration(data, limits)
missing = enter_sandbox(data, config)
engine = Engine(data, config)
print(json.dumps({"missing": missing}), flush=True)
for line in sys.stdin:
    try:
        with engine.connect({"max_execution_time": "2", "max_result_rows": "1000"}, "") as connection:
            got = connection.query(json.loads(line), "TabSeparated").data[:1 << 20]
        code = 0
    except ClickHouseError as error:
        got, code = str(error).encode(errors="replace"), error.code
    except Exception as error:
        got, code = repr(error).encode(errors="replace"), -2
    print(json.dumps({"code": code, "body": got.decode(errors="replace")}), flush=True)
"""


class EngineFuzzer:
    """Passes statements to an engine in its sandbox, without server and policy."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.canaries = Canaries(folder)
        self.outcome = Outcome()
        self._folder = folder
        self._grammar = Grammar(random.Random(seed), self.canaries.targets([]), Vocabulary())
        self._child = self._start()

    def run(self, statements: int | None, until: float) -> Outcome:
        """Run statements until their number or the time is reached, or the first breach."""
        while (statements is None or self.outcome.statements < statements) and time.monotonic() < until:
            request = self._grammar.request()
            answer = self._ask(request.sql)
            self.outcome.statements += 1
            self.outcome.codes[int(answer.get("code", -1))] += 1
            if self.canaries.token in str(answer.get("body")) and self.canaries.token not in request.sql:
                self.outcome.breaches.append(f"the result has the canary's text: {request.sql!r}")
            if self.outcome.statements % 20 == 0:
                self.outcome.breaches += [f"{one}: {request.sql!r}" for one in self.canaries.breaches()]
            if self.outcome.breaches:
                break
        return self.outcome

    def close(self) -> None:
        self._end_child()
        self.canaries.close()

    def _end_child(self) -> None:
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def _start(self) -> "subprocess.Popen[str]":
        data = self._folder / f"data{self.outcome.restarts}"
        with (self._folder / "engine.log").open("w") as log:
            child = subprocess.Popen(
                [sys.executable, "-c", _ENGINE_CHILD, str(data)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert child.stdout is not None
        ready = json.loads(child.stdout.readline())
        assert not ready["missing"], ready
        return child

    def _ask(self, sql: str) -> dict[str, Any]:
        assert self._child.stdin is not None and self._child.stdout is not None
        timer = threading.Timer(20, self._child.kill)
        timer.start()
        try:
            self._child.stdin.write(json.dumps(sql) + "\n")
            self._child.stdin.flush()
            while line := self._child.stdout.readline():
                # INTO OUTFILE … AND STDOUT writes here as well.
                with suppress(ValueError):
                    answer = json.loads(line)
                    if isinstance(answer, dict) and "code" in answer:
                        return answer
        except OSError:
            pass
        finally:
            timer.cancel()
        self.outcome.restarts += 1
        self._end_child()
        self._child = self._start()
        return {"code": -1}


def main() -> int:
    """Fuzz for the requested time; return 1 after a breach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--layer", choices=("http", "engine"), default="http")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = (HttpFuzzer if given.layer == "http" else EngineFuzzer)(Path(folder), seed)
        end = time.monotonic() + given.minutes * 60
        try:
            while time.monotonic() < end and not fuzzer.outcome.breaches:
                fuzzer.run(None, min(end, time.monotonic() + 30))
                print(f"layer={given.layer} seed={seed} {fuzzer.outcome.line()}", flush=True)
        finally:
            fuzzer.close()
    for breach in fuzzer.outcome.breaches:
        print(f"breach: {breach}")
    return 1 if fuzzer.outcome.breaches else 0


if __name__ == "__main__":
    sys.exit(main())
