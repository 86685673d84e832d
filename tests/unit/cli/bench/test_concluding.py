"""What lies in Kafka's folders, counted by topic."""

from pathlib import Path

from streams.cli.bench.concluding import topic_bytes


def test_segments_are_counted_by_topic_and_indices_are_not(tmp_path: Path) -> None:
    """All partitions of a topic are one sum; what is no partition's folder is left out."""
    for name, size in (("a.v1-0/0.log", 10), ("a.v1-1/0.log", 5), ("a.v1-1/0.index", 1000), ("b-c-12/0.log", 7)):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    (tmp_path / "server.log").write_bytes(bytes(99))
    assert topic_bytes(tmp_path) == {"a.v1": 15, "b-c": 7}
