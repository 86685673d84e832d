"""Writes dashboards/json and the alert rules that provision Grafana: `python -m dashboards`."""

from pathlib import Path

from dashboards import (
    alerts,
    congestion,
    fabric,
    finding,
    host,
    infiniband,
    job,
    link,
    pipeline,
    rails,
    remediation,
    repair_desk,
)
from dashboards.board import as_json

FOLDER = Path(__file__).parent / "json"
ALERTS = Path(__file__).parent / "provisioning/alerting/railsight.json"
BOARDS = {
    "fabric": fabric.board, "link": link.board, "host": host.board, "rails": rails.board,
    "congestion": congestion.board, "infiniband": infiniband.board, "remediation": remediation.board, "job": job.board,
    "repair-desk": repair_desk.board, "pipeline": pipeline.board, "finding": finding.board,
}  # fmt: skip
"""File name -> dashboard."""


if __name__ == "__main__":
    for name, board in BOARDS.items():
        (FOLDER / f"{name}.json").write_text(as_json(board()))
    ALERTS.write_text(alerts.rules())
