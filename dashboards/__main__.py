"""`python -m dashboards` writes dashboards/json, which Grafana is provisioned with; a test compares both."""

from pathlib import Path

from dashboards import fabric, finding
from dashboards.board import as_json

FOLDER = Path(__file__).parent / "json"
BOARDS = {"fabric": fabric.board, "finding": finding.board}
"""By the name of the file."""


if __name__ == "__main__":
    for name, board in BOARDS.items():
        (FOLDER / f"{name}.json").write_text(as_json(board()))
