"""Verdicts on a run: the promises that hold at any size, and the targets of DESIGN 8."""

from collections.abc import Iterator
from math import inf

from lab.bench.report import PROMISE, TARGET, Report, Verdict

CPU_S_PER_MILLION = 6.0
MACHINE = 0.5
FULL_P99_S, TENTH_P99_S = 0.25, 0.1
TENTH_PER_S = 7_864.0
"""A tenth of 786,432 ports every 10 s."""
OWNED_AGAIN_S = 30.0
LATE_S = 0.5
"""A generator that is later than this did not produce the load that it reports."""


def verdicts(report: Report) -> Iterator[Verdict]:
    """Yield all verdicts."""
    load, stored, faults = report.load, report.stored, report.faults
    yield Verdict(
        PROMISE,
        f"the load generator kept its schedule: at most {load.late_max_s * 1000:.0f} ms late,"
        f" {LATE_S * 1000:.0f} allowed, {load.refused} messages refused",
        load.late_max_s <= LATE_S and not load.refused,
    )
    sent = (load.port_samples_sent, load.messages_sent, load.statuses_sent, load.events_sent)
    found = (stored.rows, stored.messages, stored.statuses, stored.events)
    yield Verdict(
        PROMISE,
        f"nothing lost and nothing duplicated: {sent[0]:,} port-samples of {sent[1]:,} messages sent, {found[0]:,} of"
        f" {found[1]:,} stored; {sent[2]:,} statuses and {sent[3]:,} events sent, {found[2]:,} and {found[3]:,} stored",
        sent == found,
    )
    yield Verdict(
        PROMISE,
        f"every injected fault found: {faults.found} of {faults.injected};"
        f" invented {len(faults.invented)}, false pages {faults.false_pages}",
        faults.found == faults.injected and not faults.invented and not faults.false_pages,
    )
    growing = [stage.stage for stage in report.stages if stage.grows]
    yield Verdict(PROMISE, f"lag does not grow{': but that of ' if growing else ''}{', '.join(growing)}", not growing)
    yield Verdict(
        TARGET,
        f"{report.cpu_s_per_million:.2f} CPU s per million port-samples, at most {CPU_S_PER_MILLION:g}"
        f"{'' if report.is_sustained else ', had it kept up'}",
        report.cpu_s_per_million <= CPU_S_PER_MILLION and report.is_sustained,
    )
    yield Verdict(
        TARGET,
        f"{report.machine_used:.0%} of {report.cores} cores used, at most {MACHINE:.0%}",
        report.machine_used <= MACHINE,
    )
    flap = report.flap_to_finding_s
    allowed = TENTH_P99_S if load.port_samples_per_s <= TENTH_PER_S else FULL_P99_S
    p99 = "none" if flap.p99 is None else f"{flap.p99 * 1000:.0f} ms"
    yield Verdict(
        TARGET,
        f"link-down event to finding p99 {p99} over {flap.count}, at most {allowed * 1000:.0f} ms",
        flap.p99 is not None and flap.p99 <= allowed,
    )
    if report.kills:
        slowest = max(kill.all_owned_s or inf for kill in report.kills)
        yield Verdict(
            TARGET,
            f"{len(report.kills)} killed workers: every partition owned again after {slowest:.1f} s at worst, at most"
            f" {OWNED_AGAIN_S:g} s",
            slowest <= OWNED_AGAIN_S,
        )
