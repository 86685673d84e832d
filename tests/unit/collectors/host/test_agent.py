"""The host agent as a whole: samples, facts, statuses, events, and what it does where something does not answer."""

import os
import threading
from pathlib import Path

import orjson
import pytest
from pydantic import ValidationError

from collectors.core.columns import RowReading
from collectors.core.context import CollectorContext
from collectors.core.params import Core
from collectors.host.collector import SPEC, host_agent
from collectors.host.gpu import Gpu
from collectors.host.sampling import merged
from collectors.kernel.ports import Port
from streams.fabric.catalogue import Metric
from streams.wire.errors import Misconfigured
from streams.wire.models import CollectorStatus, EventKind, Facts, Neighbor, RowKind, Samples, Source
from tests.fakes.nvml import FakeGpu
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.host_agent import whole
from tests.fixtures.host_tree import BOOT_S, GPU, NIC0, machine
from tests.fixtures.lldpd_output import interface, lldp_json, program
from tests.fixtures.nic_tree import rows, write

S = 10**9
FULL = {"pcie_width_lanes": 16, "pcie_speed_gtps": 32, "pcie_width_max_lanes": 16, "pcie_speed_max_gtps": 32}


def h100() -> FakeGpu:
    """The GPU of the tree."""
    return FakeGpu("00000000:9B:00.0", uuid="GPU-9")


async def test_ports_and_gpus_are_rows_of_two_readings(tmp_path: Path) -> None:
    """Ports by the names that the NIC collector gives them, GPUs by their PCI address."""
    found = whole(machine(tmp_path), [h100()])
    ports, gpus = await found.agent.read_once()
    assert (ports.row_kind, gpus.row_kind) == (RowKind.ROW_KIND_PORT, RowKind.ROW_KIND_GPU)
    assert rows(ports) == {"mlx5_0": FULL, "mlx5_1": FULL}
    assert rows(gpus) == {
        GPU: FULL | {
            "pcie_width_lanes": 8, "pcie_speed_gtps": 16, "gpu_temperature_c": 41, "gpu_utilization_ratio": 0.87,
            "gpu_power_w": 512.3, "pcie_replays": 3, "gpu_ecc_uncorrected": 2,
        }
    }  # fmt: skip
    for samples in (ports, gpus):
        assert (samples.device, samples.source, samples.boot_id) == ("gpu17", Source.SOURCE_HOST, 0x0123ABCD0123ABCD)
        assert samples.sampled_at_ns <= samples.received_at_ns
    assert [s.sequence for s in found.publisher.recorded.of(Samples)] == [1, 2]


async def test_a_host_without_a_driver_has_no_gpu_metrics(tmp_path: Path) -> None:
    """The PCIe link of a GPU is read from the kernel."""
    _, gpus = await whole(machine(tmp_path)).agent.read_once()
    assert set(rows(gpus)[GPU]) == set(FULL)


async def test_a_bridge_of_nvlink_has_no_row(tmp_path: Path) -> None:
    """Its InfiniBand port is none of the host's; its vital product data has a mark."""
    root = machine(tmp_path)
    port, card = root / "sys/class/infiniband/mlx5_1/ports/1", root / "sys/class/infiniband/mlx5_1/device"
    (port / "link_layer").write_text("InfiniBand")
    (card / "vpd").write_bytes(b"\x90\x0e\x00V3\x0bSMDL=SW_MNG\x78")
    found = whole(root)
    ports, _ = await found.agent.read_once()
    assert set(rows(ports)) == {"mlx5_0"}
    assert {part.name for part in found.publisher.recorded.of(Facts)[0].components if part.kind == "nic"} == {"mlx5_0"}


async def test_an_empty_tree_reports_nothing_and_is_no_silence(tmp_path: Path) -> None:
    """A status would make the pipeline wait for samples that can never come."""
    found = whole(tmp_path)
    assert await found.agent.read_once() == []
    assert found.publisher.recorded.of(CollectorStatus) == []
    assert found.publisher.recorded.of(Facts)[0].components == ()


async def test_what_a_host_is(tmp_path: Path) -> None:
    """Board, kernel, boot, firmware, drivers, NICs and GPUs with every other name of theirs."""
    found = whole(machine(tmp_path), [h100()])
    await found.agent.read_once()
    await found.agent.read_once()
    (result,) = found.publisher.recorded.of(Facts)
    assert (result.vendor, result.model, result.serial) == ("Supermicro", "SYS-821GE", "S123")
    assert (result.os_version, result.booted_at_ns) == ("6.8.0-45-generic", BOOT_S * S)
    parts = {component.name: component for component in result.components}
    assert (parts["bios"].kind, parts["bios"].firmware) == ("bios", "2.1")
    assert {parts[name].firmware for name in ("mlx5_core", "nvidia")} == {"24.10-1.1.4", "570.86.15"}
    nic = parts["mlx5_0"]
    assert (nic.kind, nic.part_number, nic.firmware) == ("nic", "MT_0000000838", "28.42.1000")
    assert {"ens1np0", NIC0, "946d:ae03:00aa:bb00"} <= set(nic.alias)
    gpu = parts[GPU]
    assert (gpu.kind, gpu.part_number, gpu.firmware) == ("gpu", "692-2G520-0200-000", "96.00.74.00.01")
    assert gpu.alias == ("GPU-9", "gpu0")


async def test_facts_are_reported_again_when_they_change(tmp_path: Path) -> None:
    """A firmware that was updated."""
    root = machine(tmp_path)
    found = whole(root, discover_every_s=1)
    await found.agent.read_once()
    write(root, {"sys/class/infiniband/mlx5_0/fw_ver": "28.43.2026"})
    await found.agent.find()
    await found.agent.read_once()
    before, after = found.publisher.recorded.of(Facts)
    firmware = [next(c.firmware for c in result.components if c.name == "mlx5_0") for result in (before, after)]
    assert firmware == ["28.42.1000", "28.43.2026"]


async def test_a_status_reports_that_the_host_is_read_and_why_it_is_not(tmp_path: Path) -> None:
    """Once at first, and at each change."""
    root = machine(tmp_path)
    found = whole(root)
    for _ in range(3):
        await found.agent.read_once()
    (root / "sys").rename(root / "gone")
    await found.agent.find()
    await found.agent.read_once()
    result = found.publisher.recorded.of(CollectorStatus)
    assert [(status.reachable, status.error) for status in result] == [
        (True, ""),
        (False, "nothing answers: no port, no GPU"),
    ]
    assert result[0].cadence_ns == 10 * S and result[1].last_sample_at_ns


class Hangs(FakeGpu):
    """A GPU whose driver does not answer until it is let."""

    free = threading.Event()
    asked = 0

    def __getattribute__(self, name: str) -> object:
        if name == "milliwatts":
            Hangs.asked += 1
            assert Hangs.free.wait(20)
        return super().__getattribute__(name)


async def test_a_gpu_that_hangs_harms_no_other(tmp_path: Path) -> None:
    """It is not asked again while it hangs, and is read as soon as it answers."""
    Hangs.free.clear()
    found = whole(machine(tmp_path), [Hangs("00000000:1B:00.0"), h100()], deadline_s=1.0)
    try:
        for _ in range(2):
            _, gpus = await found.agent.read_once()
            assert "gpu_power_w" in rows(gpus)[GPU] and "0000:1b:00.0" not in gpus.row
        assert Hangs.asked == 1
    finally:
        Hangs.free.set()
    for _ in range(200):
        _, gpus = await found.agent.read_once()
        if "0000:1b:00.0" in gpus.row:
            break
    assert rows(gpus)["0000:1b:00.0"]["gpu_power_w"] == 512.3


async def test_an_xid_that_no_log_reports_of_is_asked_of_the_driver(tmp_path: Path) -> None:
    """With a log, only the log is used, because it has the time."""
    gpu = h100()
    found = whole(machine(tmp_path), [gpu])
    await found.agent.find()
    found.nvml.xids = [(gpu, 79)]
    await found.agent.read_once()
    (event,) = found.events()
    assert (event.kind, event.port, event.code) == (EventKind.GPU_XID, GPU, 79)
    (tmp_path / "kern.log").touch()
    listening = whole(machine(tmp_path / "other"), [gpu], kernel_log=tmp_path / "kern.log")
    await listening.agent.find()
    listening.agent.listening.begin(1)
    listening.nvml.xids = [(gpu, 79)]
    await listening.agent.read_once()
    assert listening.events() == []
    listening.agent.close()


@pytest.mark.parametrize("what", ["absent", "fifo", "device"])
async def test_a_log_that_cannot_be_read_is_a_status_and_the_driver_is_asked(tmp_path: Path, what: str) -> None:
    """A path that does not exist, a FIFO, a device that is no kernel log: named, not ready, with Xids by NVML."""
    gpu, path = h100(), tmp_path / "log"
    if what == "fifo":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/null")
    found = whole(machine(tmp_path / "host"), [gpu], kernel_log=path, state_file=tmp_path / "state.json")
    await found.agent.find()
    found.agent.listening.begin(1)
    found.nvml.xids = [(gpu, 79)]
    await found.agent.read_once()
    if found.agent.listening.log is not None:
        found.look()
    assert [(event.kind, event.port, event.code) for event in found.events()] == [(EventKind.GPU_XID, GPU, 79)]
    assert str(path) in found.agent.log_problem()
    (status,) = found.publisher.recorded.of(CollectorStatus)
    assert status.reachable and status.error.startswith(f"kernel log: {path}: ")
    if what == "absent":
        path.write_text(f"NVRM: Xid (PCI:{GPU[:-2]}): 94, x\n")
        found.look()
        await found.agent.read_once()
        assert found.events()[-1].code == 94 and found.agent.log_problem() == ""
        assert found.publisher.recorded.of(CollectorStatus)[-1].error == ""
    found.agent.close()


async def test_of_another_machines_tree_no_link_of_this_one_is_received(tmp_path: Path) -> None:
    """As with its driver and its neighbours; and where there is no log either, there is nothing to listen to."""
    found = whole(machine(tmp_path))
    await found.agent.find()
    found.agent.listening.begin(1)
    assert found.agent.listening.links is None
    await found.agent.listening.run()
    here = whole(Path("/"), state_file=tmp_path / "state.json", kernel_log=tmp_path / "kern.log")
    here.agent.listening.begin(1)
    assert here.agent.listening.links is not None
    here.agent.close()


async def test_neighbours_are_facts_of_the_ports_that_they_are_at(tmp_path: Path) -> None:
    """A netdev that is no port of a known card keeps its own name; without an answer the last one holds."""
    answer = lldp_json(
        interface("ens8np0", "leaf1", "ifname", "Ethernet12"), interface("eno8", "mgmt", "ifname", "ge-0/0/1")
    )
    (tmp_path / "answer").write_bytes(answer)
    asked = program(tmp_path, f"cat {tmp_path}/answer")
    found = whole(Path("/"), state_file=tmp_path / "state.json", lldpcli=asked)
    await found.agent.find()
    found.agent.known.adopt([Port(rdma="mlx5_7", netdev="ens8np0", number=1)])
    await found.agent.query_neighbors()
    await found.agent.read_once()
    received = (Neighbor("eno8", "mgmt", "ge-0/0/1"), Neighbor("mlx5_7", "leaf1", "Ethernet12"))
    assert set(found.publisher.recorded.of(Facts)[-1].neighbors) == set(received)
    (tmp_path / "answer").write_bytes(b"no json")
    await found.agent.query_neighbors()
    await found.agent.read_once()
    assert found.metrics.value("unreadable", "lldp") == 1
    assert set(found.publisher.recorded.of(Facts)[-1].neighbors) == set(received)


def test_rows_that_say_nothing_are_none() -> None:
    """Two readings of one row are merged, at the time of the first."""
    a, b = {(Metric.PCIE_WIDTH_LANES, -1): 8.0}, {(Metric.GPU_POWER_W, -1): 1.0}
    assert merged([("x", 5, a), ("x", 3, b), ("y", 1, {})]) == {"x": RowReading(3, (*a, *b), (8.0, 1.0))}


def test_a_gpu_is_the_same_whatever_its_handle_is() -> None:
    """The driver gives another at each look."""
    assert Gpu("x", object()) == Gpu("x", object())


def test_a_setting_that_no_one_knows_is_refused_by_name() -> None:
    """As is a root that is not there."""
    with pytest.raises(ValidationError, match="cadense_s"):
        SPEC.Params.model_validate({"cadense_s": 1})
    with pytest.raises(Misconfigured, match="no such folder"):
        host_agent(SPEC.Params.model_validate({"root": "/nonesuch"}), CollectorContext(RecordingPublisher(), "x"))  # type: ignore[arg-type]


async def test_without_kafka_it_cannot_start() -> None:
    """In one line."""
    with pytest.raises(Misconfigured, match="Kafka"):
        await SPEC.run(SPEC.Params(), Core())


def test_one_reading_of_a_tree_is_printed_by_row(tmp_path: Path) -> None:
    """Ports, then GPUs."""
    lines: list[str] = []
    SPEC.print_once(SPEC.Params.model_validate({"device": "here", "root": machine(tmp_path)}), lines.append)
    assert [orjson.loads(line)["port"] for line in lines] == ["mlx5_0", "mlx5_1", GPU]
