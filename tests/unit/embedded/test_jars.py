"""Tests the broker's jars: only the jars of the lock are used."""

import errno
import hashlib
import os
from pathlib import Path

import pytest

from streams.embedded.jars import Jar, kafka_jars, parse_lock, provide
from streams.wire.errors import Misconfigured
from tests.fakes.maven import Repository

CONTENT = {"alpha-1.0.jar": b"first", "beta-2.0.jar": b"second", "gamma-3.0.jar": b"third"}
JARS = tuple(
    Jar(
        "org.example",
        name.split("-")[0],
        name.split("-")[1].removesuffix(".jar"),
        hashlib.sha256(data).hexdigest(),
        len(data),
    )
    for name, data in CONTENT.items()
)


@pytest.fixture
def repository() -> Repository:
    return Repository(dict(CONTENT))


def bring(tmp_path: Path, repository: Repository, **environ: str) -> tuple[Path, ...]:
    return provide(jars=JARS, environ={"XDG_CACHE_HOME": str(tmp_path), **environ}, fetch=repository.fetch)


def test_a_lock_line_is_coordinates_digest_and_size() -> None:
    """A line gives a jar; comments and empty lines give none."""
    digest = "0" * 64
    assert parse_lock(f"# why\n\norg.example:tool_2.13:1.2.3 {digest} 42\n") == (
        Jar("org.example", "tool_2.13", "1.2.3", digest, 42),
    )


@pytest.mark.parametrize(
    "line",
    [
        "org.example:tool 0000 42",
        f"org.example:tool:1 {'0' * 63} 42",
        f"org.example:tool:1 {'0' * 64} many",
        f"org.example:../tool:1 {'0' * 64} 42",
        f"org.example:tool:1 {'0' * 64}",
    ],
)
def test_a_line_that_pins_nothing_is_refused_by_its_number(line: str) -> None:
    """A lock that would allow an unverified jar is refused."""
    with pytest.raises(ValueError, match="line 2"):
        parse_lock(f"# a comment\n{line}\n")


def test_the_packaged_lock_holds_a_whole_broker() -> None:
    """The lock names the broker, its client and a logger, every jar once."""
    jars = kafka_jars()
    names = [jar.name for jar in jars]
    assert len(set(names)) == len(names) == 46
    assert {"kafka_2.13-4.3.1.jar", "kafka-clients-4.3.1.jar", "slf4j-simple-1.7.36.jar"} <= set(names)


def test_a_jar_is_only_itself(tmp_path: Path) -> None:
    """The same size with other bytes, a part of it, or no file is not the jar."""
    path = tmp_path / JARS[0].name
    assert not JARS[0].is_at(path)
    for data, right in ((b"first", True), (b"firsT", False), (b"fir", False)):
        path.write_bytes(data)
        assert JARS[0].is_at(path) is right


def test_missing_jars_are_fetched_once(tmp_path: Path, repository: Repository) -> None:
    """The first call fetches everything, the second nothing, and no scratch folder stays."""
    paths = bring(tmp_path, repository)
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert sorted(repository.asked) == sorted(CONTENT)
    assert bring(tmp_path, repository) == paths
    assert len(repository.asked) == len(CONTENT)
    assert {path.name for path in paths[0].parent.iterdir()} == set(CONTENT)


def test_a_jar_with_another_digest_never_reaches_the_cache(tmp_path: Path, repository: Repository) -> None:
    """A repository that serves other bytes is refused by the jar's name; the good ones are kept."""
    repository.files[JARS[1].name] = b"evil!!"
    with pytest.raises(Misconfigured, match=r"cannot fetch beta-2\.0\.jar \(the download has another SHA-256"):
        bring(tmp_path, repository)
    cache = tmp_path / "railsight" / "kafka-4.3.1"
    assert {path.name for path in cache.iterdir()} == {JARS[0].name, JARS[2].name}


def test_without_a_network_one_line_names_the_jar_and_the_next_step(tmp_path: Path, repository: Repository) -> None:
    """The line names the jar, the reason, and the folder of jars as an alternative to the network."""
    paths = bring(tmp_path, repository)
    paths[1].unlink()
    repository.refuses = OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
    with pytest.raises(Misconfigured) as refused:
        bring(tmp_path, repository, RAILSIGHT_MAVEN_REPOSITORY="https://user:secret@mirror.test/maven/")
    line = str(refused.value)
    assert "\n" not in line
    for part in ("beta-2.0.jar", "Network is unreachable", "RAILSIGHT_KAFKA_JARS", "mirror.test/maven"):
        assert part in line
    assert "alpha" not in line
    assert "secret" not in line


def test_an_unreachable_repository_is_not_tried_for_every_jar(tmp_path: Path) -> None:
    """After the first jar without a response the others are not tried, so that the failure is reported soon."""
    repository = Repository({})
    repository.refuses = TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
    many = tuple(Jar("org.example", f"jar{i}", "1", "0" * 64, 1) for i in range(60))
    with pytest.raises(Misconfigured, match="60 jars"):
        provide(jars=many, environ={"XDG_CACHE_HOME": str(tmp_path)}, fetch=repository.fetch)
    assert len(repository.asked) < len(many) / 2


def test_a_jar_that_the_repository_lacks_is_named(tmp_path: Path, repository: Repository) -> None:
    """A mirror without one of the jars is distinguished from a missing network."""
    del repository.files[JARS[2].name]
    with pytest.raises(Misconfigured, match=r"gamma-3\.0\.jar \(the repository does not have it\)"):
        bring(tmp_path, repository)


def test_a_full_disk_is_reported_as_a_full_disk(tmp_path: Path, repository: Repository) -> None:
    """No space left is not mistaken for no network."""
    repository.refuses = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(Misconfigured, match=r"cache folder .*: No space left on device"):
        bring(tmp_path, repository)


def test_a_folder_of_jars_replaces_the_network(tmp_path: Path, repository: Repository) -> None:
    """A complete folder is used where it is, nothing is fetched, and no cache is made."""
    folder = tmp_path / "carried"
    folder.mkdir()
    for name, data in CONTENT.items():
        (folder / name).write_bytes(data)
    paths = bring(tmp_path, repository, RAILSIGHT_KAFKA_JARS=str(folder))
    assert [path.parent for path in paths] == [folder] * 3
    assert repository.asked == []
    assert not (tmp_path / "railsight").exists()


@pytest.mark.parametrize(
    ("data", "reason"),
    [(None, r"lacks beta-2\.0\.jar"), (b"wrong!", r"jars that differ from the lock: beta-2\.0\.jar")],
)
def test_a_folder_that_lacks_a_jar_or_has_another_is_refused_by_name(
    tmp_path: Path, repository: Repository, data: bytes | None, reason: str
) -> None:
    """The error names the wrong jars of a configured folder, which is neither repaired nor ignored."""
    for name, right in CONTENT.items():
        (tmp_path / name).write_bytes(right)
    if data is None:
        (tmp_path / JARS[1].name).unlink()
    else:
        (tmp_path / JARS[1].name).write_bytes(data)
    with pytest.raises(Misconfigured, match=reason):
        bring(tmp_path, repository, RAILSIGHT_KAFKA_JARS=str(tmp_path))
    assert repository.asked == []
