"""Tests jars fetched by jgo itself, from a repository on loopback, and a broker on a machine without a network."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from streams.embedded.jars import kafka_jars, provide
from streams.embedded.java import feature_of, find_java, version_of
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_aot import cache_of
from streams.embedded.kafka_config import KafkaParams
from streams.embedded.kafka_node import Software


@dataclass
class Mirror:
    """A repository in Maven's layout over the cached jars, which records the requests."""

    address: str = ""
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def jars() -> tuple[Path, ...]:
    """Return the real jars, from the user's cache or from the network."""
    return provide()


@pytest.fixture
def mirror(jars: tuple[Path, ...]) -> Iterator[Mirror]:
    """Yield a mirror that serves the real jars."""
    places = {
        f"/m2/{jar.group.replace('.', '/')}/{jar.artifact}/{jar.version}/{jar.name}": path
        for jar, path in zip(kafka_jars(), jars, strict=True)
    }
    served = Mirror()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = places.get(self.path)
            if path is None:
                self.send_error(404)
                return
            served.asked.append(path.name)
            self.send_response(200)
            self.send_header("Content-Length", str(path.stat().st_size))
            self.end_headers()
            self.wfile.write(path.read_bytes())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.address = f"http://127.0.0.1:{server.server_port}/m2"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_empty_cache_is_filled_and_only_damaged_jars_are_fetched_again(tmp_path: Path, mirror: Mirror) -> None:
    """All jars are fetched by jgo from the mirror; then a damaged and a missing one are fetched again, and no other."""
    environ = {"XDG_CACHE_HOME": str(tmp_path), "RAILSIGHT_MAVEN_REPOSITORY": mirror.address}
    paths = provide(environ=environ)
    assert all(jar.is_at(path) for jar, path in zip(kafka_jars(), paths, strict=True))
    assert len(mirror.asked) == len(paths)
    mirror.asked.clear()
    paths[0].write_bytes(b"\0" * paths[0].stat().st_size)
    paths[7].unlink()
    assert provide(environ=environ) == paths
    assert sorted(mirror.asked) == sorted([paths[0].name, paths[7].name])
    assert kafka_jars()[0].is_at(paths[0])


def test_a_damaged_cache_costs_only_speed(
    tmp_path: Path, jars: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the JVM crashes with an AOT cache, the broker starts without it, and the cache is removed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("RAILSIGHT_KAFKA_JARS", str(jars[0].parent))
    cache = cache_of(Software(find_java(), jars, 256))
    assert cache is not None
    with EmbeddedKafka(KafkaParams(data=tmp_path / "first")) as kafka:
        assert kafka.training is not None
        assert kafka.training.wait(120)
    made = cache.read_bytes()
    middle = len(made) // 3
    cache.write_bytes(made[:middle] + b"\xa5" * 100_000 + made[middle + 100_000 :])
    with EmbeddedKafka(KafkaParams(data=tmp_path / "second")) as kafka:
        assert kafka.ready()
        assert kafka.training is not None
        assert not cache.exists()


def test_a_broker_runs_on_an_older_java_without_an_aot_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a Java of 17 to 24 no cache is trained, and the broker starts."""
    homes = sorted(Path("/usr/lib/jvm").glob("java-*"))
    home = next((home for home in homes if 17 <= feature_of(version_of(home) or "") < 25), None)
    if home is None:
        pytest.skip("no Java of 17 to 24 on this machine")
    monkeypatch.setenv("JAVA_HOME", str(home))
    kafka = EmbeddedKafka(KafkaParams(data=tmp_path))
    with kafka:
        assert kafka.ready()
        assert kafka.training is None
