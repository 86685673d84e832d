"""Compares two rates of rare events: their ratio, with an exact confidence interval.

Of x events in n units and y in the m units of the rest, the total T = x + y is taken as given. Then x is binomial: one
of T events falls into the first group with the probability p = r n / (r n + m), r being the ratio of the rates
(Przyborowski and Wilenski 1940, Biometrika 31:313). The interval of p is that of Clopper and Pearson (1934, Biometrika
26:404); each of its bounds is a bound of r = p / (1 - p) x m / n. It is exact for any number of events: one event in a
small fleet, and no event in the rest, need no special rule.
"""

import math
from dataclasses import dataclass

CONFIDENCE = 0.95

_STEPS = 100
"""Bisections; each halves the interval."""


@dataclass(frozen=True, slots=True)
class RateRatio:
    """The ratio of two rates. None: infinite, because the rest has no events."""

    ratio: float | None
    low: float
    high: float | None


def rate_ratio(events: int, exposure: int, rest_events: int, rest_exposure: int, comparisons: int = 1) -> RateRatio:
    """Return the ratio of events / exposure to that of the rest; both exposures are positive.

    With `comparisons` groups compared, all their intervals together hold with `CONFIDENCE` (Bonferroni): of many
    healthy groups some have more events than others without any reason.
    """
    tail = (1 - CONFIDENCE) / 2 / comparisons
    total, scale = events + rest_events, rest_exposure / exposure
    high = 1 - _lower(rest_events, total, tail)
    return RateRatio(
        events / rest_events * scale if rest_events else None,
        _odds(_lower(events, total, tail)) * scale,
        _odds(high) * scale if high < 1 else None,
    )


def _odds(probability: float) -> float:
    return probability / (1 - probability)


def _lower(successes: int, total: int, tail: float) -> float:
    """Return the lower bound of Clopper and Pearson: the p with which P(X >= successes) is `tail`."""
    if not successes:
        return 0.0
    low, high = 0.0, successes / total
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _at_least(successes, total, middle) < tail:
            low = middle
        else:
            high = middle
    return low


def _at_least(successes: int, total: int, probability: float) -> float:
    """Return the binomial probability of at least so many successes; its terms decrease below successes / total."""
    if not 0 < probability < 1:
        return probability
    ways = math.lgamma(total + 1) - math.lgamma(successes + 1) - math.lgamma(total - successes + 1)
    term = math.exp(ways + successes * math.log(probability) + (total - successes) * math.log1p(-probability))
    found = term
    for count in range(successes, total):
        term *= (total - count) / (count + 1) * _odds(probability)
        found += term
        if term <= found * 1e-16:
            break
    return found
