"""Costs of processes, as the kernel counts them."""

import os
import subprocess
import sys
from pathlib import Path

from streams.bench.baselines import environment
from streams.bench.baselines.usage import descendants_cpu_s, wait_for_usage

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


def start(code: str, *arguments: str) -> "subprocess.Popen[str]":
    """A Python process of its own."""
    return subprocess.Popen([sys.executable, "-c", code, *arguments], text=True, stdout=subprocess.PIPE)


def test_a_process_is_charged_what_it_burnt() -> None:
    """CPU seconds are those of the process and its finished children, also where it only waits for them."""
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"
    with start(code) as process:
        usage = wait_for_usage(process, 60)
    assert usage.code == 0
    assert 0.3 <= usage.cpu_s < 3
    assert usage.peak_bytes > 1 << 20


def test_a_process_that_takes_too_long_is_killed() -> None:
    """At its timeout it is killed and has a negative code."""
    with start("import time; time.sleep(600)") as process:
        usage = wait_for_usage(process, 0.2)
    assert usage.code == -9
    assert usage.wall_s < 60


def test_a_server_is_found_among_descendants_by_its_argument() -> None:
    """Descendants with the argument count, others do not."""
    wait = BURN + "print('burnt', flush=True)\ntime.sleep(600)\n"
    with start(wait, "the-server") as server, start(wait, "another") as other:
        for process in (server, other):
            assert process.stdout is not None
            assert process.stdout.readline() == "burnt\n"
        own = descendants_cpu_s(os.getpid(), "the-server")
        server.kill()
        other.kill()
    assert 0.28 <= own < 3
    assert descendants_cpu_s(os.getpid(), "the-server") == 0


def test_the_environment_is_named_by_its_lock(tmp_path: Path) -> None:
    """Another lock is another folder, so that an old environment is never used for it."""
    one, two = environment.folder_of(b"a==1", tmp_path), environment.folder_of(b"a==2", tmp_path)
    assert one != two
    assert one == environment.folder_of(b"a==1", tmp_path)
    assert one.parent == tmp_path


def test_the_lock_pins_what_reads_our_messages_as_ours_is() -> None:
    """The numpy and protobuf of the peers' environment are those of railsight's own lock."""
    root = Path(__file__).parents[4]

    def pinned(path: Path) -> set[str]:
        lines = path.read_text(encoding="utf-8").splitlines()
        return {line.split("==")[1].split(" ")[0] for line in lines if line.startswith(("numpy==", "protobuf=="))}

    assert pinned(environment.LOCK) == pinned(root / "requirements.lock") != set()
