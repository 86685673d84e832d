"""Fuzzers: of every parser (`python -m tests.fuzz`), and of the embedded ClickHouse (clickhouse.py)."""

import sys
from pathlib import Path

# pytest has it from pyproject.toml; the fuzzers start without pytest.
_AUTOMATION = str(Path(__file__).parents[2] / "deploy" / "automation")
if _AUTOMATION not in sys.path:
    sys.path.append(_AUTOMATION)
