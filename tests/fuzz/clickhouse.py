"""Fuzzes the embedded ClickHouse: no statement reaches a file, a process or a host outside of it.

    python -m tests.fuzz.clickhouse --minutes 60 [--seed 1] [--layer http|reader|engine]

Layer `http` sends to the server as its users do: writer, reader and GET in turn. Layer `reader` sends only as the
read-only user, with hostile parameters, headers and bodies; afterwards the engine's folder has the same files with the
same bytes, and the writer was served all the time. The writer makes its tables before, with one part each, so that the
engine has nothing to do in the background: no merges, no removal of old parts and dropped tables. Layer `engine` passes
the same statements to the engine in its sandbox directly, without the gate, so that the sandbox alone is tested.
The canaries: files with a random text that no response may contain, a folder that must stay empty, a listener that
nothing may connect to, the child processes of the server, and a table that a reader may not change.
"""

import argparse
import gzip
import hashlib
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
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse, Limits, User
from tests.fixtures.changing_folder import paths_below
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
    writer_s: float = 0.0
    """The longest time of a statement of the writer beside a reader."""

    def line(self) -> str:
        refused = sum(count for code, count in self.codes.items() if code)
        return (
            f"statements={self.statements} accepted={self.codes[0]} refused={refused} restarts={self.restarts} "
            f"breaches={len(self.breaches)} writer_s={self.writer_s:.2f} codes={dict(self.codes.most_common(12))}"
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
        self.engine = self._data / "engine"
        # A file of the server beside the engine's folder, which the engine's process must not read either.
        beside = self._data / "face" / "password-canary"
        beside.write_text(f"{self.canaries.token}\n")
        targets = self.canaries.targets([beside, *self._more_files()])
        self._grammar = Grammar(self._rng, self._aimed(targets), self._vocabulary())
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

    def _more_files(self) -> list[Path]:
        return []

    def _aimed(self, targets: Targets) -> Targets:
        return targets

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

    def _exchange(
        self, request: Request, user: User, method: str, hostile: "Hostile | None" = None
    ) -> tuple[int, bytes]:
        parameters = {"max_execution_time": "2", "max_result_rows": "1000", **request.parameters}
        headers = {"X-ClickHouse-User": user.name, "X-ClickHouse-Key": user.password}
        body = request.sql.encode(errors="surrogateescape")
        if method == "GET":
            parameters["query"], body = request.sql, b""
        elif request.tables:
            parameters["query"] = request.sql
            body, headers["Content-Type"] = _form(request.tables, parameters)
        if hostile is not None:
            parameters, headers = {**parameters, **hostile.parameters}, {**headers, **hostile.headers}
            body = hostile.change(body)
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


def _header(text: str) -> str:
    return "".join(letter for letter in text if letter.isascii() and letter.isprintable())


def files_of(folder: Path) -> dict[str, tuple[int, str]]:
    """Return the mode and the digest of every file and folder below a folder."""
    found = {}
    for path in paths_below(folder):
        with suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path.relative_to(folder))] = (mode, hashlib.sha256(content).hexdigest())
    return found


def changes(before: dict[str, tuple[int, str]], after: dict[str, tuple[int, str]]) -> list[str]:
    """Return the paths that differ."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


@dataclass(frozen=True)
class Hostile:
    """Adds parameters and headers to a request, and changes its body."""

    parameters: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    change: Callable[[bytes], bytes] = bytes


class ReaderFuzzer(HttpFuzzer):
    """Sends as the read-only user alone; the engine's folder must stay the same, and the writer be served."""

    def run(self, statements: int | None, until: float) -> Outcome:
        """Send statements until their number or the time is reached, or the first breach."""
        before = files_of(self.engine)
        stop = threading.Event()
        writer = threading.Thread(target=self._serve_writer, args=(stop,))
        writer.start()
        try:
            while (statements is None or self.outcome.statements < statements) and time.monotonic() < until:
                self._send(self._grammar.request(), _READER, self._rng.choice(("POST", "POST", "GET")))
                if self.outcome.statements % 25 == 0 and (found := changes(before, files_of(self.engine))):
                    self.outcome.breaches.append(f"the engine's folder differs: {found[:5]}")
                if self.outcome.breaches:
                    break
        finally:
            stop.set()
            writer.join()
        if "Traceback" in self._server.log.read_text(errors="replace"):
            self.outcome.breaches.append("the server's log has a stack trace")
        found = changes(before, files_of(self.engine))
        self.outcome.breaches += [f"the engine's folder differs: {found[:5]}"] if found else []
        self.outcome.breaches += [one for one in self.canaries.breaches() if one not in self.outcome.breaches]
        return self.outcome

    def _exchange(self, request: Request, user: User, method: str, hostile: Hostile | None = None) -> tuple[int, bytes]:
        return super()._exchange(request, user, method, self._hostile() if user is _READER else None)

    def _aimed(self, targets: Targets) -> Targets:
        # A parameter with the canaries' text would stay in its session.
        return replace(targets, folder=str(self.engine), command=f"touch {self.canaries.out}/ran")

    def _more_files(self) -> list[Path]:
        return [self.engine / "metadata" / "default.sql", self._data / "face" / "users.xml"]

    def _serve_writer(self, stop: threading.Event) -> None:
        while not stop.wait(0.1):
            began = time.monotonic()
            with suppress(OSError, http.client.HTTPException, AssertionError):
                self._ask("SELECT count() FROM probe")
                self.outcome.writer_s = max(self.outcome.writer_s, time.monotonic() - began)

    def _hostile(self) -> Hostile:
        one, loot = self._rng.choice, f"{self.engine}/loot"
        text = str(one((
            f"Null; SELECT 'x' INTO OUTFILE '{loot}'", f"TSV INTO OUTFILE '{loot}' TRUNCATE FORMAT RawBLOB", "JSON\r\nX: y",
            f"DEFAULT; SELECT 1 INTO OUTFILE '{loot}'", "\r", "\0", "../../x", "x" * 9000, "`", "'; DROP TABLE probe; --",
            f"x\n/* */ INTO OUTFILE '{loot}'", "\x1b[2J", "\u202e", "Native", "JSON", "Parquet", "1", "",
        )))  # fmt: skip
        session = {"session_id": str(self._rng.randrange(3))} if self._rng.random() < 0.3 else {}
        kind = self._rng.randrange(12)
        if kind == 0:
            return Hostile({"default_format": text, **session})
        if kind == 1:
            return Hostile(session, {"X-ClickHouse-Format": _header(text)})
        if kind == 2:
            return Hostile({text: "1", **session})
        if kind == 3:
            name = one(
                ("query_id", "session_id", "database", "quota_key", "role", "session_timeout", "compress", "extremes")
            )
            return Hostile({name: text})
        if kind == 4:
            return Hostile({one(("decompress", "compress", "wait_end_of_query")): "1", **session})
        if kind == 5:
            return Hostile({}, {"Content-Encoding": one(("gzip", "br", "zstd", "lz4", "xz", "x"))}, self._garbled)
        if kind == 6:
            boundary = one(("x", "", _header(text[:70])))
            return Hostile({}, {"Content-Type": f"multipart/form-data; boundary={boundary}"}, self._garbled)
        if kind == 7:
            return Hostile(session, {}, self._with_a_byte)
        return Hostile(session)

    def _with_a_byte(self, body: bytes) -> bytes:
        at = self._rng.randrange(len(body) + 1)
        return body[:at] + self._rng.choice((b"\xff", b"\x80'", b"'\xc3", b"$$\xfe$$", b"\0")) + body[at:]

    def _garbled(self, body: bytes) -> bytes:
        packed = self._rng.choice((gzip.compress, zlib.compress, bytes, lambda b: b"--x\r\n" + b))(body)
        return packed[: self._rng.randrange(len(packed) + 1)] if self._rng.random() < 0.5 else packed


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
enter_sandbox(data, config)
engine = Engine(data, config)
print(json.dumps({"ready": True}), flush=True)
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
    """Passes statements to an engine in its sandbox, without server and gate."""

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
        assert json.loads(child.stdout.readline()) == {"ready": True}
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


_FUZZERS: dict[str, type[HttpFuzzer] | type[EngineFuzzer]] = {
    "http": HttpFuzzer,
    "reader": ReaderFuzzer,
    "engine": EngineFuzzer,
}


def main() -> int:
    """Fuzz for the requested time; return 1 after a breach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--layer", choices=_FUZZERS, default="http")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = _FUZZERS[given.layer](Path(folder), seed)
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
