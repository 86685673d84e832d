"""The page of the signals: which detectors read each metric and each kind of event, or why it is only stored.

`python -m tests.contract.detect.signals` writes docs/signals.md; test_signals.py holds it to the code. A metric that a
detector's package names is read by it; for modules that serve several detectors this file states which. A metric that
nothing in streams/detect names is only stored, and needs a reason here.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from streams.detect.detectors import DETECTORS
from streams.fabric.catalogue import Metric
from streams.wire.models import EventKind

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/signals.md"
_DETECT = ROOT / "streams/detect"

_FLAP, _DOWN, _DEGRADING = "link/flap", "link/down", "link/degrading"
_RAIL, _PCIE, _GPU, _THERMAL = "rail/degraded", "host/pcie-degraded", "host/gpu-fault", "host/thermal-throttle"
_INCAST, _STORM, _COLLAPSE, _IMBALANCE = (
    "congestion/incast", "congestion/pfc-storm", "congestion/collapse", "congestion/imbalance",
)  # fmt: skip
_LINK = (_FLAP, _DOWN, _DEGRADING)
_PATH = "path/loss"

M = Metric
SHARED: dict[str, dict[Metric, tuple[str, ...]]] = {
    "measure/monitors/transitions.py": {
        M.OPER_UP: (_FLAP, _DOWN), M.ADMIN_UP: _LINK, M.LINK_DOWN_EVENTS: (_FLAP,), M.LINK_TRANSITIONS: (_FLAP,),
        M.GPU_ECC_UNCORRECTED: (_GPU,),
    },
    "measure/monitors/watchdog_monitor.py": dict.fromkeys(
        (M.PFC_WATCHDOG_STORMS, M.PFC_WATCHDOG_RESTORES, M.PFC_WATCHDOG_STORMED, M.PFC_RX_FRAMES,
         M.PFC_RX_PAUSE_USECONDS), (_STORM,),
    ),
    "measure/monitors/credit_monitor.py": dict.fromkeys((M.CREDITS_USED, M.CREDITS_FREED, M.TX_BYTES), (_STORM,)),
    "measure/monitors/contradiction_monitor.py": {
        **dict.fromkeys((M.OPER_UP, M.RX_BYTES, M.RX_PACKETS), _LINK),
        **dict.fromkeys(
            (M.RX_FCS_ERRORS, M.RX_SYMBOL_ERRORS, M.PCS_SYMBOL_ERRORS, M.FEC_UNCORRECTED_CODEWORDS,
             M.UNCORRECTED_SYMBOLS), (_DEGRADING,),
        ),
    },
    "measure/monitors/event_confirmation.py": {M.OPER_UP: (_FLAP, _DOWN), M.ADMIN_UP: _LINK},
    "measure/monitors/port_fault_monitor.py": {
        **dict.fromkeys((M.RX_LOS, M.TX_FAULT, M.DAMPED, M.MODULE_EVENTS, M.FEC_FLR_PREDICTED, M.BIAS_MA), _LINK),
        **dict.fromkeys((M.BFD_SESSION_UP, M.BGP_SESSION_UP), (*_LINK, _PATH)),
        **dict.fromkeys((M.RX_ICRC_ERRORS, M.TRANSPORT_RETRIES_EXCEEDED), (*_LINK, _RAIL)),
        **dict.fromkeys((M.PCIE_RX_SIGNAL_ERRORS, M.PCIE_TX_SIGNAL_ERRORS), (*_LINK, _RAIL, _PCIE)),
        **dict.fromkeys((M.NVLINK_CRC_ERRORS, M.NVLINK_REPLAYS), (_GPU,)),
    },
    "measure/monitors/pause_monitor.py": {
        M.PFC_RX_FRAMES: (_STORM, _COLLAPSE), M.PAUSE_RX_FRAMES: (_STORM, _COLLAPSE),
        M.PFC_RX_PAUSE_USECONDS: (_STORM, _COLLAPSE), M.PFC_RX_TRANSITIONS: (_STORM,), M.PFC_TX_FRAMES: (_STORM,),
        M.PAUSE_TX_FRAMES: (_STORM,), M.PFC_TX_PAUSE_USECONDS: (_STORM,), M.PFC_TX_TRANSITIONS: (_STORM,),
        M.TX_BYTES: (_STORM,), M.RX_BYTES: (_STORM,), M.TX_WAIT_BYTES: (_STORM, _COLLAPSE),
    },
    "measure/monitors/incast_monitor.py": dict.fromkeys(
        (M.RX_BYTES, M.TX_BYTES, M.RX_PACKETS, M.TX_PACKETS, M.TX_DISCARDS, M.RX_DISCARDS, M.PFC_TX_FRAMES,
         M.PAUSE_TX_FRAMES, M.PFC_TX_PAUSE_USECONDS, M.ROCE_ECN_MARKED_PACKETS, M.PORT_ECN_MARKED_PACKETS,
         M.TRIMMED_PACKETS, M.TRIMMED_TX_PACKETS, M.TRIMMED_DROPPED_PACKETS, M.QUEUE_WATERMARK_BYTES,
         M.QUEUE_DEPTH_BYTES),
        (_INCAST,),
    ),
    "measure/monitors/congestion_monitors.py": {
        M.TX_BYTES: (_COLLAPSE,), M.RX_BYTES: (_INCAST,), M.CNP_HANDLED: (_INCAST, _COLLAPSE),
        **dict.fromkeys(
            (M.PACKET_SEQUENCE_ERRORS, M.ADAPTIVE_RETRANSMITS, M.LOCAL_ACK_TIMEOUTS, M.ROCE_SLOW_RESTARTS),
            (_INCAST, _COLLAPSE),
        ),
    },
    "measure/monitors/monitor.py": {
        **dict.fromkeys((M.PCIE_STALLED_READ_SECONDS, M.PCIE_STALLED_WRITE_SECONDS), (_STORM, _INCAST)),
        M.SPEED_BPS: (_STORM, _COLLAPSE, _INCAST),
    },
    "measure/storage/refuted_readings.py": {
        **dict.fromkeys((M.OPER_UP, M.RX_BYTES, M.RX_PACKETS), (_FLAP, _DOWN)),
        **dict.fromkeys((M.PRE_FEC_BER, M.RX_POWER_DBM, M.MEDIA_SNR_DB, M.HOST_SNR_DB, M.RX_LOS), (_DEGRADING,)),
    },
    "measure/storage/selection_state.py": {M.PRE_FEC_BER: (_DEGRADING,)},
    "measure/peer_selection.py": {
        M.SPEED_BPS: (_RAIL, _IMBALANCE), M.RX_BYTES: (_RAIL,), M.TX_BYTES: (_RAIL, _IMBALANCE),
    },
}  # fmt: skip
"""Modules that serve several detectors -> the metrics that they name, and the detectors that read those by them."""

STORAGE = {
    "measure/storage/window_store.py", "measure/window_selection.py", "measure/port_quality.py",
    "measure/port_states.py", "measure/storage/refresh_periods.py",
}  # fmt: skip
"""Modules that retain, correct and send what detectors, or `decide` before it restores a link, read elsewhere."""

DERIVED: dict[Metric, tuple[tuple[str, ...], str]] = {
    M.FEC_CORRECTED_BITS: ((_DEGRADING,), "with `rx_bits`, the pre-FEC BER where none is read"),
    M.RX_BITS: ((_DEGRADING,), "the denominator of the pre-FEC BER"),
    M.LOCAL_LINK_INTEGRITY_ERRORS: ((_DEGRADING,), "growth makes `measure` send the window; the rules read the others"),
}
"""Metrics that only a module of STORAGE names, and what becomes of them."""

REASONS: dict[Metric, str] = {
    M.TX_ERRORS: "drivers count aborted and oversized frames of software here; what a fiber loses the far end counts",
    M.FEC_CORRECTED_CODEWORDS: "healthy PAM4 links correct codewords all the time; `pre_fec_ber` is the same as a rate",
    M.EXCESSIVE_BUFFER_OVERRUNS: "InfiniBand's credits make it rare; no published limit separates load from a fault",
    M.RX_REMOTE_PHYSICAL_ERRORS: "frames that an earlier link marked as bad: that link's own end counts the loss",
    M.RX_SWITCH_RELAY_ERRORS: "grows on healthy fabrics: multicast packets that loop back are counted (IBTA)",
    M.POST_FEC_BER: "what is lost after FEC is counted exactly, in `fec_uncorrected_codewords` and `rx_fcs_errors`",
    M.FEC_FLR_OBSERVED: "as post-FEC BER: the losses are counted",
    M.MODULE_VOLTAGE_V: "the supply is the host's; a bad one shows in the module's own fault flag",
    M.ECN_MARKED_PACKETS: "marks of single queues; congestion/incast reads those of the port, and the receiver's count",
    M.QUEUE_TX_PACKETS: "the denominator of marks of single queues, for boards",
    M.QUEUE_DROPPED_PACKETS: "drops of single queues; congestion/incast reads those of the port",
    M.RX_BUFFER_NEARLY_FULL: "grows in every burst of a collective operation; pause and discards are its effect",
    M.TX_WAIT_TICKS: "ticks whose length depends on the ASIC; `tx_wait_bytes` has those of a known one",
    M.HOQ_LIFETIME_DISCARDS: "InfiniBand: also counted in `tx_discards`",
    M.PLR_RX_ERRORS: "InfiniBand: FEC corrects most of them; link/degrading reads `plr_rx_uncorrectable`",
    M.PLR_TX_RETRIES: "InfiniBand: link/degrading reads the events, each of which sends several codes again",
    M.CNP_SENT: "the receiver's echo of `roce_ecn_marked_packets`, which congestion/incast reads",
    M.CNP_IGNORED: "configuration (congestion control is off for a priority), the same at all times",
    M.RNR_NAK_RETRIES: "the receiving program posts too few buffers; no fault of the network",
    M.OUT_OF_BUFFER: "as above: the receiving program posts too few buffers",
    M.IMPLIED_NAK_SEQUENCE_ERRORS: "counted beside `packet_sequence_errors` for the same loss",
    M.DUPLICATE_REQUESTS: "the other side of a time-out that the sender counts in `local_ack_timeouts`",
    M.REQUESTER_CQE_ERRORS: "completions with an error, which programs cause as well when they end",
    M.RESPONDER_CQE_ERRORS: "as above, on the responding side",
    M.RETRANSMITTED_PACKETS: "sprayed packets are sent again without a loss; rail/degraded reads the time-outs",
    M.RETRANSMITTED_BYTES: "as above",
    M.UNRESPONSIVE_REMOTES: "the far end's host or program ended, as often as its network; no limit is published",
    M.IMPAIRED_CONNECTIONS: "as above, with a reduced rate, which rail/degraded reads in the bytes",
    M.PAUSE_STORM_WARNINGS: "the NIC counts after seconds of pause; `pfc_tx_frames` and their time show it earlier",
    M.PAUSE_STORM_ERRORS: "as above",
    M.OUT_OF_SEQUENCE: "loss, and adaptive routing as well, which no counter separates; the sender's side of it, "
    "`packet_sequence_errors`, is read",
    M.PCIE_BUFFER_OVERFLOWS: "beside the stalls on PCIe, which rail/degraded and congestion/incast read",
    M.PCIE_REPLAYS: "recovered by the link layer; what it costs shows in the width and speed of the PCIe link",
    M.GPU_POWER_W: "follows the load; that it limits a GPU is counted in `gpu_clock_limited_ns`",
    M.NVLINK_TX_BYTES: "traffic within the host, for boards",
    M.NVLINK_RX_BYTES: "traffic within the host, for boards",
    M.NVLINK_FAILED_RECOVERIES: "the link is then down, which `nvlink_links_up` shows",
    M.NVLINK_RX_ERRORS: "a part of them is caused by the far end; what is left after FEC is `nvlink_effective_errors`",
    M.NVLINK_INTEGRITY_ERRORS: "as above",
    M.NVLINK_TX_DISCARDS: "packets to a link that is down, which `nvlink_links_up` shows",
    M.NVLINK_SYMBOL_ERRORS: "in which effective errors occur; one cause is counted once",
    M.NVLINK_EFFECTIVE_BER: "an average since the GPU's reset, which hides a new fault; its errors are counted",
    M.NVLINK_SYMBOL_BER: "as above",
    M.NVLINK_RAW_BER: "before FEC; grows on healthy links",
    M.GPU_ROWS_REMAPPED: "a repair by the GPU itself; that of uncorrectable errors also reports an Xid",
    M.GPU_ROW_REMAP_STATE: "the Xids 63 and 64 report it at the time",
    M.GPU_RECOVERY_ACTION: "Xid 154 reports each change at its time",
    M.COLLECTIVE_SIZE_BYTES: "nccl-tests: identifies the results that the verdict on a job compares (`railsight job`)",
    M.COLLECTIVE_ELEMENTS: "nccl-tests: beside the size",
    M.COLLECTIVE_TIME_US: "nccl-tests: the verdict compares the bandwidth that follows from it",
    M.COLLECTIVE_ALGORITHM_BYTES_PER_S: "nccl-tests: the bus bandwidth does not depend on the number of ranks",
    M.COLLECTIVE_BUS_BYTES_PER_S: "nccl-tests: the verdict on a job compares it with its peers",
    M.COLLECTIVE_WRONG_ELEMENTS: "nccl-tests: the verdict on a job reads it",
    M.COLLECTIVE_RANKS: "nccl-tests: peers have the same number",
    M.COLLECTIVE_RANK: "nccl-tests: the GPUs that took part, and so the rails",
}
"""Metrics that are only stored, and why."""

EVENTS: dict[EventKind, tuple[tuple[str, ...], str]] = {
    EventKind.LINK_DOWN: ((_FLAP, _DOWN), ""),
    EventKind.LINK_UP: ((_FLAP, _DOWN), ""),
    EventKind.ADMIN_DOWN: (_LINK, ""),
    EventKind.ADMIN_UP: (_LINK, ""),
    EventKind.MODULE_REMOVED: (_LINK, ""),
    EventKind.MODULE_INSERTED: ((), "a person did it; the link's own events follow"),
    EventKind.MODULE_FAULT: (_LINK, ""),
    EventKind.DEVICE_REBOOT: (("device/down",), ""),
    EventKind.GPU_XID: ((_GPU,), ""),
    EventKind.NIC_FIRMWARE_ERROR: ((*_LINK, _RAIL, _PCIE), ""),
    EventKind.PFC_STORM: ((_STORM,), ""),
    EventKind.LOG: ((_GPU,), "lines of a GPU's driver that are an Xid without its number; the others are stored"),
    EventKind.SLOT_POWER: ((*_LINK, _RAIL, _PCIE), ""),
    EventKind.NCCL: ((), "the verdict on a job reads it (`railsight job`)"),
    EventKind.WATCH: ((), "a request of `decide` for the readings of a port, by which its target qualifies"),
    **dict.fromkeys((EventKind.LOSS_OF_SIGNAL, EventKind.SIGNAL_RESTORED), (_LINK, "")),
    **dict.fromkeys((EventKind.OPTICS_ALARM, EventKind.OPTICS_CLEARED), (_LINK, "")),
    EventKind.PFC_RESTORED: ((), "a storm is a report without a duration: watchdogs restore a queue and report again"),
    **dict.fromkeys(
        (EventKind.BGP_DOWN, EventKind.BGP_UP, EventKind.BFD_DOWN, EventKind.BFD_UP), ((*_LINK, _PATH), "")
    ),
    **dict.fromkeys(
        (EventKind.HARDWARE_FAULT, EventKind.HARDWARE_CLEARED), ((), "fans, supplies and cards: for people")
    ),
}
"""Kinds of events, the detectors that read them, and why not."""


def _named(path: Path) -> set[Metric]:
    """Return the metrics that a module names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        Metric[node.attr]
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Metric"
    }


def modules() -> Iterator[tuple[str, set[Metric]]]:
    """Yield the modules of streams/detect that name metrics, and those."""
    for path in sorted(_DETECT.rglob("*.py")):
        if named := _named(path):
            yield path.relative_to(_DETECT).as_posix(), named


def readers() -> Mapping[Metric, set[str]]:
    """Return the detectors that read each metric."""
    found: dict[Metric, set[str]] = defaultdict(set)
    packages = {
        f"detectors/{detector.slug.replace('/', '_').replace('-', '_')}": detector.slug for detector in DETECTORS
    }
    for module, named in modules():
        slug = next((slug for folder, slug in packages.items() if module.startswith(folder)), None)
        for metric in named:
            if slug is not None:
                found[metric].add(slug)
            elif module in SHARED:
                found[metric].update(SHARED[module].get(metric, ()))
    for metric, (slugs, _) in DERIVED.items():
        found[metric].update(slugs)
    return found


_HEAD = """# Signals

Every metric of the catalogue (`streams/fabric/catalogue.py`) and every kind of event: which detectors read it, or
why it is only stored.
What is stored is in ClickHouse ([tables](tables.md)), for boards and queries.
This page is generated: `python -m tests.contract.detect.signals` writes it from the code, and a test compares them.

`decide` reads state, errors, levels and bytes of a port as well, before it restores a link.
The speed of a port also bounds its byte counters: growth that the port cannot have counted in a window is not compared,
and counted in `railsight_implausible_rates_total` ([metrics](metrics.md)).

## Metrics

| metric | unit | index | read by | |
|---|---|---|---|---|
"""
_EVENTS = """
## Events

| kind | read by | |
|---|---|---|
"""
_PROBES = """
## Active probes

The reports of `collect probe` (losses by direction and the path of each probed 5-tuple) are read by
[path/loss](detectors/path.md#pathloss) and [rail/unreachable](detectors/rail.md#railunreachable).
The median round-trip time of each flow is read by [congestion/incast](detectors/congestion.md#congestionincast) and
[congestion/collapse](detectors/congestion.md#congestioncollapse) ([how](collectors/probe.md#round-trip-times)).
The 99th percentile, the time at the responder and reordering stay in `railsight.probes.v1`: a single late probe, a slow
host or another path is no congestion.
"""


def page() -> str:
    by_metric = readers()
    lines = []
    for metric in Metric:
        slugs = sorted(by_metric.get(metric, ()))
        note = DERIVED[metric][1] if metric in DERIVED else "" if slugs else f"stored only: {REASONS.get(metric, '?')}"
        kind = f"{metric.unit}, counter" if metric.counter else metric.unit
        lines.append(f"| `{metric.name.lower()}` | {kind} | {metric.index or ''} | {_links(slugs)} | {note} |\n")
    events = [
        f"| `{kind.name.lower()}` | {_links(sorted(slugs))} | {note if slugs else f'stored only: {note}'} |\n"
        for kind, (slugs, note) in EVENTS.items()
    ]
    return _HEAD + "".join(lines) + _EVENTS + "".join(events) + _PROBES


def _links(slugs: list[str]) -> str:
    return ", ".join(f"[{slug}](detectors/{slug.split('/')[0]}.md#{slug.replace('/', '')})" for slug in slugs)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
