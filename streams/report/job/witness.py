"""Evaluates witnesses on a job's hosts while it ran: reports of NCCL, and collective benchmarks (nccl-tests).

No detector reads these events, because a report of NCCL is the end of a chain whose begin the detectors find. Transport
errors without an explaining finding make the network of a job unknown. A benchmark is compared with benchmarks of the
week before with the same operation, type, size, number of hosts and of ranks. A benchmark far below them, or with wrong
results, is a witness of a fault that a detector may have missed. Small sizes measure latency and are not compared.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from streams.fabric.intervals import overlaps_any
from streams.report.job.footprint import JobFootprint
from streams.store.queries.job_history import CollectiveResult, NcclEvent
from streams.wire.nccl_codes import is_transport_error


@dataclass(frozen=True, slots=True)
class WitnessReport:
    """One report of NCCL with its first time; equal reports of several hosts are merged."""

    at_ns: int
    host: str
    port: str
    rail: int | None
    code: int
    detail: str

    @property
    def is_transport_error(self) -> bool:
        """Return whether the network or an HCA failed; a failed peer or a straggler may have any cause."""
        return is_transport_error(self.code)


def witness_reports(
    footprint: JobFootprint, events: Iterable[NcclEvent], names: Mapping[tuple[str, str], set[str]]
) -> tuple[WitnessReport, ...]:
    """Return the reports on hosts of the job while it ran there; `names` has the other names of ports."""
    rails = {(link.lower, link.lower_port): link.rail for link in footprint.host_links}
    found: dict[tuple[int, str], WitnessReport] = {}
    for event in events:
        if not overlaps_any(footprint.allocations.get(event.device, []), (event.at_ns, event.at_ns + 1)):
            continue
        aliases = names.get((event.device, event.port), {event.port})
        rail = next((rails[event.device, name] for name in aliases if (event.device, name) in rails), None)
        report = WitnessReport(event.at_ns, event.device, event.port, rail, event.code, event.detail)
        found.setdefault((event.code, event.detail), report)
    return tuple(found.values())


PEERS_NS = 7 * 86_400 * 10**9
"""The period of comparable benchmarks: the retention of sample_lanes."""
MIN_PEERS = 3
"""The fewest peers, because a median of fewer depends on one outlier (choice)."""
_SLOW_RATIO = 0.8
"""nccl-tests fails at 10 % below the expected bandwidth (util.cu); this is twice that, as peers ran at other times."""
_DEVIATIONS = 3 * 1.4826
"""Three standard deviations, from the median absolute deviation of a normal distribution."""
_BANDWIDTH_BOUND = 0.5
"""Sizes at which the peers reach less than half of their highest bandwidth measure latency (choice)."""

Gpus = Mapping[int, Mapping[str, tuple[str, ...]]]
_Key = tuple[str, int, int, int, float | None]


@dataclass(frozen=True, slots=True)
class SlowResult:
    """A result far below the median of its peers."""

    row: str
    size_bytes: int
    bus_bytes_per_s: float
    peer_bytes_per_s: float
    peers: int


@dataclass(frozen=True, slots=True)
class CollectiveReport:
    """One benchmark; `best` is its result with the highest bus bandwidth."""

    at_ns: int
    hosts: tuple[str, ...]
    ranks: int
    rails: tuple[int, ...]
    """The rails of its GPUs on hosts of the job; empty if they are unknown."""
    best: CollectiveResult | None
    slow: tuple[SlowResult, ...]
    """Slow results, the worst first."""
    wrong: int
    """The number of wrong elements in all results."""

    @property
    def is_witness(self) -> bool:
        """Return whether a result was slow or wrong."""
        return bool(self.slow or self.wrong)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "at_ns": self.at_ns, "hosts": list(self.hosts), "ranks": self.ranks, "rails": list(self.rails),
            "best": None if self.best is None else {
                "row": self.best.row, "size_bytes": self.best.size_bytes, "bus_bytes_per_s": self.best.bus_bytes_per_s,
            },
            "slow": [asdict(one) for one in self.slow],
            "wrong": self.wrong,
        }  # fmt: skip


def collective_reports(
    footprint: JobFootprint,
    results: Iterable[CollectiveResult],
    gpus: Gpus,
    gpus_of_hosts: Mapping[str, tuple[str, ...]],
) -> tuple[CollectiveReport, ...]:
    """Return the benchmarks on hosts of the job while it ran there, by time."""
    by_benchmark: dict[int, list[CollectiveResult]] = defaultdict(list)
    by_key: dict[_Key, dict[int, float]] = defaultdict(dict)
    for result in results:
        by_benchmark[result.at_ns].append(result)
        if result.bus_bytes_per_s is not None:
            by_key[_key(result, gpus)][result.at_ns] = result.bus_bytes_per_s
    found = []
    for at_ns, own in sorted(by_benchmark.items()):
        shared = [host for host in own[0].hosts if _is_of_job(footprint, host, at_ns)]
        if not shared:
            continue
        measured = [one for one in own if one.bus_bytes_per_s is not None]
        found.append(
            CollectiveReport(
                at_ns, own[0].hosts, sum(map(len, gpus.get(at_ns, {}).values())),
                _rails(footprint, {host: gpus.get(at_ns, {}).get(host, ()) for host in shared}, gpus_of_hosts),
                max(measured, key=lambda one: one.bus_bytes_per_s or 0.0, default=None),
                _slow_results(measured, gpus, by_key), round(sum(one.wrong or 0.0 for one in own)),
            )
        )  # fmt: skip
    return tuple(found)


def _is_of_job(footprint: JobFootprint, host: str, at_ns: int) -> bool:
    return overlaps_any(footprint.allocations.get(host, []), (at_ns, at_ns + 1))


def _key(result: CollectiveResult, gpus: Gpus) -> _Key:
    """Return the key that comparable results share."""
    ranks = sum(map(len, gpus.get(result.at_ns, {}).values()))
    return result.row, result.placement, len(result.hosts), ranks, result.ranks


def _slow_results(
    own: Iterable[CollectiveResult], gpus: Gpus, by_key: Mapping[_Key, Mapping[int, float]]
) -> tuple[SlowResult, ...]:
    compared = []
    for result in own:
        peers = [value for at_ns, value in by_key[_key(result, gpus)].items() if at_ns != result.at_ns]
        if len(peers) >= MIN_PEERS:
            compared.append((result, median(peers), peers))
    highest = max((middle for _, middle, _ in compared), default=0.0)
    slow: dict[str, SlowResult] = {}
    for result, middle, peers in compared:
        bus = result.bus_bytes_per_s or 0.0
        limit = min(_SLOW_RATIO * middle, middle - _DEVIATIONS * median(abs(value - middle) for value in peers))
        if middle >= _BANDWIDTH_BOUND * highest and bus < limit:
            one = SlowResult(result.row, round(result.size_bytes or 0), bus, middle, len(peers))
            slow[one.row] = min(slow.get(one.row, one), one, key=_ratio)
    return tuple(sorted(slow.values(), key=_ratio))


def _ratio(one: SlowResult) -> float:
    return one.bus_bytes_per_s / one.peer_bytes_per_s


def _rails(
    footprint: JobFootprint, gpus: Mapping[str, tuple[str, ...]], gpus_of_hosts: Mapping[str, tuple[str, ...]]
) -> tuple[int, ...]:
    """Return the rails of GPUs, which are spread evenly over their host's rails in the order of their addresses.

    For a host that does not report its GPUs, the benchmark's GPUs are used if they are at least as many as the rails.
    """
    found: set[int] = set()
    for host, used in gpus.items():
        rails = sorted({link.rail for link in footprint.host_links if link.lower == host and link.rail is not None})
        known = gpus_of_hosts.get(host, used if len(used) >= len(rails) else ())
        found.update(rails[known.index(gpu) * len(rails) // len(known)] for gpu in used if rails and gpu in known)
    return tuple(sorted(found))
