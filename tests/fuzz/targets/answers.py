"""Answers of Alertmanager and Jira, and what the automation reads: remediations and Slurm's output."""

from collections.abc import Iterator

import orjson
from google.protobuf.message import DecodeError
from railsight_automation import gnmi_client, gnmi_pb2, slurm, slurm_reboot
from railsight_automation.errors import DeviceError
from railsight_automation.messages import decode_remediation

from streams.notify import alertmanager
from streams.notify.tickets import jira
from streams.notify.tickets.http_client import parse
from streams.wire import codec
from streams.wire.errors import Retry
from streams.wire.models import Remediation
from tests.fixtures.wire_examples import EXAMPLES
from tests.fuzz.target import Target


def _parse_alerts(data: bytes) -> None:
    """Read the active alerts, and send them again, as a notifier that took over does."""
    for alert in alertmanager._alerts(data):
        orjson.dumps(alert.to_api())
        hash(alert.identity)


def _alert_seeds() -> Iterator[bytes]:
    yield orjson.dumps(
        [
            {
                "labels": {"alertname": "LINK_FLAP", "source": "railsight", "cluster": "c1", "severity": "critical"},
                "annotations": {"summary": "it flaps"},
                "startsAt": "2026-11-24T10:00:00.123Z",
                "endsAt": "2026-11-24T10:05:00+01:00",
                "generatorURL": "http://g/1",
                "status": {"state": "active"},
            }
        ]
    )


def _parse_jira(data: bytes) -> None:
    """Read a response as each kind of page."""
    page = parse(data, "/rest/api/3")
    for name in ("issues", "comments", "transitions", "issueTypes"):
        for one in jira._objects(page, name):
            list(jira.document_texts(one.get("body")))
            jira._category(one.get("to"))


def _jira_seeds() -> Iterator[bytes]:
    document = {"type": "doc", "content": [{"type": "paragraph", "content": [{"type": "text", "text": "a"}]}]}
    yield orjson.dumps({"comments": [{"body": document}], "issues": [{"key": "NET-1"}], "issueTypes": [{"name": "Task"}],
                        "transitions": [{"id": "3", "to": {"statusCategory": {"key": "done"}}}]})  # fmt: skip


def _parse_slurm(data: bytes) -> None:
    """Read the line of a node, as a drain and a reboot do."""
    shown = data.decode(errors="replace").strip()
    slurm.node_state(shown)
    slurm.busy_text("n1", shown)
    slurm_reboot._is_later(slurm_reboot.boot_time(shown), "2026-11-24T10:00:00")


def _slurm_seeds() -> Iterator[bytes]:
    yield (
        b"NodeName=n1 Arch=x86_64 State=IDLE+DRAIN ThreadsPerCore=1 BootTime=2026-11-24T09:00:00 "
        b"Reason=railsight r1 it flaps [root@2026-11-24T09:30:00]"
    )
    yield b"NodeName=n1 State=DOWN*+NOT_RESPONDING BootTime=None Reason=Not responding [slurm@2026-11-24T09:30:00]"


def _parse_leaf(data: bytes) -> None:
    """Read a device's answer to a Get, as gRPC passes it."""
    try:
        response = gnmi_pb2.GetResponse.FromString(data)
    except DecodeError:
        response = None
    gnmi_client.leaf_value(response, "/interfaces/interface[name=Ethernet1]/config/enabled")


def _leaf_seeds() -> Iterator[bytes]:
    for value in (gnmi_pb2.TypedValue(json_ietf_val=b'{"openconfig-interfaces:enabled": true}'),
                  gnmi_pb2.TypedValue(bool_val=True)):  # fmt: skip
        update = gnmi_pb2.Update(path=gnmi_client.to_path("/interfaces"), val=value)
        yield gnmi_pb2.GetResponse(notification=[gnmi_pb2.Notification(update=[update])]).SerializeToString()


TARGETS = (
    Target("automation-gnmi", _parse_leaf, (ValueError,), _leaf_seeds),
    Target("alertmanager", _parse_alerts, (Retry,), _alert_seeds),
    Target("jira", _parse_jira, (Retry,), _jira_seeds),
    Target(
        "automation-remediation", decode_remediation, (ValueError,), lambda: (codec.to_json(EXAMPLES[Remediation]),)
    ),
    Target("automation-slurm", _parse_slurm, (DeviceError,), _slurm_seeds),
)
