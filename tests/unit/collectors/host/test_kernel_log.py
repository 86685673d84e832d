"""Events of the kernel log: named by port, dated, once each over restarts, and never by the thousand."""

import asyncio
from pathlib import Path

import pytest

from collectors.core.context import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from collectors.host.kernel_log import LABEL, KernelLog, oldest_record_ns
from collectors.host.lines import Times
from collectors.host.log_sources import Kmsg, Place
from collectors.host.params import Params
from collectors.host.rate_limit import RateLimitedEmitter
from collectors.kernel.ports import KnownPorts
from streams.wire.models import Event, EventKind
from tests.fakes.boot_time import SetZero
from tests.fakes.kmsg import FakeKmsg
from tests.fixtures.host_agent import START_NS, listening, whole
from tests.fixtures.host_tree import BOOT_S, GPU, NIC0, NIC1, machine
from tests.fixtures.nic_tree import SetClock, write
from tests.fixtures.running_task import run_beside
from tests.recordings import field_report, linked_tree

S = 10**9
NEW_BOOT = 99


def stamp(at_ns: int, zero_ns: int = BOOT_S * S) -> str:
    since_us = (at_ns - zero_ns) // 1000
    return f"<6>[{since_us // 10**6:5d}.{since_us % 10**6:06d}] "


def say(root: Path, at_ns: int, *messages: str) -> None:
    """Write lines of one moment to the log."""
    with (root / "kern.log").open("a") as file:
        file.writelines(f"{stamp(at_ns)}{message}\n" for message in messages)


def brief(events: list[Event]) -> list[tuple[EventKind, str, int]]:
    """Kind, port and code."""
    return [(event.kind, event.port, event.code) for event in events]


async def test_lines_become_events_of_the_port_that_the_nic_collector_names(tmp_path: Path) -> None:
    """With the device's own words, at the time at which they were written."""
    found = await listening(machine(tmp_path))
    at_ns = START_NS + S // 10
    say(
        tmp_path, at_ns,
        f"mlx5_core {NIC0} ens1np0: Link down",
        f"mlx5_core {NIC1}: Port module event: module 1, Cable unplugged",
        f"mlx5_core {NIC1}: mlx5_pcie_event:299:(pid 2): Detected insufficient power on the PCIe slot (27W).",
        "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.",
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        "usb 1-2: New USB device found",
    )  # fmt: skip
    found.look(0.25)
    assert brief(found.events()) == [
        (EventKind.LINK_DOWN, "mlx5_0", 0), (EventKind.MODULE_REMOVED, "mlx5_1", 0),
        (EventKind.SLOT_POWER, "mlx5_1", 0), (EventKind.GPU_XID, GPU, 79), (EventKind.LOG, "", 20034),
    ]  # fmt: skip
    first = found.events()[0]
    assert (first.at_ns, first.received_at_ns) == (at_ns, found.clock.ns)
    assert (first.device, first.detail) == ("gpu17", f"mlx5_core {NIC0} ens1np0: Link down")
    assert [event.sequence for event in found.events()] == [1, 2, 3, 4, 5]


async def test_what_is_no_port_of_the_fabric_opens_no_link(tmp_path: Path) -> None:
    """A management port, an unknown function, a process that imitates the kernel."""
    found = await listening(machine(tmp_path), management=("mlx5_1",))
    say(
        tmp_path, START_NS, f"mlx5_core {NIC1} ens2np0: Link down", "mlx5_core 0000:77:00.2 ens9v0: Link down",
        "mlx5_core 0000:77:00.0: poll_health:1:(pid 0): device's health compromised - reached miss count",
    )  # fmt: skip
    with (tmp_path / "kern.log").open("a") as file:
        file.write(f"<14>[ 1000.000000] mlx5_core {NIC0} ens1np0: Link down\n")
    found.look(0.25)
    assert brief(found.events()) == [(EventKind.NIC_FIRMWARE_ERROR, "0000:77:00.0", 0)]
    assert found.metrics.value("unnamed") == 1 and found.agent.known.wants_look


async def test_a_restart_neither_repeats_nor_leaves_out(tmp_path: Path) -> None:
    """Also messages written while the agent did not run."""
    root = machine(tmp_path)
    first = await listening(root)
    say(root, START_NS, f"mlx5_core {NIC0} ens1np0: Link down")
    first.look(0.25)
    first.agent.close()
    first.agent.listening.save()
    say(root, START_NS + 3 * S, f"mlx5_core {NIC0} ens1np0: Link up")
    second = await listening(root, SetClock(START_NS + 60 * S))
    say(root, START_NS + 60 * S, f"mlx5_core {NIC1} ens2np0: Link down")
    second.look(0.25)
    assert brief(first.events()) == [(EventKind.LINK_DOWN, "mlx5_0", 0)]
    assert brief(second.events()) == [(EventKind.LINK_UP, "mlx5_0", 0), (EventKind.LINK_DOWN, "mlx5_1", 0)]
    assert second.events()[0].at_ns == START_NS + 3 * S


async def test_what_kafka_never_had_is_reported_again(tmp_path: Path) -> None:
    """Killed while Kafka was away, a process leaves nothing out."""
    root = machine(tmp_path)
    first = await listening(root)
    say(root, START_NS, f"mlx5_core {NIC0} ens1np0: Link down")
    first.look(0.25)
    first.agent.listening.note(10.0)
    first.publisher.is_there = False
    say(root, START_NS, f"mlx5_core {NIC0} ens1np0: Link up")
    first.look(0.25)
    first.agent.listening.note(20.0)
    second = await listening(root)
    assert brief(second.events()) == [(EventKind.LINK_UP, "mlx5_0", 0)]


async def test_lines_over_a_reboot_are_dated_each_by_its_own_boot(tmp_path: Path) -> None:
    """The unread last messages of the previous boot, and the first of the next."""
    root = machine(tmp_path)
    first = await listening(root)
    say(root, START_NS, f"mlx5_core {NIC0} ens1np0: Link down")
    first.look(0.25)
    first.agent.close()
    first.agent.listening.save()
    say(root, START_NS + 5 * S, f"mlx5_core {NIC1} ens2np0: Link down")
    zero_ns = (BOOT_S + 1100) * S
    (root / "proc/stat").write_text(f"btime {BOOT_S + 1100}\n")
    with (root / "kern.log").open("a") as file:
        file.write(f"{stamp(zero_ns + 12 * S, zero_ns)}mlx5_core {NIC1} ens2np0: Link up\n")
    second = await listening(root, SetClock(zero_ns + 20 * S), boot_id=NEW_BOOT)
    assert [(e.kind, e.at_ns) for e in second.events()] == [
        (EventKind.LINK_DOWN, START_NS + 5 * S), (EventKind.LINK_UP, zero_ns + 12 * S),
    ]  # fmt: skip


async def test_a_clock_that_is_off_is_put_right(tmp_path: Path) -> None:
    """And stays so over a restart, for the lines that were written meanwhile."""
    root = machine(tmp_path)
    first = await listening(root)
    off_ns = 120 * S
    say(root, START_NS + S // 10 - off_ns, f"mlx5_core {NIC0} ens1np0: Link down")
    first.look(0.25)
    assert abs(first.events()[0].at_ns - (START_NS + S // 10)) <= S // 4
    first.agent.close()
    first.agent.listening.save()
    say(root, START_NS + 10 * S - off_ns, f"mlx5_core {NIC0} ens1np0: Link up")
    second = await listening(root, SetClock(START_NS + 60 * S))
    assert abs(second.events()[0].at_ns - (START_NS + 10 * S)) <= S // 4


async def test_a_flood_is_bounded_and_its_last_word_is_reported(tmp_path: Path) -> None:
    """The events give the last state of the link, and the number of omitted ones."""
    found = await listening(machine(tmp_path), events_burst=5)
    for n in range(3000):
        say(tmp_path, START_NS + n * 1000, f"mlx5_core {NIC0} ens1np0: Link {'up' if n % 2 else 'down'}")
    for _ in range(3):
        found.look(0.5)
    found.agent.close()
    events = found.events()
    assert 5 < len(events) < 12
    assert events[-1].kind is EventKind.LINK_UP
    assert found.metrics.value("throttled") > 2900
    assert len(events) + found.metrics.value("throttled") == 3000


async def test_a_line_without_a_time_is_now_where_it_was_just_written(tmp_path: Path) -> None:
    """And refused if its age is unknown."""
    found = await listening(machine(tmp_path))
    with (tmp_path / "kern.log").open("a") as file:
        file.write(f"mlx5_core {NIC0} ens1np0: Link down\n")
    found.look(0.25)
    assert [event.at_ns for event in found.events()] == [found.clock.ns]
    found.agent.listening.note(10.0)
    with (tmp_path / "kern.log").open("a") as file:
        file.write(f"mlx5_core {NIC0} ens1np0: Link up\n")
    again = await listening(tmp_path)
    assert again.events() == [] and again.metrics.value("unreadable") == 1


async def test_a_card_that_comes_while_it_runs_is_found_by_its_first_word(tmp_path: Path) -> None:
    """Long before the next look that is due."""
    (tmp_path / "kern.log").touch()
    found = whole(tmp_path, kernel_log=tmp_path / "kern.log", log_poll_s=0.02, cadence_s=3600, discover_every_s=3600)
    async with run_beside(found.agent.run()):
        async with asyncio.timeout(20):
            while found.agent.listening.log is None:  # noqa: ASYNC110 — it opens the log without notification
                await asyncio.sleep(0)
            machine(tmp_path)
            while not found.agent.known.ports:
                say(tmp_path, START_NS, f"mlx5_core {NIC0} ens1np0: Link up")
                await asyncio.sleep(0.05)
            say(tmp_path, START_NS, f"mlx5_core {NIC0} ens1np0: Link down")
            await found.publisher.recorded.until(
                lambda: found.events()[-1:] != [] and found.events()[-1].port == "mlx5_0"
            )
    assert found.metrics.value("unnamed") > 0


async def test_without_a_log_there_are_no_events(tmp_path: Path) -> None:
    """Of another root than the machine's own there is none unless it is named."""
    found = whole(machine(tmp_path))
    found.agent.listening.begin(1)
    assert found.agent.listening.log is None


async def test_what_was_written_long_ago_while_no_one_listened_is_reported(tmp_path: Path) -> None:
    """A known file is read on, however old the position; only an unknown ring is cut."""
    root = machine(tmp_path)
    first = await listening(root)
    first.agent.close()
    first.agent.listening.save()
    say(root, START_NS + S, f"mlx5_core {NIC0} ens1np0: Link down")
    second = await listening(root, SetClock(START_NS + 7200 * S), backlog_s=10)
    assert [event.at_ns for event in second.events()] == [START_NS + S]


@pytest.mark.parametrize(
    ("place", "codes", "passed_over"),
    [(None, [79, 94], 1), (Place(inode=7), [79, 94], 1), (Place(boot_id=NEW_BOOT, sequence=7), [6, 79, 94], 0)],
    ids=["no position", "a position in a file", "a position of another boot"],
)
def test_the_ring_of_a_new_boot_is_read_from_its_beginning(
    place: Place | None, codes: list[int], passed_over: int
) -> None:
    """The agent of a GPU host starts minutes after the boot; a first start passes over what is older than an hour."""
    ring = FakeKmsg()
    result: list[int] = []
    now_ns = (BOOT_S + 5000) * S
    for since_s, code in ((6, 6), (4000, 79), (4999, 94)):
        ring.write(since_s * 10**6, f"NVRM: Xid (PCI:0000:9b:00): {code}, x")

    def emit(happening: DeviceEvent, _: int) -> None:
        result.append(happening.code)

    metrics = CollectorMetrics()
    log = KernelLog(
        Kmsg(ring, 1, place), Times(SetZero(BOOT_S * S)), KnownPorts("rdma"),
        RateLimitedEmitter(1.0, 20, metrics, LABEL, emit), metrics, emit,
        boot_id=1, of_device=True, not_before_ns=oldest_record_ns(place, now_ns, Params.backlog_s),
    )  # fmt: skip
    assert log.look(now_ns, 0.0) and (result, metrics.value("passed_over")) == (codes, passed_over)


async def test_a_line_is_of_the_port_that_it_names_or_counted(tmp_path: Path) -> None:
    """InfiniBand by its RDMA device, AER by the function that sent the error; a RoCE port's line is its netdev's."""
    root = machine(tmp_path)
    write(root, {"sys/class/infiniband/mlx5_1/ports/1/link_layer": "InfiniBand"})
    found = await listening(root, management=("mlx5_9",))
    say(
        root, START_NS,
        f"mlx5_core {NIC0} mlx5_0: Port: 1 Link DOWN",
        *(f"mlx5_core {NIC1} mlx5_1: Port: 1 Link {state}" for state in ("DOWN", "INIT", "ARMED", "ACTIVE")),
        f"mlx5_core {NIC1} mlx5_7: Port: 1 Link DOWN",
        f"pcieport 0000:00:18.0: AER: Correctable error message received from {NIC0}",
        f"pcieport 0000:00:9b.0: AER: Correctable error message received from {GPU}",
        "NETDEV WATCHDOG: ens1np0 (mlx5_core): transmit queue 3 timed out", "NETDEV WATCHDOG: veth7 (veth): x",
        "NETDEV WATCHDOG: ens77 (mlx5_core): transmit queue 3 timed out",
        f"mlx5_core {NIC0}: a line that fits no rule", f"mlx5_core {NIC1}: another one", "NVRM: a third one",
    )  # fmt: skip
    with (root / "kern.log").open("a") as file:
        file.write("Nov 21 10:00:00 gpu17 systemd[1]: Started it.\n")
    found.look(0.25)
    assert brief(found.events()) == [
        (EventKind.LINK_DOWN, "mlx5_1", 0), (EventKind.LINK_UP, "mlx5_1", 0), (EventKind.LOG, "mlx5_0", 0),
        (EventKind.LOG, GPU, 0), (EventKind.LOG, "mlx5_0", 0), (EventKind.LOG, "", 0),
    ]  # fmt: skip
    assert found.metrics.by_label("unknown") == {"NVRM": 1, "mlx5_core": 2}
    assert found.metrics.value("unnamed") == 1
    assert found.metrics.by_label("passed_over") == {"not from the kernel": 1}


@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        ("01-xid-mig", [EventKind.GPU_XID] * 4),
        ("05-ib-port-state-lines", [EventKind.LINK_DOWN, EventKind.LINK_UP]),
        ("07-amdgpu-ras", [EventKind.LOG] * 3),
    ],
)
async def test_the_lines_of_field_reports(tmp_path: Path, case: str, kinds: list[EventKind]) -> None:
    """Each on the tree of its host, if it has one."""
    folder = field_report(f"host/{case}")
    recorded = folder / "tree"
    root = linked_tree(recorded, tmp_path / "tree") if recorded.exists() else machine(tmp_path)
    (tmp_path / "kern.log").touch()
    found = whole(root, kernel_log=tmp_path / "kern.log", state_file=tmp_path / "state.json")
    await found.agent.find()
    found.agent.listening.begin(1)
    (tmp_path / "kern.log").write_text((folder / "kern.log").read_text())
    found.look()
    assert [event.kind for event in found.events()] == kinds and {event.port for event in found.events()} != {""}


async def test_in_the_middle_of_a_flood_the_place_is_that_before_what_waits(tmp_path: Path) -> None:
    """After a kill at that point, the event is repeated rather than lost."""
    root = machine(tmp_path)
    first = await listening(root, events_burst=1, events_per_s=0.001)
    first.agent.listening.note(10.0)
    say(root, START_NS, *(f"mlx5_core {NIC0} ens1np0: Link {'up' if n % 2 else 'down'}" for n in range(4)))
    first.look(0.25)
    first.agent.listening.note(20.0)
    assert [event.kind for event in first.events()] == [EventKind.LINK_DOWN]
    second = await listening(root)
    assert second.events()[-1].kind is EventKind.LINK_UP
