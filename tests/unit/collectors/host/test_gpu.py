"""GPUs as NVML shows them, and as it does not."""

import pytest

from collectors.host.gpu import Gpus, nvml_of_this_machine
from tests.fakes import nvml as fake
from tests.fakes.nvml import ABSENT, FakeGpu, FakeNvml

PCI = "0000:9b:00.0"


def h100(**overrides: object) -> FakeGpu:
    """A GPU with three links, of which one is off."""
    links = {link: {0: 10 + link, 2: 1, 3: 2} for link in range(3)}
    fields = {(138, 0): 4, (139, 0): 5, (202, 0): 1, (202, 1): 77, (204, 1): 78}
    given = {"links": links, "is_active": {2: False}, "fields": fields} | overrides
    return FakeGpu("00000000:9B:00.0", **given)  # type: ignore[arg-type]


def read(gpu: FakeGpu) -> dict[str, float]:
    """Return the values by name."""
    gpus = Gpus(FakeNvml([gpu]))
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
        "nvlink_tx_bytes[1]": 77, "nvlink_rx_bytes[1]": 78,
    }  # fmt: skip


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
    """And the shapes of its answers."""
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
    assert issubclass(real.NVMLError, Exception) and real.NVMLError(9).value == 9


def test_the_real_package_on_this_machine_finds_what_there_is() -> None:
    """Nothing, where there is no driver."""
    if (real := nvml_of_this_machine()) is None:
        pytest.skip("nvidia-ml-py is not installed: it comes with railsight[host]")
    gpus = Gpus(real)
    for gpu in gpus.find():
        assert gpu.pci and gpus.read(gpu)
