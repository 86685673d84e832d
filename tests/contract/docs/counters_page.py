"""The page of the telemetry metrics: kind, unit, index and meaning of each, from the catalogue and the proto file.

`python -m tests.contract.docs` writes docs/counters.md; test_reference.py compares both.
"""

import re
from pathlib import Path

from streams.fabric.catalogue import Metric

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/counters.md"
_PROTO = next((ROOT / "proto").rglob("metric.proto"))

_HEAD = """# Telemetry metrics

All metrics of samples. This page is generated from `streams/fabric/catalogue.py` and `metric.proto`:
`make docs` writes it.

A counter grows until its device restarts; `measure` computes its increase. A gauge is a value of its time.
Values are stored in the unit of this table, after one conversion by the collector. What was not
read is absent, never 0.
With an *index* a port has one value for each lane, priority, queue, bin or link.
The columns of ClickHouse have the same names in lower case ([tables](tables.md)).
The pages of the collectors list the metrics that each of them reads.

"""
_COLUMNS = "| metric | number | kind | unit | index | meaning |\n|---|---|---|---|---|---|\n"


def groups() -> dict[str, dict[str, str]]:
    """Return the metrics of metric.proto by the title of their group, with the comment behind each."""
    found: dict[str, dict[str, str]] = {}
    title = ""
    for line in _PROTO.read_text("utf-8").partition("enum Metric {")[2].splitlines():
        if comment := re.match(r"\s*//\s*(.*)", line):
            title = re.split(r"[:.;]", comment[1])[0]
        elif (value := re.match(r"\s*(\w+) = \d+;\s*(?://\s*(.*))?", line)) and value[1] in Metric.__members__:
            found.setdefault(title, {})[value[1]] = value[2] or ""
    return found


def page() -> str:
    return _HEAD + "".join(f"\n## {title}\n\n{_COLUMNS}{_rows(texts)}" for title, texts in groups().items())


def _rows(texts: dict[str, str]) -> str:
    return "".join(_row(Metric[name], text) for name, text in texts.items())


def _row(metric: Metric, text: str) -> str:
    kind, name = "counter" if metric.counter else "gauge", metric.name.lower()
    cells = (f"`{name}`", str(int(metric)), kind, metric.unit, metric.index or "", text)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"
