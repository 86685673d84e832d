"""The links between the boards, by fields of the row that is clicked: wall, pod, link or host, finding, runbook."""

FABRIC, FINDING, LINK, HOST, RAILS = (
    "railsight-fabric", "railsight-finding", "railsight-link", "railsight-host", "railsight-rails",
)  # fmt: skip
CONGESTION, REMEDIATION, JOB, REPAIR_DESK, PIPELINE = (
    "railsight-congestion", "railsight-remediation", "railsight-job", "railsight-repair-desk", "railsight-pipeline",
)  # fmt: skip
# Every board has both variables.
_TAIL = "&${datasource:queryparam}&${runbooks:queryparam}&${__url_time_range}"


FIRST = "[0]"
"""The first field of a row, where Grafana makes its name."""


def _path(field: str) -> str:
    return f"fields{field}" if field == FIRST else f"fields.{field}"


def _to(uid: str, **variables: str) -> str:
    given = "&".join(f"var-{name}=${{__data.{_path(field)}:percentencode}}" for name, field in variables.items())
    return f"/d/{uid}?{given}{_TAIL}"


def to_board(uid: str) -> str:
    """Return the link to a board as it opens."""
    return f"/d/{uid}?{_TAIL[1:]}"


def to_finding(field: str = "id") -> dict[str, str]:
    """Return the link to the explanation of the finding in a field."""
    return {"Explain": _to(FINDING, finding=field)}


def to_link(field: str = "subject") -> dict[str, str]:
    """Return the link to both ends of the link in a field."""
    return {"Link": _to(LINK, link=field)}


def to_host(field: str = "host") -> dict[str, str]:
    """Return the link to the host in a field."""
    return {"Host": _to(HOST, host=field)}


def to_device(field: str = "id") -> dict[str, str]:
    """Return the link to the findings at the device in a field."""
    return {"Findings here": _to(FABRIC, device=field)}


def to_job(field: str = "job") -> dict[str, str]:
    """Return the link to the job in a field."""
    return {"Job": _to(JOB, job=field)}


def to_rails(field: str = "pod") -> dict[str, str]:
    """Return the link to the rails of the pod in a field."""
    return {"Rails": _to(RAILS, pod=field)}


RUNBOOK = {"Runbook": "${__data.fields.runbook}"}
