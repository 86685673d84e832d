"""Writes the plain models of the messages from the .proto files: enums, and frozen dataclasses with slots.

Fields keep the order of the .proto. Those below the comment "Optional from here." have defaults: None with presence on
the wire, else the empty value. A `google.protobuf.Timestamp` called `x` is `x_ns`, in Unix nanoseconds.
streams/wire defines by hand what follows other rules: Samples with numpy tables, Symptom with its payloads.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet

_FILES = ("telemetry", "findings", "internal")
_BY_HAND = {"Samples", "Table", "Symptom", "SymptomsReplaced"}
_ELSEWHERE = {"Metric", "NeighborMatch"}
"""Enums of the packages below the wire."""
_NAMES = {
    "Event.Kind": "EventKind", "Lemon.Kind": "LemonKind", "HostLocality.Usability": "HostUsability",
    "Control.Kind": "ControlKind", "ControlAnswer.Effect": "ControlEffect", "PeerWindow.Group": "PeerGroup",
}  # fmt: skip
_REQUIRED_ENUMS = {"PeerGroup"}
"""Enums without their zero: a message that leaves them out is rejected."""
_MUTABLE = {"ProbeReport"}
"""Creating a frozen one takes four times as long; it is immutable by convention."""
_NULLABLE = {("ControlAnswer", "control")}
"""Required fields that may be None."""
_HEAD = '''"""Plain models of the messages; written by proto/generate.py, not by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from streams.fabric.catalogue import Metric
from streams.fabric.lldp_verdict import NeighborMatch
'''
_PROPERTIES = {
    "Source": '''
    @property
    def label(self) -> str:
        """Return the name for people: in lower case, without the type's prefix."""
        return self.name.removeprefix("SOURCE_").lower()
''',
    "Condition": '''
    @property
    def slug(self) -> str:
        """Return the detector's name, `family/name`: the enum's name in another case and punctuation."""
        family, _, name = self.name.lower().partition("_")
        return f"{family}/{name.replace('_', '-')}"

    @property
    def is_congestion(self) -> bool:
        """Return whether the condition concerns traffic, for which the origin matters, and not a broken part."""
        return self in (
            Condition.CONGESTION_INCAST,
            Condition.CONGESTION_PFC_STORM,
            Condition.CONGESTION_IMBALANCE,
            Condition.CONGESTION_COLLAPSE,
        )
''',
    "Cause": '''
    @property
    def label(self) -> str:
        """Return the name for people and tables: in lower case, empty if unspecified."""
        return self.name.lower() if self else ""
''',
    "Subject": '''
    @property
    def is_pod(self) -> bool:
        """Return whether the subject is a whole pod, which has no ends."""
        return self.role == "pod"
''',
    "Finding": '''
    @property
    def is_closed(self) -> bool:
        """Return whether the finding is resolved or retracted."""
        return self.status in (Status.RESOLVED, Status.RETRACTED)
''',
    "Control": '''
    @property
    def effective_ns(self) -> int:
        """Return the time from which it counts: its arrival; a recording without arrivals has the sender's time."""
        return self.arrived_at_ns or self.at_ns or 0
''',
    "SchedulerAnswer": '''
    @property
    def answered_ns(self) -> int:
        """Return the time of the last complete answer by the broker's clock."""
        return self.arrived_at_ns - self.age_ns
''',
}
_F = FieldDescriptorProto
_SCALARS = {
    _F.TYPE_STRING: ("str", '""'), _F.TYPE_BYTES: ("bytes", 'b""'), _F.TYPE_BOOL: ("bool", "False"),
    _F.TYPE_DOUBLE: ("float", "0.0"),
}  # fmt: skip


def models(compiled: FileDescriptorSet, folder: Path) -> str:
    """Return the module with the models of these descriptors; `folder` has the .proto files, for their comments."""
    files = {Path(file.name).stem: file for file in compiled.file}
    messages = {one.name: one for name in _FILES for one in files[name].message_type}
    enums = {one.name: one for name in _FILES for one in files[name].enum_type}
    for by_hand in _with_parts("Symptom", messages).keys() | _BY_HAND:
        del messages[by_hand]
    for message in messages.values():
        for enum in message.enum_type:
            enums[_NAMES.get(f"{message.name}.{enum.name}", enum.name)] = enum
    optional_from = {k: v for name in _FILES for k, v in _optional_from((folder / f"{name}.proto").read_text("utf-8"))}
    written = [_enum(name, enum) for name, enum in enums.items() if name not in _ELSEWHERE]
    ordered: dict[str, DescriptorProto] = {}
    for name in messages:
        for part in reversed(_with_parts(name, messages)):
            ordered.setdefault(part, messages[part])
    written += [_message(one, optional_from.get(one.name, ""), enums) for one in ordered.values()]
    return "\n\n".join([_HEAD, *written])


def _with_parts(name: str, messages: Mapping[str, DescriptorProto]) -> dict[str, None]:
    """Return the name of a message, and then those of the messages that it contains."""
    found = {name: None}
    for field in messages[name].field:
        if field.type == _F.TYPE_MESSAGE and (part := field.type_name.rpartition(".")[2]) in messages:
            found |= _with_parts(part, messages)
    return found


def _optional_from(text: str) -> Iterator[tuple[str, str]]:
    """Yield each message with the name of its first optional field."""
    for message, body in re.findall(r"^message (\w+) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        if found := re.search(r"// Optional from here\.\n(?:  //.*\n)*.*?(\w+) = \d+;", body):
            yield message, found[1]


def _enum(name: str, enum: EnumDescriptorProto) -> str:
    members = [one for one in enum.value if one.number or name not in _REQUIRED_ENUMS]
    return "\n".join(
        [f"class {name}(IntEnum):", *(f"    {one.name} = {one.number}" for one in members), _PROPERTIES.get(name, "")]
    )


def _message(message: DescriptorProto, optional_from: str, enums: Mapping[str, EnumDescriptorProto]) -> str:
    lines = [f"@dataclass({'' if message.name in _MUTABLE else 'frozen=True, '}slots=True)", f"class {message.name}:"]
    is_optional = False
    for field in message.field:
        is_optional = is_optional or field.name == optional_from
        name, kind, default = _field(message, field, enums)
        if not is_optional:
            can_be_none = field.proto3_optional or (message.name, name) in _NULLABLE
            lines.append(f"    {name}: {kind}{' | None' if can_be_none else ''}")
        else:
            lines.append(f"    {name}: {kind}{' | None' if default == 'None' else ''} = {default}")
    return "\n".join([*lines, _PROPERTIES.get(message.name, "")])


def _field(
    message: DescriptorProto, field: FieldDescriptorProto, enums: Mapping[str, EnumDescriptorProto]
) -> tuple[str, str, str]:
    """Return the name, the type and the default of a field."""
    nested = {one.name: one for one in message.nested_type}
    short = field.type_name.rpartition(".")[2]
    name = field.name
    if short in nested:  # a map
        key, value = (_SCALARS.get(one.type, ("int", "0"))[0] for one in nested[short].field)
        form = "Mapping" if value == "str" else "dict"
        return name, f"{form}[{key}, {value}]", "field(default_factory=dict)"
    if field.type_name == ".google.protobuf.Timestamp":
        name, kind, default = f"{name}_ns", "int", "None"
    elif field.type == _F.TYPE_MESSAGE:
        kind, default = short, "None"
    elif field.type == _F.TYPE_ENUM:
        kind = _NAMES.get(".".join(field.type_name.split(".")[-2:]), short)
        default = f"{kind}.{enums[kind].value[0].name}" if kind in enums else "None"
    else:
        kind, default = _SCALARS.get(field.type, ("int", "0"))
    if field.label == _F.LABEL_REPEATED:
        return name, f"tuple[{kind}, ...]", "()"
    return name, kind, "None" if field.proto3_optional else default
