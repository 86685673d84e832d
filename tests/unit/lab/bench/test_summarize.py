"""Sizes of Kafka's folders by topic, and the recovery time of a killed worker."""

from pathlib import Path

from lab.bench.report import WorkerKill
from lab.bench.summarize import is_recovering, topic_bytes


def test_segments_are_counted_by_topic_and_indices_are_not(tmp_path: Path) -> None:
    """All partitions of a topic are one sum; what is no partition's folder is left out."""
    for name, size in (("a.v1-0/0.log", 10), ("a.v1-1/0.log", 5), ("a.v1-1/0.index", 1000), ("b-c-12/0.log", 7)):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    (tmp_path / "server.log").write_bytes(bytes(99))
    assert topic_bytes(tmp_path) == {"a.v1": 15, "b-c": 7}


def test_a_worker_is_on_its_way_back_from_its_kill_until_it_caught_up() -> None:
    """One that never caught up was on its way as long as it was looked at."""
    kills = (WorkerKill("process", 100.0, 6.0, 7.0, 13.0), WorkerKill("process", 300.0, None, None, None))
    seconds = (98.0, 99.5, 113.0, 113.5, 299.0, 419.0, 421.0)
    assert [is_recovering(kills, at_s) for at_s in seconds] == [False, True, True, False, True, True, False]
