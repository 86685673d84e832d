"""Runs all policies of `railsight bench corropt`, and renders the table and the picture of their results."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from streams.bench.corropt.policies import BASELINES, CorrOpt, DoNothing, Policy, SwitchLocal
from streams.bench.corropt.setting import fabric, faults
from streams.bench.corropt.simulate import SAMPLE_S, Outcome, simulate
from streams.bench.figure import save
from streams.fabric.topology import Topology

HEAD = (
    f"{'MTTF h':>9}{'constraint':>12}  {'policy':<14}{'faults':>7}{'taken out':>11}{'out, mean':>11}{'most':>6}"
    f"{'mean penalty':>14}{'nothing /':>11}{'local /':>10}{'least ToR':>11}{'least pod':>11}{'breaches':>10}"
    f"{'ms, p99':>9}{'most':>7}"
)


def outcomes(
    *,
    days: float,
    constraints: Sequence[float],
    mttf_hours: Sequence[float],
    seed: int,
    pods: int = 261,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Iterator[Outcome]:
    """Yield the outcome of each policy, for each failure rate and constraint."""
    topology = fabric(pods)
    for hours in mttf_hours:
        drawn = faults(len(topology.links), seed, hours)
        for constraint in constraints:
            for policy in _policies(topology, constraint):
                on_progress(f"MTTF {hours:,.0f} h, constraint {constraint:.0%}, {policy.name}")
                yield simulate(topology.graph, drawn, policy, constraint, days, hours)


def _policies(topology: Topology, constraint: float) -> tuple[Policy, ...]:
    return DoNothing(), SwitchLocal(topology.graph, constraint), CorrOpt(topology, constraint)


def row(outcome: Outcome, results: Sequence[Outcome]) -> str:
    """Return the line of an outcome, with the mean penalties of do-nothing and switch-local divided by its own."""
    p99, worst = np.percentile(outcome.decision_s, [99, 100]) * 1e3 if outcome.decision_s else (0.0, 0.0)
    same = [one for one in results if (one.mttf_hours, one.constraint) == (outcome.mttf_hours, outcome.constraint)]
    nothing, local = (next((one for one in same if one.policy == name), None) for name in BASELINES)
    return (
        f"{outcome.mttf_hours:>9,.0f}{outcome.constraint:>12.0%}  {outcome.policy:<14}{outcome.faults:>7,}"
        f"{outcome.taken_out:>11,}{outcome.mean_out:>11.1f}{outcome.most_out:>6,}{outcome.mean_penalty:>14.3g}"
        f"{_factor(nothing, outcome):>11}{_factor(local, outcome):>10}{outcome.least_tor_ratio:>11.1%}"
        f"{outcome.least_pod_ratio:>11.1%}{outcome.breaches:>10,}{p99:>9.2f}{worst:>7.1f}"
    )


def _factor(baseline: Outcome | None, outcome: Outcome) -> str:
    if baseline is None or baseline is outcome or not (baseline.penalty_s or outcome.penalty_s):
        return "-"
    if not outcome.penalty_s:
        return "no loss"
    factor = baseline.penalty_s / outcome.penalty_s
    return f"{factor:,.1f}" if factor < 1000 else f"{factor:.1e}"


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """Return the figures of an outcome for JSON."""
    figures = asdict(outcome)
    del figures["decision_s"]
    return figures | {"mean_penalty": outcome.mean_penalty, "mean_out": outcome.mean_out}


def draw(results: Sequence[Outcome], path: Path) -> None:
    """Draw the penalty over time: a row of panels for each failure rate, a column for each constraint."""
    panels: dict[tuple[float, float], list[Outcome]] = {}
    for outcome in results:
        panels.setdefault((outcome.mttf_hours, outcome.constraint), []).append(outcome)
    rows = len({hours for hours, _ in panels})
    with save(path, rows, len(panels) // rows) as axes_of:
        for axes, ((hours, constraint), members) in zip(axes_of, panels.items(), strict=True):
            for outcome in members:
                days = np.arange(len(outcome.penalties)) * SAMPLE_S / 86_400
                axes.plot(days, np.array(outcome.penalties), label=outcome.policy, linewidth=1)
            axes.set_yscale("symlog", linthresh=1e-7)
            axes.set_ylim(bottom=0)
            axes.set_title(f"MTTF {hours:,.0f} h, every ToR keeps {constraint:.0%}", fontsize=9)
            axes.set_xlabel("days")
            axes.grid(visible=True, alpha=0.3)
        axes_of[0].set_ylabel("sum of loss rates in service")
        axes_of[0].legend(fontsize=8)
