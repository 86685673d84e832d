"""Reads results of `railsight bench detection --json`, and sums them by fabric as tables."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from lab.bench.detection.fabrics import FABRICS
from lab.world.faults import FAULT_OF
from streams.wire.errors import Misconfigured

Result = Mapping[str, Any]


def read_results(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the results of these files; raise Misconfigured with the name of one that has none."""
    results = []
    for path in paths:
        try:
            result = orjson.loads(path.read_bytes())
            result["confidence"], result["fabric"]
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise Misconfigured(
                f"{path}: no result of `railsight bench detection --json` ({type(error).__name__}: {error})"
            ) from error
        results.append(result)
    return results


def found_table(results: Sequence[Result]) -> Iterator[str]:
    """Yield a Markdown table: by condition and fabric the faults found of those injected, and false findings.

    In parentheses are the faults and shut ports that the sources of the fabric cannot show.
    """
    names = [name for name in FABRICS if any(result["fabric"] == name for result in results)]
    by_fabric = {name: [result for result in results if result["fabric"] == name] for name in names}
    seeds = (", ".join(str(result["seed"]) for result in own) for own in by_fabric.values())
    yield "| condition | " + " | ".join(f"`{name}`" for name in names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    yield "| seeds | " + " | ".join(seeds) + " |"
    for slug in FAULT_OF:
        yield f"| `{slug}` | " + " | ".join(_cell(own, slug) for own in by_fabric.values()) + " |"
    yield "| pages, of these false | " + " | ".join(_pages(own) for own in by_fabric.values()) + " |"


def effects_line(results: Sequence[Result]) -> str:
    """Return how many findings beside hidden faults and shut ports were not counted as false, by fabric and condition.

    A result from before they were counted is left out.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for result in results:
        for slug, count in result.get("effects_of_hidden", {}).items():
            counts[result["fabric"], slug] += count
    found = (f"`{fabric}` {count} `{slug}`" for (fabric, slug), count in sorted(counts.items()))
    return "Beside faults that the sources do not show, and not counted as false: " + (", ".join(found) or "none") + "."


def reasons_table(results: Sequence[Result]) -> Iterator[str]:
    """Yield a Markdown table: by fabric and condition why its sources cannot show a fault, and how many there were."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for result in results:
        for slug, reason, count in result["hidden"]:
            counts[result["fabric"], slug, reason] += count
    yield "| fabric | condition | why its sources cannot show it | faults |"
    yield "|---|---|---|---|"
    for (fabric, slug, reason), count in sorted(counts.items()):
        yield f"| `{fabric}` | `{slug}` | {reason} | {count} |"


def _cell(results: Iterable[Result], slug: str) -> str:
    found = injected = false = hidden = 0
    for result in results:
        row = result["conditions"].get(slug, {"found": 0, "injected": 0, "invented": 0})
        found, injected, false = found + row["found"], injected + row["injected"], false + row["invented"]
        hidden += sum(count for own, _, count in result["hidden"] if own == slug)
    shown = f"{found} of {injected}, {false}" if injected or false else "–"
    return f"{shown} ({hidden})" if hidden else shown


def _pages(results: Sequence[Result]) -> str:
    shut = sum(len(result.get("shut_pages", ())) for result in results)
    shown = f"{sum(result['pages'] for result in results)}, {sum(len(result['false_pages']) for result in results)}"
    return f"{shown} ({shut} of shut ports)" if shut else shown
