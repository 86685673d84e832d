"""GPUs as NVML shows them, and as it does not."""

import ctypes

import pytest

from collectors.host.facts import components
from collectors.host.gpu import Gpus, nvml_of_this_machine
from collectors.host.gpu_fields import GPU_FIELDS, LINK_FIELDS, bit_error_ratio, fabric_faults
from streams.report.inventory_draft import draft_inventory
from streams.wire.models import Facts, Source
from tests.fakes import nvml as fake
from tests.fakes.nvml import ABSENT, FakeGpu, FakeNvml

PCI = "0000:9b:00.0"


def h100(**overrides: object) -> FakeGpu:
    """A GPU with three links, of which one is off."""
    links = {link: {0: 10 + link, 2: 1, 3: 2} for link in range(3)}
    fields = {(138, 0): 4, (139, 0): 5, (202, 0): 1, (202, 1): 77, (204, 1): 78}
    given = {"links": links, "is_active": {2: False}, "fields": fields} | overrides
    return FakeGpu("00000000:9B:00.0", **given)  # type: ignore[arg-type]


def b200(**overrides: object) -> FakeGpu:
    """A GPU with 18 links of NVLink 5, in another PCI domain; its driver refuses replays and CRC errors."""
    fields = {
        (91, 0): 18, (74, 0): 5, (269, 0): 6, (270, 0): 0, (271, 0): 8, (142, 0): 1, (143, 0): 2, (144, 0): 1,
        (145, 0): 0, (230, 0): 2, (202, 17): 1, (204, 17): 2, (208, 17): 3, (211, 17): 4, (212, 17): 5, (214, 17): 6,
        (215, 17): 7, (219, 17): 8, (221, 17): 9, (220, 17): 2061, (222, 17): 0xFFF, (293, 17): 0x308, (218, 17): 1,
    }  # fmt: skip
    given = {
        "links": {link: {} for link in range(18)}, "is_active": {link: link in (0, 17) for link in range(18)},
        "fields": fields, "counts_link_errors": False, "fabric": (3, 0x51A9), "power_limits": (900_000, 1_000_000),
        "temperature": None, "utilization": None, "milliwatts": None, "ecc": {}, "replays": None,
    } | overrides  # fmt: skip
    return FakeGpu("00000008:06:00.0", **given)  # type: ignore[arg-type]


def read(gpu: FakeGpu, **attributes: object) -> dict[str, float]:
    """Return the values by name, of a module with these attributes."""
    module = FakeNvml([gpu])
    for name, value in attributes.items():
        setattr(module, name, value)
    gpus = Gpus(module)
    (found,) = gpus.find()
    return {
        metric.name.lower() + (f"[{link}]" if link >= 0 else ""): v for (metric, link), v in gpus.read(found).items()
    }


def test_everything_that_a_gpu_reports() -> None:
    """Values have the units of the catalog; an inactive link has none."""
    assert read(h100()) == {
        "gpu_temperature_c": 41, "gpu_utilization_ratio": 0.87, "gpu_power_w": 512.3, "pcie_replays": 3,
        "gpu_ecc_uncorrected": 2, "nvlink_replays[0]": 10, "nvlink_replays[1]": 11, "nvlink_crc_errors[0]": 3,
        "nvlink_crc_errors[1]": 3, "nvlink_tx_bytes[0]": 4096, "nvlink_rx_bytes[0]": 5120,
        "nvlink_tx_bytes[1]": 77, "nvlink_rx_bytes[1]": 78, "nvlink_links": 3, "nvlink_links_up": 2,
    }  # fmt: skip


_OF_B200 = {
    "nvlink_links": 18, "nvlink_links_up": 2, "nvlink_tx_bytes[17]": 1, "nvlink_rx_bytes[17]": 2,
    "nvlink_rx_errors[17]": 3, "nvlink_integrity_errors[17]": 4, "nvlink_tx_discards[17]": 5,
    "nvlink_failed_recoveries[17]": 6, "nvlink_recoveries[17]": 7, "nvlink_effective_errors[17]": 8,
    "nvlink_symbol_errors[17]": 9, "nvlink_effective_ber[17]": 8e-13, "nvlink_symbol_ber[17]": 0.0,
    "nvlink_raw_ber[17]": 3e-8, "gpu_fabric_state": 3, "gpu_fabric_faults[0]": 1, "gpu_fabric_faults[1]": 0,
    "gpu_fabric_faults[2]": 0, "gpu_fabric_faults[3]": 0, "gpu_fabric_faults[4]": 0, "gpu_fabric_faults[5]": 0,
    "gpu_fabric_faults[6]": 0, "gpu_clock_limited_ns[0]": 5, "gpu_clock_limited_ns[1]": 6,
    "gpu_clock_limited_ns[2]": 0, "gpu_clock_limited_ns[3]": 8, "gpu_power_limit_w": 900, "gpu_power_limit_set_w": 1000,
    "gpu_rows_remapped[0]": 1, "gpu_rows_remapped[1]": 2, "gpu_row_remap_state[0]": 1, "gpu_row_remap_state[1]": 0,
    "gpu_recovery_action": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    "attributes",
    [{}, {"fabric_forms": {0x02000024}}, {"nvmlDeviceGetNvLinkErrorCounter": None}],
    ids=["driver 595", "driver before 580", "a package without the removed call"],
)
def test_nvlink_5_is_read_by_fields(attributes: dict[str, object]) -> None:
    """A refused field, call or structure costs no other value."""
    assert read(b200(), **attributes) == _OF_B200


def test_a_gpu_of_an_nvlink_fabric_has_its_clique_once_it_is_registered() -> None:
    """The name is that of the label `nvidia.com/gpu.clique`; health counts only then, and PCI domains stay apart.

    A draft of the inventory has it as the domain of the host.
    """
    for fabric, clique in (
        ((3, 0x51AA), "01020304-0506-0708-090a-0b0c0d0e0f10.7"), ((2, 0x5155), ""), ((0, 0), ""), (None, ""),
    ):  # fmt: skip
        gpus = Gpus(FakeNvml([b200(fabric=fabric)]))
        (gpu,) = gpus.find()
        assert (gpu.pci, gpu.clique) == ("0008:06:00.0", clique)
        found = components((), "", (), {gpu.pci: gpu})
        assert [part.name for part in found if part.kind == "nvlink-domain"] == ([clique] if clique else [])
        (host,) = draft_inventory([Facts("h1", 1, Source.SOURCE_HOST, components=found)]).inventory.devices
        assert (host.gpus, host.domain) == (1, clique)
        values = {metric.name.lower(): value for (metric, _), value in gpus.read(gpu).items()}
        state = fabric[0] if fabric else 0
        assert values.get("gpu_fabric_state", 0) == state and ("gpu_fabric_faults" in values) is (state == 3)


def test_a_field_is_asked_again_after_the_next_discovery() -> None:
    """A driver that was not ready refuses fields for a while; in between, refused ones cost no call."""
    gpu = b200(fields={})
    gpus = Gpus(FakeNvml([gpu]))
    (found,) = gpus.find()
    assert not any(metric.name == "NVLINK_RECOVERIES" for metric, _ in gpus.read(found))
    gpu.fields = {(215, 0): 3}
    assert not any(metric.name == "NVLINK_RECOVERIES" for metric, _ in gpus.read(found))
    gpus.find()
    assert {value for (metric, _), value in gpus.read(found).items() if metric.name == "NVLINK_RECOVERIES"} == {3}


def test_ratios_and_masks_are_decoded() -> None:
    """A ratio of all ones is none; a kind that the mask does not report is absent."""
    assert [bit_error_ratio(value) for value in (2061, 0xFFF, 0x10F, 0)] == [8e-13, 0.0, 1e-15, 0.0]
    healthy = dict.fromkeys(range(7), 0.0)
    assert fabric_faults(0x51AA) == healthy
    assert fabric_faults(0x5155) == healthy | dict.fromkeys(range(4), 1.0)
    assert fabric_faults(0xA5AA) == healthy | dict.fromkeys((4, 5, 6), 1.0)
    assert fabric_faults(0) == {} and fabric_faults(0x1) == {0: 1.0}


def test_what_a_gpu_does_not_support_is_absent() -> None:
    """They are absent, not 0; some counters mark absence by all ones."""
    bare = h100(temperature=None, utilization=None, milliwatts=None, ecc={}, replays=ABSENT, links={}, fields={})
    assert read(bare) == {}
    assert read(h100(ecc={0: 7}))["gpu_ecc_uncorrected"] == 7
    half = read(h100(links={0: {3: 4}}))
    assert half["nvlink_crc_errors[0]"] == 4 and "nvlink_replays[0]" not in half


def test_what_is_not_supported_is_asked_once() -> None:
    """Each question costs a call into the driver."""
    module = FakeNvml([h100(milliwatts=None)])
    gpus = Gpus(module)
    (found,) = gpus.find()
    for _ in range(3):
        gpus.read(found)
    assert module.asked == ["power"]


@pytest.mark.parametrize("code", [FakeNvml.NVML_ERROR_LIBRARY_NOT_FOUND, FakeNvml.NVML_ERROR_DRIVER_NOT_LOADED])
def test_without_a_driver_there_are_no_gpus_until_there_is_one(code: int) -> None:
    """This is no error."""
    module = FakeNvml([h100()], refuses=code)
    gpus = Gpus(module)
    assert gpus.find() == () and gpus.xids() == []
    module.refuses = 0
    assert len(gpus.find()) == 1


def test_without_the_package_there_are_no_gpus() -> None:
    """This is no error either."""
    assert Gpus(None).find() == ()


def test_a_gpu_that_is_lost_harms_no_other() -> None:
    """It is not found any more, and its former handle gives no values."""
    lost, good = h100(), FakeGpu("00000000:1B:00.0")
    module = FakeNvml([lost, good])
    gpus = Gpus(module)
    first, _ = gpus.find()
    lost.is_lost = True
    assert gpus.read(first) == {}
    assert [gpu.pci for gpu in gpus.find()] == ["0000:1b:00.0"]


def test_a_driver_that_is_loaded_again_is_opened_again() -> None:
    """An update of the driver does not end the agent."""
    module = FakeNvml([h100()])
    gpus = Gpus(module)
    (found,) = gpus.find()
    module.is_open = False
    assert gpus.read(found) == {}
    assert len(gpus.find()) == 1 and gpus.read(found)


def test_what_a_gpu_is() -> None:
    """By its PCI address; text comes as bytes from older versions."""
    gpus = Gpus(FakeNvml([h100(uuid="GPU-5")]))
    (gpu,) = gpus.find()
    assert (gpu.pci, gpu.uuid, gpu.model, gpu.serial) == (PCI, "GPU-5", "NVIDIA H100 80GB HBM3", "")
    assert (gpu.part_number, gpu.firmware, gpus.driver) == ("692-2G520-0200-000", "96.00.74.00.01", "570.86.15")


def test_xids_are_reported_of_once() -> None:
    """Of the GPU that they came from."""
    gpu = h100()
    module = FakeNvml([gpu])
    gpus = Gpus(module)
    gpus.find()
    gpus.find()
    assert module.watched == [gpu]
    module.xids = [(gpu, 79), (gpu, 94)]
    assert gpus.xids() == [(PCI, 79), (PCI, 94)] and gpus.xids() == []


def test_the_fake_has_the_names_and_numbers_of_the_real_package() -> None:
    real = nvml_of_this_machine()
    if real is None:
        pytest.skip("nvidia-ml-py is not installed: it comes with railsight[host]")
    names = [name for name in dir(FakeNvml) if name.startswith(("NVML_", "nvml"))]
    assert len(names) > 30
    for name in names:
        if isinstance(value := getattr(FakeNvml, name), int):
            assert getattr(real, name) == value
        else:
            assert callable(getattr(real, name))
    for ours, theirs in (
        (fake._FieldValue, real.c_nvmlFieldValue_t), (fake._Value, real.c_nvmlValue_t),
        (fake._EventData, real.c_nvmlEventData_t), (fake._Rates, real.c_nvmlUtilization_t),
        (fake._Pci, real.nvmlPciInfo_t),
    ):  # fmt: skip
        assert set(ours.__dataclass_fields__) <= {name for name, _ in theirs._fields_}
    for form in ("c_nvmlGpuFabricInfo_v2_t", "c_nvmlGpuFabricInfo_v3_t"):
        ours, theirs = getattr(FakeNvml, form), getattr(real, form)
        assert (ctypes.sizeof(ours), [name for name, _ in ours._fields_], ours().version) == (
            ctypes.sizeof(theirs), [name for name, _ in theirs._fields_], theirs().version
        )  # fmt: skip
    numbers = {value for name, value in vars(real).items() if name.startswith("NVML_FI_DEV_")}
    assert {one.number for one in (*LINK_FIELDS, *GPU_FIELDS)} <= numbers
    assert issubclass(real.NVMLError, Exception) and real.NVMLError(9).value == 9


def test_the_real_package_on_this_machine_finds_what_there_is() -> None:
    """Nothing, where there is no driver."""
    if (real := nvml_of_this_machine()) is None:
        pytest.skip("nvidia-ml-py is not installed: it comes with railsight[host]")
    gpus = Gpus(real)
    for gpu in gpus.find():
        assert gpu.pci and gpus.read(gpu)
