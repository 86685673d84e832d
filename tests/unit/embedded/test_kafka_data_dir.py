"""Tests that a data folder belongs to one cluster with constant ports."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from streams.embedded.kafka_config import KafkaParams
from streams.embedded.kafka_data_dir import (
    FIRST_PORT,
    LAST_PORT,
    free_ports,
    is_free,
    lock,
    new_cluster_id,
    prepare_cluster,
)
from streams.wire.errors import Misconfigured

HOLDS_THE_LOCK = """
import fcntl, sys, time
fcntl.flock(int(sys.argv[1]), fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


def listener(port: int = 0) -> socket.socket:
    taken = socket.socket()
    taken.bind(("127.0.0.1", port))
    taken.listen(1)
    return taken


def test_free_ports_differ_and_no_connection_can_take_them() -> None:
    """Ports come from below the ephemeral range, each once."""
    found = free_ports(6)
    assert len(set(found)) == 6
    lowest_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(FIRST_PORT <= port < min(LAST_PORT, lowest_ephemeral) for port in found)


def test_a_port_with_a_listener_is_not_free() -> None:
    """A listener is detected; a closed one is not in the way."""
    with listener() as taken:
        port = taken.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_folder_keeps_its_cluster_and_its_ports(tmp_path: Path, brokers: int) -> None:
    """A second start finds the same id and the same ports, all different."""
    params = KafkaParams.model_validate({"brokers": brokers})
    first = prepare_cluster(tmp_path, params)
    ports = [port for pair in first.ports for port in (pair.broker, pair.controller)]
    assert len(set(ports)) == 2 * brokers
    assert prepare_cluster(tmp_path, params) == first


def test_a_recorded_port_that_is_taken_is_replaced(tmp_path: Path) -> None:
    """Without a configured port, another one is used when the old one is taken."""
    before = prepare_cluster(tmp_path, KafkaParams()).ports[0]
    with listener(before.broker):
        after = prepare_cluster(tmp_path, KafkaParams()).ports[0]
    assert after.broker != before.broker
    assert after.controller == before.controller


def test_a_given_port_is_used_and_others_follow(tmp_path: Path) -> None:
    """The first broker has the port that was asked for, and no controller takes one of the others'."""
    port = next(p for p in free_ports(50) if is_free(p + 1) and is_free(p + 2))
    settled = prepare_cluster(tmp_path, KafkaParams(brokers=3, port=port)).ports
    assert [pair.broker for pair in settled] == [port, port + 1, port + 2]
    assert len({p for pair in settled for p in (pair.broker, pair.controller)}) == 6


def test_a_given_port_that_is_taken_is_refused_by_its_number(tmp_path: Path) -> None:
    """A configured port that is taken is an error, and no other is used."""
    with listener() as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Misconfigured, match=rf"port {port} on 127\.0\.0\.1 is taken"):
            prepare_cluster(tmp_path, KafkaParams(port=port))


def test_a_cluster_does_not_change_its_size(tmp_path: Path) -> None:
    """A folder of one broker is not started as three, which would lose its quorum."""
    prepare_cluster(tmp_path, KafkaParams())
    with pytest.raises(Misconfigured, match="has a cluster of 1, not of 3"):
        prepare_cluster(tmp_path, KafkaParams(brokers=3))


@pytest.mark.parametrize("text", ["{", "{}", '{"cluster_id": "x", "ports": [{"broker": 1}]}'])
def test_a_damaged_record_is_one_clear_line(tmp_path: Path, text: str) -> None:
    """An invalid record is an error with its path."""
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(Misconfigured, match=r"cluster\.json is not what a broker wrote"):
        prepare_cluster(tmp_path, KafkaParams())


def test_an_id_never_looks_like_an_option() -> None:
    """The id is passed on a command line, so it does not begin with a dash."""
    made = [new_cluster_id() for _ in range(500)]
    assert len(set(made)) == 500
    assert all(len(one) == 22 and not one.startswith("-") for one in made)


def test_a_folder_in_use_is_refused_at_once_while_its_owner_lives(tmp_path: Path) -> None:
    """The owner's process is named without waiting, because it runs on."""
    reason = rf"in use by another broker \(process {os.getpid()}\)"
    with lock(tmp_path, 60), pytest.raises(Misconfigured, match=reason), lock(tmp_path, 60):
        pass


def test_a_folder_of_an_ended_owner_is_awaited(tmp_path: Path) -> None:
    """A broker that is stopping still has the lock; its successor gets the folder after its end."""
    (tmp_path / "lock").write_text(f"{_dead_pid()}\n")
    lock_fd = os.open(tmp_path / "lock", os.O_RDWR)
    leaving = subprocess.Popen(
        [sys.executable, "-c", HOLDS_THE_LOCK, str(lock_fd)],
        stdout=subprocess.PIPE,
        pass_fds=(lock_fd,),
    )
    os.close(lock_fd)
    assert leaving.stdout is not None
    leaving.stdout.readline()
    with pytest.raises(Misconfigured), lock(tmp_path, 0.1):
        pass
    threading.Timer(0.2, leaving.kill).start()
    with lock(tmp_path, 30):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    leaving.wait()
    leaving.stdout.close()


def _dead_pid() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid
