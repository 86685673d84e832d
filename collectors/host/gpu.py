"""Reads the GPUs of a host through NVIDIA's management library (NVML). I/O only; `nvml` is the module `pynvml`.

Without the package, the library or the driver there are no GPUs, which is no error. A value that a GPU does not support
is absent and not queried again; a value whose query fails temporarily is absent once.
"""

import ctypes
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from collectors.host.gpu_fields import GPU_FIELDS, LINK_FIELDS, GpuField, clique_name, fabric_faults
from collectors.host.messages import pci_address
from streams.fabric.catalogue import Metric

_log = structlog.get_logger("railsight.host")

_ABSENT = 2**64 - 1
"""The wire's mark of an absent counter; some NVML counters use it with the same meaning."""
_MOST_XIDS = 64
_MOST_FIELDS = 64
"""The fields of one call: a GPU with 18 links has 280, and NVML documents no limit."""
_FABRIC_FORMS = ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t")
"""The newest form first; drivers before 580 have only the second."""
_REGISTERED = 3
"""The state of a GPU that the fabric manager has registered (NVML_GPU_FABRIC_STATE_COMPLETED)."""
_NUMBERS = {1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
"""The member of an answer by its type (nvmlValueType_t); fields of this agent have no other."""

Values = dict[tuple[Metric, int], float]
"""Values of one device, by metric and lane or link."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; its PCI address identifies it, as in the kernel log."""

    pci: str
    handle: Any = field(compare=False, repr=False, default=None)
    index: int = 0
    uuid: str = ""
    model: str = ""
    part_number: str = ""
    serial: str = ""
    firmware: str = ""
    clique: str = ""
    """The NVLink domain and its clique (`nvidia.com/gpu.clique`); empty without one, or until it is registered."""


def nvml_of_this_machine() -> Any:
    """Return the module pynvml; None if it is not installed."""
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return None


class Gpus:
    """Reads all GPUs; the methods block for as long as the driver does."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._is_open = False
        self._why = ""
        self._events: Any = None
        self._watched: set[str] = set()
        self._unsupported: set[tuple[str, str, object]] = set()
        self._refused_fields: set[tuple[str, int, int]] = set()
        self.driver = ""

    def find(self) -> tuple[Gpu, ...]:
        """Return the responding GPUs, in the driver's order; none without a driver."""
        if self._nvml is None or not self._opened():
            return ()
        self._refused_fields.clear()
        self.driver = _text(self._query("", "nvmlSystemGetDriverVersion"))
        found = []
        for index in range(self._query("", "nvmlDeviceGetCount") or 0):
            handle = self._query("", "nvmlDeviceGetHandleByIndex", index)
            if handle is not None and (gpu := self._gpu(index, handle)) is not None:
                found.append(gpu)
                self._watch(gpu)
        return tuple(found)

    def _opened(self) -> bool:
        if self._is_open:
            return True
        try:
            self._nvml.nvmlInit()
        except (self._nvml.NVMLError, OSError) as error:
            if str(error) != self._why:
                self._why = str(error)
                _log.info("no GPUs", why=self._why)
            return False
        self._is_open, self._why = True, ""
        return True

    def _gpu(self, index: int, handle: Any) -> Gpu | None:
        info = self._query("", "nvmlDeviceGetPciInfo", handle)
        if info is None:
            return None
        pci = pci_address(_text(info.busId))
        result = {
            name: _text(self._query(pci, function, handle))
            for name, function in (
                ("uuid", "nvmlDeviceGetUUID"),
                ("model", "nvmlDeviceGetName"),
                ("part_number", "nvmlDeviceGetBoardPartNumber"),
                ("serial", "nvmlDeviceGetSerial"),
                ("firmware", "nvmlDeviceGetVbiosVersion"),
            )
        }
        fabric = self._fabric(pci, handle)
        is_registered = fabric is not None and fabric.state == _REGISTERED and not fabric.status
        clique = clique_name(bytes(fabric.clusterUuid), fabric.cliqueId) if is_registered else ""
        return Gpu(pci, handle, index, **result, clique=clique)

    def read(self, gpu: Gpu) -> Values:
        """Return all present values of a GPU."""
        return {place: value for place, value in self._identity(gpu) if value is not None and value != _ABSENT}

    def _identity(self, gpu: Gpu) -> Iterator[tuple[tuple[Metric, int], float | None]]:
        nvml, pci, handle = self._nvml, gpu.pci, gpu.handle
        temperature = self._query(pci, "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU)
        yield (Metric.GPU_TEMPERATURE_C, -1), temperature
        rates = self._query(pci, "nvmlDeviceGetUtilizationRates", handle)
        yield (Metric.GPU_UTILIZATION_RATIO, -1), None if rates is None else rates.gpu / 100
        milliwatts = self._query(pci, "nvmlDeviceGetPowerUsage", handle)
        yield (Metric.GPU_POWER_W, -1), None if milliwatts is None else milliwatts / 1000
        yield (Metric.PCIE_REPLAYS, -1), self._query(pci, "nvmlDeviceGetPcieReplayCounter", handle)
        yield (Metric.GPU_ECC_UNCORRECTED, -1), self._ecc(gpu)
        for metric, function in (
            (Metric.GPU_POWER_LIMIT_W, "nvmlDeviceGetEnforcedPowerLimit"),
            (Metric.GPU_POWER_LIMIT_SET_W, "nvmlDeviceGetPowerManagementLimit"),
        ):
            limit = self._query(pci, function, handle)
            yield (metric, -1), None if limit is None else limit / 1000
        if (fabric := self._fabric(pci, handle)) is not None and fabric.state:
            yield (Metric.GPU_FABRIC_STATE, -1), fabric.state
            if fabric.state == _REGISTERED:
                yield from (((Metric.GPU_FABRIC_FAULTS, k), v) for k, v in fabric_faults(fabric.healthMask).items())
        yield from self._links(gpu)

    def _links(self, gpu: Gpu) -> Iterator[tuple[tuple[Metric, int], float | None]]:
        """Yield the values of all fields: of the GPU, of its active links, and the number of its links."""
        nvml = self._nvml
        states = {link: self._query(gpu.pci, "nvmlDeviceGetNvLinkState", gpu.handle, link)
                  for link in range(nvml.NVML_NVLINK_MAX_LINKS)}  # fmt: skip
        known = {link: state for link, state in states.items() if state is not None}
        active = [link for link, state in known.items() if state]
        missing = states.keys() - known.keys()
        if known and all(self._is_unsupported(gpu.pci, "nvmlDeviceGetNvLinkState", (link,)) for link in missing):
            yield (Metric.NVLINK_LINKS, -1), len(known)
            yield (Metric.NVLINK_LINKS_UP, -1), len(active)
        for link in active:
            yield (Metric.NVLINK_REPLAYS, link), self._link_errors(gpu, link, nvml.NVML_NVLINK_ERROR_DL_REPLAY)
            yield (Metric.NVLINK_RECOVERIES, link), self._link_errors(gpu, link, nvml.NVML_NVLINK_ERROR_DL_RECOVERY)
            crc = [self._link_errors(gpu, link, kind)
                   for kind in (nvml.NVML_NVLINK_ERROR_DL_CRC_FLIT, nvml.NVML_NVLINK_ERROR_DL_CRC_DATA)]  # fmt: skip
            counts = [count for count in crc if count is not None and count != _ABSENT]
            yield (Metric.NVLINK_CRC_ERRORS, link), sum(counts) if counts else None
        wanted = [(one, link, link) for link in active for one in LINK_FIELDS]
        yield from self._fields(gpu, [*((one, 0, one.kind) for one in GPU_FIELDS), *wanted])

    def _ecc(self, gpu: Gpu) -> int | None:
        """Return the lifetime total, which survives a reboot; else the total since the driver was loaded."""
        nvml = self._nvml
        for since in (nvml.NVML_AGGREGATE_ECC, nvml.NVML_VOLATILE_ECC):
            kind = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
            count = self._query(gpu.pci, "nvmlDeviceGetTotalEccErrors", gpu.handle, kind, since)
            if count is not None or not self._is_unsupported(gpu.pci, "nvmlDeviceGetTotalEccErrors", (kind, since)):
                return count  # type: ignore[no-any-return]
        return None

    def _link_errors(self, gpu: Gpu, link: int, kind: int) -> int | None:
        return self._query(gpu.pci, "nvmlDeviceGetNvLinkErrorCounter", gpu.handle, link, kind)  # type: ignore[no-any-return]

    def _fields(
        self, gpu: Gpu, wanted: Sequence[tuple[GpuField, int, int]]
    ) -> Iterator[tuple[tuple[Metric, int], float | None]]:
        """Yield the values of fields, by scope and index; a field that is refused is next asked after a `find`."""
        nvml, refused = self._nvml, self._refused_fields
        result: dict[tuple[Metric, int], float] = {}
        asked = [one for one in wanted if (gpu.pci, one[0].number, one[1]) not in refused]
        for start in range(0, len(asked), _MOST_FIELDS):
            part = asked[start : start + _MOST_FIELDS]
            scopes = tuple((one.number, scope) for one, scope, _ in part)
            answers = self._query(gpu.pci, "nvmlDeviceGetFieldValues", gpu.handle, scopes)
            for (one, scope, index), answer in zip(part, answers if answers is not None else (), strict=False):
                if answer.nvmlReturn in {nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_INVALID_ARGUMENT}:
                    refused.add((gpu.pci, one.number, scope))
                elif answer.nvmlReturn == nvml.NVML_SUCCESS and (value := _number(answer)) is not None:
                    result.setdefault((one.metric, index), one.decode(value))
        yield from result.items()

    def _fabric(self, pci: str, handle: Any) -> Any:
        """Return the NVLink fabric's registration and health of a GPU; None if it has none."""
        for name in _FABRIC_FORMS:
            if (form := getattr(self._nvml, name, None)) is not None:
                info = form()
                reference = ctypes.byref(info)
                if self._query(pci, "nvmlDeviceGetGpuFabricInfoV", handle, reference, form=name) is not None:
                    return info
        return None

    def _watch(self, gpu: Gpu) -> None:
        """Register for Xids; the kernel log is the better source if it is readable."""
        if gpu.pci in self._watched:
            return
        nvml = self._nvml
        if self._events is None:
            self._events = self._query("", "nvmlEventSetCreate")
        if self._events is not None:
            self._watched.add(gpu.pci)
            self._query(
                gpu.pci, "nvmlDeviceRegisterEvents", gpu.handle, nvml.nvmlEventTypeXidCriticalError, self._events
            )

    @property
    def reports_xids(self) -> bool:
        """True if the driver reports the Xids of a GPU."""
        refused = {pci for pci, function, _ in self._unsupported if function == "nvmlDeviceRegisterEvents"}
        return self._events is not None and bool(self._watched - refused)

    def xids(self) -> list[tuple[str, int]]:
        """Return the PCI address and number of each Xid since the last call."""
        found: list[tuple[str, int]] = []
        while self._events is not None and len(found) < _MOST_XIDS:
            try:
                result = self._nvml.nvmlEventSetWait_v2(self._events, 0)
                info = self._nvml.nvmlDeviceGetPciInfo(result.device)
            except self._nvml.NVMLError:  # no event, or its GPU has been removed
                break
            if result.eventType == self._nvml.nvmlEventTypeXidCriticalError:
                found.append((pci_address(_text(info.busId)), int(result.eventData)))
        return found

    def _query(self, pci: str, function: str, *args: Any, form: str = "") -> Any:
        """Return the result of an NVML function; None if it fails. `form` names the structure that it fills."""
        nvml = self._nvml
        key = (*(args[1:] if pci else args), form)
        if self._is_unsupported(pci, function, key) or (call := getattr(nvml, function, None)) is None:
            return None
        try:
            return call(*args)
        except nvml.NVMLError as error:
            refusals = (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
                        nvml.NVML_ERROR_INVALID_ARGUMENT, nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)  # fmt: skip
            if error.value in refusals and pci:
                self._unsupported.add((pci, function, _key(key)))
            if error.value in {nvml.NVML_ERROR_UNINITIALIZED, nvml.NVML_ERROR_DRIVER_NOT_LOADED}:
                self._forget()
            return None

    def _is_unsupported(self, pci: str, function: str, key: tuple[Any, ...]) -> bool:
        return bool(pci) and (pci, function, _key(key)) in self._unsupported

    def _forget(self) -> None:
        """Reset the state after the driver was unloaded or reloaded."""
        self._is_open, self._events = False, None
        self._watched.clear()
        self._unsupported.clear()


def _key(args: tuple[Any, ...]) -> object:
    return tuple(arg for arg in args if isinstance(arg, int | tuple) or (isinstance(arg, str) and arg))


def _number(answer: Any) -> int | None:
    """Return the value of an answer; None for an unknown type, a negative value, and the mark of an absent counter."""
    member = _NUMBERS.get(answer.valueType)
    value = None if member is None else getattr(answer.value, member)
    return None if value is None or value < 0 or value == _ABSENT else int(value)


def _text(result: object) -> str:
    """Decode a text; older versions of the package return bytes."""
    text = result.decode("utf-8", "replace") if isinstance(result, bytes) else str(result or "")
    return text if text.isprintable() else ""
