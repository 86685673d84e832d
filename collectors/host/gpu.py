"""Reads the GPUs of a host through NVIDIA's management library (NVML). I/O only; `nvml` is the module `pynvml`.

Without the package, the library or the driver there are no GPUs, which is no error. A value that a GPU does not support
is absent and not queried again; a value whose query fails temporarily is absent once.
"""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import structlog

from collectors.host.messages import pci_address
from streams.fabric.catalogue import Metric

_log = structlog.get_logger("railsight.host")

_ABSENT = 2**64 - 1
"""The wire's mark of an absent counter; some NVML counters use it with the same meaning."""
_KIB = 1024
_MOST_XIDS = 64

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
        self.driver = ""

    def find(self) -> tuple[Gpu, ...]:
        """Return the responding GPUs, in the driver's order; none without a driver."""
        if self._nvml is None or not self._opened():
            return ()
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
        return Gpu(pci, handle, index, **result)

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
        links = [link for link in range(nvml.NVML_NVLINK_MAX_LINKS)
                 if self._query(pci, "nvmlDeviceGetNvLinkState", handle, link)]  # fmt: skip
        for link in links:
            yield (Metric.NVLINK_REPLAYS, link), self._link_errors(gpu, link, nvml.NVML_NVLINK_ERROR_DL_REPLAY)
            crc = [self._link_errors(gpu, link, kind)
                   for kind in (nvml.NVML_NVLINK_ERROR_DL_CRC_FLIT, nvml.NVML_NVLINK_ERROR_DL_CRC_DATA)]  # fmt: skip
            known = [count for count in crc if count is not None and count != _ABSENT]
            yield (Metric.NVLINK_CRC_ERRORS, link), sum(known) if known else None
        yield from self._traffic(gpu, links)

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

    def _traffic(self, gpu: Gpu, links: list[int]) -> Iterator[tuple[tuple[Metric, int], float | None]]:
        """Yield the payload in KiB if the GPU counts it; the newest GPUs count the bytes on the link instead."""
        nvml = self._nvml
        wanted = [
            (metric, link, choice)
            for link in links
            for metric, choice in (
                (Metric.NVLINK_TX_BYTES, (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _KIB)),
                (Metric.NVLINK_TX_BYTES, (nvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, 1)),
                (Metric.NVLINK_RX_BYTES, (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _KIB)),
                (Metric.NVLINK_RX_BYTES, (nvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES, 1)),
            )
        ]
        asked = [(field_id, link) for _, link, (field_id, _) in wanted]
        answers = self._query(gpu.pci, "nvmlDeviceGetFieldValues", gpu.handle, asked) if asked else None
        result: dict[tuple[Metric, int], float] = {}
        for (metric, link, (_, unit)), answer in zip(wanted, answers if answers is not None else (), strict=False):
            if answer.nvmlReturn == nvml.NVML_SUCCESS and (count := self._number(answer)) is not None:
                result.setdefault((metric, link), count * unit % 2**64)
        yield from result.items()

    def _number(self, answer: Any) -> int | None:
        nvml, value = self._nvml, answer.value
        readers: dict[int, Callable[[], int]] = {
            nvml.NVML_VALUE_TYPE_UNSIGNED_INT: lambda: value.uiVal,
            nvml.NVML_VALUE_TYPE_UNSIGNED_LONG: lambda: value.ulVal,
            nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: lambda: value.ullVal,
        }
        read = readers.get(answer.valueType)
        return None if read is None or (count := read()) == _ABSENT else count

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

    def _query(self, pci: str, function: str, *args: Any) -> Any:
        """Return the result of an NVML function; None if it fails."""
        nvml = self._nvml
        key = args[1:] if pci else args
        if self._is_unsupported(pci, function, key):
            return None
        try:
            return getattr(nvml, function)(*args)
        except nvml.NVMLError as error:
            if error.value in {nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
                               nvml.NVML_ERROR_INVALID_ARGUMENT} and pci:  # fmt: skip
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
    return tuple(arg for arg in args if isinstance(arg, int))


def _text(result: object) -> str:
    """Decode a text; older versions of the package return bytes."""
    text = result.decode("utf-8", "replace") if isinstance(result, bytes) else str(result or "")
    return text if text.isprintable() else ""
