"""Builds what devices send, in the form in which the collector receives it."""

from collectors.gnmi.paths import from_text, to_message
from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2

S = 1_000_000_000


def notification(
    at_ns: int, values: dict[str, int | str | bytes], *, prefix: str = "", delete: tuple[str, ...] = ()
) -> gnmi_lite_pb2.Notification:
    """A notification of these values: bytes are sent as JSON_IETF."""
    sent = gnmi_pb2.Notification(timestamp=at_ns)
    if prefix:
        sent.prefix.CopyFrom(to_message(from_text(prefix)))
    for path, value in values.items():
        update = sent.update.add(path=to_message(from_text(path)))
        if isinstance(value, bytes):
            update.val.json_ietf_val = value
        elif isinstance(value, int):
            update.val.uint_val = value
        else:
            update.val.string_val = value
    for path in delete:
        sent.delete.append(to_message(from_text(path)))
    return gnmi_lite_pb2.Notification.FromString(sent.SerializeToString())
