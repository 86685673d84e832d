"""Checks conditions between the fields of one message; the codec rejects a message that contradicts itself.

Consumers rely on these conditions: lists have equal lengths, and chunks belong to their set.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from streams.wire import models as m
from streams.wire.errors import Reject

MAX_CHUNKS = 1 << 14
"""8 GiB in chunks of 512 KiB."""


def _check_window(window: m.Window) -> None:
    if not len(window.metric) == len(window.index) == len(window.value) == len(window.before):
        raise Reject("its metrics, indices and values differ in number")


def _check_peer_window(window: m.PeerWindow) -> None:
    if len(window.value) != len(window.port) * len(window.metric):
        raise Reject(f"{len(window.value)} values for {len(window.metric)} metrics of {len(window.port)} ports")


def _check_host_rates(rates: m.HostRates) -> None:
    lists = (rates.rate_bps, rates.speed_bps, rates.rails, rates.stalled, rates.retransmitting)
    if any(len(values) != len(rates.host) for values in lists):
        raise Reject(f"the lists of its {len(rates.host)} hosts differ in number")
    if not len(rates.retry_host) == len(rates.retry_port) == len(rates.retry_ratio):
        raise Reject("the lists of its ports that retransmit differ in number")
    if any(place >= len(rates.host) for place in rates.retry_host):
        raise Reject(f"a port that retransmits is of none of its {len(rates.host)} hosts")


def _check_port_readers(readers: m.PortReaders) -> None:
    lists, sources = (readers.sources, readers.first_ns, readers.silent_since_ns), len(readers.devices)
    if any(len(values) != sources for values in lists) or len(readers.unread_source) != len(readers.unread_port):
        raise Reject(f"the lists of its {sources} sources or of their ports differ in number")
    if any(place >= sources for place in readers.unread_source):
        raise Reject(f"a port is of none of its {sources} sources")


def _check_version(version: m.VersionCount) -> None:
    if len(version.members) != len(version.since_ns):
        raise Reject("its members and their times differ in number")


def _check_modules(modules: m.PortModules) -> None:
    if len(modules.ports) != len(modules.part_numbers):
        raise Reject("its ports and their part numbers differ in number")


MAX_FLOWS = 4096
"""The most flows of one host: 40 times the largest fabric's."""
MAX_HOPS = 64


def _check_probes(report: m.ProbeReport) -> None:
    lists = (
        report.flow_unanswered, report.flow_discarded, report.flow_reordered, report.flow_lost_run,
        report.flow_rtt_p50_ns, report.flow_rtt_p99_ns, report.flow_responder_p50_ns,
    )  # fmt: skip
    flows = len(report.flow_sent)
    if flows > MAX_FLOWS or any(len(values) != flows for values in lists):
        raise Reject(f"the lists of its {flows} flows differ in number, or are more than {MAX_FLOWS}")
    _check_flows(report, report.address, "address")
    if not report.begin_ns < report.end_ns:
        raise Reject("its window is empty")


def _check_probe_window(window: m.ProbeWindow) -> None:
    flows = len(window.flow_sent)
    lists = (window.flow_unanswered, window.flow_lost_run)
    if any(len(values) != flows for values in lists) or len(window.element) != len(window.element_sent):
        raise Reject(f"the lists of its {flows} flows or {len(window.element)} elements differ in number")
    _check_flows(window, window.element, "element")


def _check_flows(probes: m.ProbeReport | m.ProbeWindow, names: Sequence[str], what: str) -> None:
    """Raise Reject if the lists of flows or their hops are inconsistent; hops are indices of `names`, plus 1."""
    flows = len(probes.flow_sent)
    lists = (
        probes.flow_source, probes.flow_target, probes.flow_source_port, probes.flow_forward_lost,
        probes.flow_reverse_lost, probes.flow_forward_hops, probes.flow_reverse_hops, probes.flow_forward_reach,
        probes.flow_reverse_reach,
    )  # fmt: skip
    if any(len(values) != flows for values in lists):
        raise Reject(f"the lists of its {flows} flows differ in number")
    hops = (*probes.flow_forward_hops, *probes.flow_reverse_hops)
    if max(hops, default=0) > MAX_HOPS or sum(hops) != len(probes.hop):
        raise Reject(f"{len(probes.hop)} hops for paths of {sum(hops)}")
    indices = max((*probes.flow_source, *probes.flow_target, *(hop - 1 for hop in probes.hop)), default=-1)
    if indices >= len(names):
        raise Reject(f"{what} {indices} of {len(names)}")


def _check_chunk(chunk: m.SnapshotChunk | m.InventoryChunk) -> None:
    if not chunk.chunk < chunk.chunks <= MAX_CHUNKS:
        raise Reject(f"chunk {chunk.chunk} of {chunk.chunks}")


CHECKS: Mapping[type, Callable[[Any], None]] = {
    m.Window: _check_window,
    m.PeerWindow: _check_peer_window,
    m.HostRates: _check_host_rates,
    m.PortReaders: _check_port_readers,
    m.VersionCount: _check_version,
    m.PortModules: _check_modules,
    m.ProbeReport: _check_probes,
    m.ProbeWindow: _check_probe_window,
    m.SnapshotChunk: _check_chunk,
    m.InventoryChunk: _check_chunk,
}
