"""Thousands of log records, log lines and sysfs files of any content: no crash, no stall, every refusal counted."""

import random
import re
import shutil
import time
from pathlib import Path

from collectors.core.context import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from collectors.host.kernel_log import LABEL, KernelLog
from collectors.host.lines import MOST_BYTES, Times, parse
from collectors.host.log_sources import Kmsg
from collectors.host.messages import classify
from collectors.host.rate_limit import RateLimitedEmitter
from collectors.kernel.ports import KnownPorts
from tests.fakes.boot_time import SetZero
from tests.fakes.kmsg import FakeKmsg
from tests.fixtures.host_agent import START_NS, listening, whole
from tests.fixtures.host_tree import GPU, NIC0, NIC1, folder, machine
from tests.fixtures.malformed_files import content, spoil

S = 10**9
MANY = 10_000
BOUND_S = 5.0
"""For a thousand lines, which take some milliseconds: a stall, not a busy machine."""

SEEDS = [
    f"mlx5_core {NIC0} ens1np0: Link down",
    f"mlx5_core {NIC1}: port_module:251:(pid 0): Port module event[error]: module 0, Cable error, High Temperature",
    f"mlx5_core {NIC1}: poll_health:825:(pid 0): device's health compromised - reached miss count",
    "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.",
    f"mlx5_core {NIC0} ens1np0: renamed from eth0",
    "usb 1-2: New USB device found",
]
STAMPS = [
    "", "<6>[ 1000.250000] ", "[ 1000.250000] ", "2026-11-21T10:00:00,250000+00:00 ", "Nov 21 10:00:00 gpu17 kernel: ",
    "2026-11-21T10:00:00.25Z gpu17 kernel: [ 1000.250000] ", "[Sat Nov 21 10:00:00 2026] ", "6,7,1000250000,-;",
]  # fmt: skip


def spoilt(text: bytes, rng: random.Random) -> bytes:
    """Nearly the same, or nothing like it."""
    match rng.randrange(8):
        case 0:
            return rng.randbytes(rng.randrange(200))
        case 1:
            return text[: rng.randrange(len(text) + 1)]
        case 2:
            return re.sub(rb"\d", lambda _: rng.choice([b"9" * 30, b"", b"-1", b"\xc2\xb2"]), text, count=3)
        case 3:
            return text + b"A" * rng.choice([100, MOST_BYTES, 5 * MOST_BYTES])
        case 4:
            at = rng.randrange(len(text) + 1)
            return text[:at] + rng.randbytes(3) + text[at:]
        case 5:
            return text.replace(b" ", b" " * 50).replace(b"0", b"0" * 9)
        case _:
            return text


async def test_records_of_a_device(tmp_path: Path) -> None:
    """Each that is no record is one refusal; the last one, which is one, is an event."""
    rng = random.Random(20261121)
    ring, metrics, names = FakeKmsg(), CollectorMetrics(), KnownPorts("rdma")
    found = whole(machine(tmp_path))
    await found.agent.find()
    names.adopt(known.port for known in found.agent.known.ports)
    result: list[DeviceEvent] = []

    def emit(happening: DeviceEvent, _: int) -> None:
        result.append(happening)

    log = KernelLog(
        Kmsg(ring, 1, None), Times(SetZero(START_NS - 1000 * S)), names,
        RateLimitedEmitter(1.0, 20, metrics, LABEL, emit), metrics, emit, boot_id=1, of_device=True, not_before_ns=0,
    )  # fmt: skip
    refused = sequence = 0
    for turn in range(MANY):
        sequence += 1
        data = spoilt(f"6,{sequence},{turn},-;{rng.choice(SEEDS)}\n".encode(), rng)
        data = data or b"x"  # the kernel has no empty record
        number = re.match(rb"[^,]*,(\d{1,19}),", data)
        if number is not None and not sequence <= int(number[1]) <= sequence:
            data = f"6,{sequence},{turn},-;changed".encode()  # the kernel sets the numbers, whatever the text
        is_record = re.match(rb"\d{1,4},\d{1,19},\d{1,18},[^;\n]{0,200};", data.decode("utf-8", "replace").encode())
        refused += not is_record or len(data) > MOST_BYTES
        ring.put(data)
        if turn % 500 == 499:
            began = time.perf_counter()
            assert log.look(START_NS, turn)
            assert time.perf_counter() - began < BOUND_S
    assert metrics.value("unreadable") == refused > MANY / 20
    assert len(result) > 100 and metrics.value("out_of_bounds") == 0
    ring.put(f"6,{sequence + 1},1,-;{SEEDS[3]}".encode())
    log.look(START_NS, 1e6)
    assert result[-1].code == 79


async def test_lines_of_a_file(tmp_path: Path) -> None:
    """Endless lines, random bytes, other formats: valid lines are reported, and reading continues."""
    rng = random.Random(20261122)
    found = await listening(machine(tmp_path))
    path = tmp_path / "kern.log"
    too_long = 0
    for _ in range(MANY // 1000):
        lines = [
            spoilt((rng.choice(STAMPS) + rng.choice(SEEDS)).encode(), rng).replace(b"\n", b" ") for _ in range(1000)
        ]
        too_long += sum(len(line) > MOST_BYTES for line in lines)
        with path.open("ab") as file:
            file.write(b"\n".join(lines) + b"\n")
        began = time.perf_counter()
        for _ in range(4):
            found.look(0.25)
        assert time.perf_counter() - began < BOUND_S
    assert found.metrics.value("unreadable") >= too_long > 100
    assert len(found.events()) > 100
    before = len(found.events())
    with path.open("ab") as file:
        file.write(b"NVRM: Xid (PCI:0000:9b:00): 4711, the last\n")
    found.look(0.25)
    assert [event.code for event in found.events()[before:]] == [4711]


async def test_files_of_a_tree(tmp_path: Path) -> None:
    """Words, bytes, folders, pipes and links onto themselves in place of files."""
    rng = random.Random(20261123)
    count = 0
    while count < MANY:
        root = machine(tmp_path / str(count))
        files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
        found = whole(root, discover_every_s=1)
        await found.agent.read_once()
        for _ in range(8):
            for path in rng.sample(files, len(files) - 5):
                spoil(path, rng)
                count += 1
            began = time.perf_counter()
            await found.agent.find()
            await found.agent.read_once()
            assert time.perf_counter() - began < BOUND_S
        await whole(root).agent.read_once()  # as one that starts on the spoilt tree
        shutil.rmtree(root)


async def test_every_link_that_makes_no_sense_is_counted(tmp_path: Path) -> None:
    """And its value is absent."""
    rng = random.Random(20261124)
    root = machine(tmp_path)
    found = whole(root)
    refused = 0
    for _ in range(100):
        for pci in (NIC0, NIC1, GPU):
            data = content(rng)
            (root / folder(pci) / "current_link_width").write_bytes(data)
            text = data[:4096].decode("utf-8", "replace").strip()
            is_width = re.fullmatch(r"[0-9]{1,3}", text) and (int(text) <= 32 or int(text) in {63, 255})
            refused += not is_width
        await found.agent.read_once()
    assert found.metrics.value("unreadable") == refused > 100


def test_no_pattern_takes_long_over_a_line_that_is_made_for_it() -> None:
    """A line is bounded, and so is what reading it costs."""
    for unit in (
        "0000:",
        "a ",
        "NVRM: Xid (",
        "mlx5_core 0000:18:00.0 ",
        "[ ",
        "NVRM: 0000:9b:00 ",
        "Link ",
        "0,",
        ": ",
    ):
        text = (unit * MOST_BYTES)[: MOST_BYTES - 20]
        began = time.perf_counter()
        classify(text)
        classify(f"mlx5_core {NIC0}: {text}")
        parse(text.encode(), START_NS)
        assert time.perf_counter() - began < 1.0
