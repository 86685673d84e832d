"""Fakes NVIDIA's management library, as the module `pynvml` presents it, with GPUs that the test defines.

Names, numbers, shapes of answers and the ways to refuse are those of nvidia-ml-py 13.615; a test holds the two together
where the package is installed.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

NVML_SUCCESS = 0
ABSENT = 2**64 - 1


class NVMLError(Exception):
    """The error of every function; `value` is the library's return code."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


@dataclass
class FakeGpu:
    """One GPU; a None is an unsupported value."""

    bus_id: str
    name: str = "NVIDIA H100 80GB HBM3"
    uuid: str = "GPU-1"
    temperature: int | None = 41
    utilization: int | None = 87
    milliwatts: int | None = 512_300
    ecc: dict[int, int] = field(default_factory=lambda: {1: 2, 0: 0})
    """By NVML_AGGREGATE_ECC and NVML_VOLATILE_ECC."""
    replays: int | None = 3
    links: dict[int, dict[int, int]] = field(default_factory=dict)
    """Error counters by link and kind; a missing link does not exist."""
    is_active: dict[int, bool] = field(default_factory=dict)
    fields: dict[tuple[int, int], int] = field(default_factory=dict)
    """Field values by field and link; the driver refuses all others."""
    power_limits: tuple[int, int] | None = None
    """The enforced and the configured limit in mW."""
    fabric: tuple[int, int] | None = None
    """The state and the health mask of a GPU of an NVLink fabric; its clique is 7 of the cluster 01...10."""
    counts_link_errors: bool = True
    """False for NVLink 5, whose driver no longer has nvmlDeviceGetNvLinkErrorCounter."""
    is_lost: bool = False


class _FabricInfoV2(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint), ("clusterUuid", ctypes.c_uint8 * 16), ("status", ctypes.c_uint),
        ("cliqueId", ctypes.c_uint32), ("state", ctypes.c_uint8), ("healthMask", ctypes.c_uint32),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__(version=0x02000024)


class _FabricInfoV3(ctypes.Structure):
    _fields_ = (*_FabricInfoV2._fields_, ("healthSummary", ctypes.c_uint8))

    def __init__(self) -> None:
        super().__init__(version=0x3000028)


@dataclass
class _Pci:
    busId: str  # noqa: N815 — the library's name


@dataclass
class _Rates:
    gpu: int
    memory: int = 0


@dataclass
class _Value:
    uiVal: int = 0  # noqa: N815 — the library's name
    ulVal: int = 0  # noqa: N815 — the library's name
    ullVal: int = 0  # noqa: N815 — the library's name
    sllVal: int = 0  # noqa: N815 — the library's name
    siVal: int = 0  # noqa: N815 — the library's name
    usVal: int = 0  # noqa: N815 — the library's name


@dataclass
class _FieldValue:
    fieldId: int  # noqa: N815 — the library's name
    scopeId: int  # noqa: N815 — the library's name
    valueType: int  # noqa: N815 — the library's name
    nvmlReturn: int  # noqa: N815 — the library's name
    value: _Value


@dataclass
class _EventData:
    device: FakeGpu
    eventType: int  # noqa: N815 — the library's name
    eventData: int  # noqa: N815 — the library's name


class FakeNvml:
    """The module, by default with a driver; a GPU is its own handle."""

    NVMLError = NVMLError
    NVML_SUCCESS = NVML_SUCCESS
    NVML_ERROR_UNINITIALIZED = 1
    NVML_ERROR_INVALID_ARGUMENT = 2
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_ERROR_NOT_FOUND = 6
    NVML_ERROR_DRIVER_NOT_LOADED = 9
    NVML_ERROR_TIMEOUT = 10
    NVML_ERROR_LIBRARY_NOT_FOUND = 12
    NVML_ERROR_FUNCTION_NOT_FOUND = 13
    NVML_ERROR_GPU_IS_LOST = 15
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25
    NVML_TEMPERATURE_GPU = 0
    NVML_NVLINK_MAX_LINKS = 36
    NVML_NVLINK_ERROR_DL_REPLAY = 0
    NVML_NVLINK_ERROR_DL_RECOVERY = 1
    NVML_NVLINK_ERROR_DL_CRC_FLIT = 2
    NVML_NVLINK_ERROR_DL_CRC_DATA = 3
    NVML_VOLATILE_ECC = 0
    NVML_AGGREGATE_ECC = 1
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3
    nvmlEventTypeXidCriticalError = 0x8  # noqa: N815 — the library's name
    c_nvmlGpuFabricInfo_v2_t = _FabricInfoV2  # noqa: N815 — the library's name
    c_nvmlGpuFabricInfo_v3_t = _FabricInfoV3  # noqa: N815 — the library's name

    def __init__(self, gpus: Sequence[FakeGpu] = (), refuses: int = NVML_SUCCESS) -> None:
        self.gpus = list(gpus)
        self.refuses = refuses
        """The result of nvmlInit."""
        self.fabric_forms = {0x02000024, 0x3000028}
        """The versions of the fabric's structure that the driver fills; the second came with 580."""
        self.is_open = False
        self.xids: list[tuple[FakeGpu, int]] = []
        self.watched: list[FakeGpu] = []
        self.asked: list[str] = []

    def nvmlInit(self) -> None:  # noqa: N802 — the library's name
        if self.refuses:
            raise NVMLError(self.refuses)
        self.is_open = True

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802 — the library's name
        self._check()
        return "570.86.15"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 — the library's name
        self._check()
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:  # noqa: N802 — the library's name
        return self._check(self.gpus[index])

    def nvmlDeviceGetPciInfo(self, handle: FakeGpu) -> _Pci:  # noqa: N802 — the library's name
        return _Pci(self._check(handle).bus_id)

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:  # noqa: N802 — the library's name
        return self._check(handle).uuid

    def nvmlDeviceGetName(self, handle: FakeGpu) -> bytes:  # noqa: N802 — older versions give bytes
        return self._check(handle).name.encode()

    def nvmlDeviceGetBoardPartNumber(self, handle: FakeGpu) -> str:  # noqa: N802 — the library's name
        self._check(handle)
        return "692-2G520-0200-000"

    def nvmlDeviceGetSerial(self, handle: FakeGpu) -> str:  # noqa: N802 — consumer GPUs have none
        raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)

    def nvmlDeviceGetVbiosVersion(self, handle: FakeGpu) -> str:  # noqa: N802 — the library's name
        self._check(handle)
        return "96.00.74.00.01"

    def nvmlDeviceGetTemperature(self, handle: FakeGpu, sensor: int) -> int:  # noqa: N802 — the library's name
        assert sensor == self.NVML_TEMPERATURE_GPU
        return self._has(self._check(handle).temperature)

    def nvmlDeviceGetUtilizationRates(self, handle: FakeGpu) -> _Rates:  # noqa: N802 — the library's name
        return _Rates(self._has(self._check(handle).utilization))

    def nvmlDeviceGetPowerUsage(self, handle: FakeGpu) -> int:  # noqa: N802 — the library's name
        self.asked.append("power")
        return self._has(self._check(handle).milliwatts)

    def nvmlDeviceGetPcieReplayCounter(self, handle: FakeGpu) -> int:  # noqa: N802 — the library's name
        return self._has(self._check(handle).replays)

    def nvmlDeviceGetTotalEccErrors(self, handle: FakeGpu, kind: int, since: int) -> int:  # noqa: N802 — the library's
        assert kind == self.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
        return self._has(self._check(handle).ecc.get(since))

    def nvmlDeviceGetNvLinkState(self, handle: FakeGpu, link: int) -> int:  # noqa: N802 — the library's name
        if link not in self._check(handle).links:
            raise NVMLError(self.NVML_ERROR_INVALID_ARGUMENT)
        return int(handle.is_active.get(link, True))

    def nvmlDeviceGetNvLinkErrorCounter(  # noqa: N802 — the library's name
        self, handle: FakeGpu, link: int, counter: int
    ) -> int:
        if not self._check(handle).counts_link_errors:
            raise NVMLError(self.NVML_ERROR_FUNCTION_NOT_FOUND)
        return self._has(handle.links[link].get(counter))

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: FakeGpu) -> int:  # noqa: N802 — the library's name
        return self._has((self._check(handle).power_limits or (None, None))[0])

    def nvmlDeviceGetPowerManagementLimit(self, handle: FakeGpu) -> int:  # noqa: N802 — the library's name
        return self._has((self._check(handle).power_limits or (None, None))[1])

    def nvmlDeviceGetGpuFabricInfoV(self, handle: FakeGpu, reference: Any) -> int:  # noqa: N802 — the library's name
        info = reference._obj
        if info.version not in self.fabric_forms:
            raise NVMLError(self.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        if (fabric := self._check(handle).fabric) is None:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        info.clusterUuid[:] = range(1, 17)
        info.cliqueId = 7
        info.state, info.healthMask = fabric
        return NVML_SUCCESS

    def nvmlDeviceGetFieldValues(  # noqa: N802 — the library's name
        self, handle: FakeGpu, wanted: Sequence[tuple[int, int]]
    ) -> list[_FieldValue]:
        self._check(handle)
        answers = []
        for name, link in wanted:
            value = handle.fields.get((name, link))
            code = NVML_SUCCESS if value is not None else self.NVML_ERROR_NOT_SUPPORTED
            answers.append(
                _FieldValue(name, link, self.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, code, _Value(0, 0, value or 0))
            )
        return answers

    def nvmlEventSetCreate(self) -> object:  # noqa: N802 — the library's name
        return object()

    def nvmlDeviceRegisterEvents(self, handle: FakeGpu, kinds: int, events: Any) -> None:  # noqa: N802 — the library's
        assert kinds == self.nvmlEventTypeXidCriticalError
        self.watched.append(handle)

    def nvmlEventSetWait_v2(self, events: Any, bound_ms: int) -> _EventData:  # noqa: N802 — the library's name
        assert bound_ms == 0
        if not self.xids:
            raise NVMLError(self.NVML_ERROR_TIMEOUT)
        gpu, xid = self.xids.pop(0)
        return _EventData(gpu, self.nvmlEventTypeXidCriticalError, xid)

    def _check(self, gpu: FakeGpu | None = None) -> FakeGpu:
        if not self.is_open:
            raise NVMLError(self.NVML_ERROR_UNINITIALIZED)
        if gpu is not None and gpu.is_lost:
            raise NVMLError(self.NVML_ERROR_GPU_IS_LOST)
        return gpu or FakeGpu("")

    def _has(self, value: int | None) -> int:
        if value is None:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return value
