"""Builds the links between boards from the fields of the clicked row: wall, pod, link or host, finding, runbook."""

FABRIC, FINDING, LINK, HOST, RAILS, INFINIBAND = (
    "railsight-fabric", "railsight-finding", "railsight-link", "railsight-host", "railsight-rails",
    "railsight-infiniband",
)  # fmt: skip
CONGESTION, REMEDIATION, JOB, REPAIR_DESK, PIPELINE = (
    "railsight-congestion", "railsight-remediation", "railsight-job", "railsight-repair-desk", "railsight-pipeline",
)  # fmt: skip
# Every board has both variables.
_TAIL = "&${datasource:queryparam}&${runbooks:queryparam}&${__url_time_range}"


FIRST = "[0]"
"""The first field of a row, for a panel in which Grafana generates the field's name."""


def _path(field: str) -> str:
    return f"fields{field}" if field == FIRST else f"fields.{field}"


def _to(uid: str, **variables: str) -> str:
    given = "&".join(f"var-{name}=${{__data.{_path(field)}:percentencode}}" for name, field in variables.items())
    return f"/d/{uid}?{given}{_TAIL}"


def to_board(uid: str) -> str:
    """Return the link to a board with its default variables."""
    return f"/d/{uid}?{_TAIL[1:]}"


def to_panel(uid: str, title: str) -> str:
    """Return the link to one panel of the same board, as large as the screen; as_json() writes its number."""
    return f"/d/{uid}?viewPanel={{{title}}}&${{pod:queryparam}}{_TAIL}"


def to_finding(field: str = "id") -> dict[str, str]:
    """Return the link to the Finding dashboard for the id in a field."""
    return {"Explain": _to(FINDING, finding=field)}


def to_link(field: str = "subject") -> dict[str, str]:
    """Return the link to the Link dashboard for the subject in a field."""
    return {"Link": _to(LINK, link=field)}


def to_host(field: str = "host") -> dict[str, str]:
    """Return the link to the Host dashboard for the name in a field."""
    return {"Host": _to(HOST, host=field)}


def to_device(field: str = "id") -> dict[str, str]:
    """Return the link to the findings of the device in a field."""
    return {"Findings here": _to(FABRIC, device=field)}


def to_job(field: str = "job") -> dict[str, str]:
    """Return the link to the Job dashboard for the job in a field."""
    return {"Job": _to(JOB, job=field)}


def to_rails(field: str = "pod") -> dict[str, str]:
    """Return the link to the Rails dashboard for the pod in a field."""
    return {"Rails": _to(RAILS, pod=field)}


RUNBOOK = {"Runbook": "${__data.fields.runbook}"}
AROUND = {
    "Time around the fault": (
        f"/d/{FINDING}?var-finding=${{__data.fields.id}}&from=${{__data.fields.begin_ms}}&to=${{__data.fields.end_ms}}"
        "&${datasource:queryparam}&${runbooks:queryparam}"
    )
}
"""The link to the Finding dashboard from half an hour before the finding to half an hour after it."""
