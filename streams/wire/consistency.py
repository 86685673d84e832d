"""Conditions between the fields of one message: the codec rejects a message that contradicts itself.

Consumers rely on them without a check: lists of one length, and chunks of their set.
"""

from collections.abc import Callable, Mapping
from typing import Any

from streams.wire.errors import Reject
from streams.wire.models import (
    HostRates,
    InventoryChunk,
    PeerWindow,
    PortModules,
    ProbeReport,
    ProbeWindow,
    SnapshotChunk,
    VersionCount,
    Window,
)

MAX_CHUNKS = 1 << 14
"""8 GiB in chunks of 512 KiB."""


def _check_window(window: Window) -> None:
    if not len(window.metric) == len(window.index) == len(window.value) == len(window.before):
        raise Reject("its metrics, indices and values differ in number")


def _check_peer_window(window: PeerWindow) -> None:
    if len(window.value) != len(window.port) * len(window.metric):
        raise Reject(f"{len(window.value)} values for {len(window.metric)} metrics of {len(window.port)} ports")


def _check_host_rates(rates: HostRates) -> None:
    lists = (rates.rate_bps, rates.speed_bps, rates.rails, rates.stalled, rates.retransmitting)
    if any(len(values) != len(rates.host) for values in lists):
        raise Reject(f"the lists of its {len(rates.host)} hosts differ in number")


def _check_version(version: VersionCount) -> None:
    if len(version.members) != len(version.since_ns):
        raise Reject("its members and their times differ in number")


def _check_modules(modules: PortModules) -> None:
    if len(modules.ports) != len(modules.part_numbers):
        raise Reject("its ports and their part numbers differ in number")


MAX_FLOWS = 4096
"""Flows of one host: 40 times those of the largest fabric."""
MAX_HOPS = 64


def _check_probes(report: ProbeReport) -> None:
    flows = len(report.flow_sent)
    lists = (
        report.flow_source, report.flow_target, report.flow_source_port, report.flow_forward_lost,
        report.flow_reverse_lost, report.flow_unanswered, report.flow_discarded, report.flow_reordered,
        report.flow_lost_run, report.flow_rtt_p50_ns, report.flow_rtt_p99_ns, report.flow_responder_p50_ns,
        report.flow_forward_hops, report.flow_reverse_hops, report.flow_forward_reach, report.flow_reverse_reach,
    )  # fmt: skip
    if flows > MAX_FLOWS or any(len(values) != flows for values in lists):
        raise Reject(f"the lists of its {flows} flows differ in number, or are more than {MAX_FLOWS}")
    hops = (*report.flow_forward_hops, *report.flow_reverse_hops)
    if max(hops, default=0) > MAX_HOPS or sum(hops) != len(report.hop):
        raise Reject(f"{len(report.hop)} hops for paths of {sum(hops)}")
    indices = max((*report.flow_source, *report.flow_target, *(hop - 1 for hop in report.hop)), default=-1)
    if indices >= len(report.address):
        raise Reject(f"address {indices} of {len(report.address)}")
    if not report.begin_ns < report.end_ns:
        raise Reject("its window is empty")


def _check_probe_window(window: ProbeWindow) -> None:
    flows = len(window.flow_sent)
    lists = (
        window.flow_source, window.flow_target, window.flow_source_port, window.flow_forward_lost,
        window.flow_reverse_lost, window.flow_unanswered, window.flow_lost_run, window.flow_forward_hops,
        window.flow_reverse_hops, window.flow_forward_reach, window.flow_reverse_reach,
    )  # fmt: skip
    if any(len(values) != flows for values in lists) or len(window.element) != len(window.element_sent):
        raise Reject(f"the lists of its {flows} flows or {len(window.element)} elements differ in number")
    hops = (*window.flow_forward_hops, *window.flow_reverse_hops)
    if max(hops, default=0) > MAX_HOPS or sum(hops) != len(window.hop):
        raise Reject(f"{len(window.hop)} hops for paths of {sum(hops)}")
    indices = max((*window.flow_source, *window.flow_target, *(hop - 1 for hop in window.hop)), default=-1)
    if indices >= len(window.element):
        raise Reject(f"element {indices} of {len(window.element)}")


def _check_chunk(chunk: SnapshotChunk | InventoryChunk) -> None:
    if not chunk.chunk < chunk.chunks <= MAX_CHUNKS:
        raise Reject(f"chunk {chunk.chunk} of {chunk.chunks}")


CHECKS: Mapping[type, Callable[[Any], None]] = {
    Window: _check_window,
    PeerWindow: _check_peer_window,
    HostRates: _check_host_rates,
    VersionCount: _check_version,
    PortModules: _check_modules,
    ProbeReport: _check_probes,
    ProbeWindow: _check_probe_window,
    SnapshotChunk: _check_chunk,
    InventoryChunk: _check_chunk,
}
