"""Splits a syslog line into its head and its message: RFC 5424, RFC 3164 and what vendors write instead. Pure.

The message begins where the head ends. A text that a message quotes is never read as a message of its own, because
audit lines quote commands and other lines.
"""

import re
from dataclasses import dataclass, replace

import orjson

from collectors.host.lines import MOST_BYTES
from collectors.syslog.stamps import Stamp, read_stamp
from streams.wire.errors import Reject

_A = re.ASCII
_PRIORITY = re.compile(r"<\d{1,3}>", _A)
_RFC5424 = re.compile(
    r"1 (?P<time>-|\S{19,40}) (?P<host>\S{1,255}) (?P<app>\S{1,64}) \S{1,128} (?P<id>\S{1,64})"
    r" (?:-|(?:\[(?:[^\]\\]|\\.){0,4000}\]){1,16}) ?",
    _A,
)
_SEQUENCE = re.compile(r"\d{1,12}: ", _A)
_ORIGIN = re.compile(r"([A-Za-z0-9][\w.-]{0,254}|[0-9A-Fa-f:.]{2,45}): (?=[\d*.A-Z])", _A)
"""The host that IOS writes before its own sequence number or time."""
_NODE = re.compile(r"(?:[A-Z]{2,3}/)?\d{1,4}/[A-Z]{0,4}\d{1,4}(?:/\w{1,8})?:", _A)
"""The node of IOS XR before the time: `RP/0/RP0/CPU0:`, `0/RP0/ADMIN0:`."""
_HOST = re.compile(r"([A-Za-z0-9][\w.:-]{0,254})(?<!:) (?=\S)", _A)
_SEPARATOR = re.compile(r" ?: |:? {0,4}", _A)
_SEVERITY = re.compile(r"(?:EMERG|ALERT|CRIT|ERR|ERROR|WARNING|NOTICE|INFO|DEBUG) (?=\S)", _A)
_TAG = re.compile(r"([\w./#@-]{1,128})(?:\[[\w./-]{1,32}\])?: {1,4}", _A)
_PREFIXES = re.compile(
    r"(?:%\$ [^$]{1,40} %\$ |:- \w{1,64}: |Node\.\S{1,40}:PRI \[\w{1,20}\], Dell(?: EMC)? \(OS10\) "
    r"|\w{1,40}\|\d{1,9}\|\d{1,9}\|\d{1,12}\|[A-Z]: |\[[A-Z0-9]{5}-[A-Z0-9]{5}\] )",
    _A,
)
"""The vendors' texts between the head and the message: NX-OS, SONiC, OS10, SR Linux, FRR."""
_MNEMONIC = re.compile(
    r"%(?P<facility>[A-Z][A-Z0-9_/-]{0,60}?)-(?P<level>[0-7])-(?P<name>[A-Za-z0-9_]{1,64}) ?: ?"
    r"|(?:%%\d\d)?(?P<module>[A-Z][A-Za-z0-9_]{1,40})/\d/(?P<event>\w{1,64})(?:\(\w\))?(?:\[\d{1,10}\])?: ?"
    r"|%(?P<short>[A-Z][A-Z0-9_]{2,64}): ?"
    r"|\d{1,12} \S{1,32} (?P<app>[A-Z0-9_]{1,32})-[A-Z]{1,10}-(?P<trap>[A-Za-z]\w{0,64})-\d{1,6} (?=\[)"
    r"|(?P<junos>[A-Z][A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){1,8}): ?",
    _A,
)
_REPEATED = re.compile(r"(?:last )?message repeated (\d{1,9}) times?(?:: ?\[ ?(?P<quoted>.*)\])?\.?$", _A)
_SUFFIX = re.compile(r" ?\(message repeated (\d{1,9}) times?\)$", _A)
_ENGINE = re.compile(r"re\d{1,2}[.-](?=[A-Za-z])|-re\d{1,2}$", _A)
_MOST_HEADS = 3
"""A relay may put a head before the device's, and another relay another one."""


@dataclass(frozen=True, slots=True)
class Line:
    """One message. `host` is empty, and `stamp` None, where the line has none; `tag` is the program or process.

    `mnemonic` names the kind of message in the vendor's own form: `UPDOWN` of `%LINK-3-UPDOWN`, and `facility` has
    `LINK`. `repeats` is the number of further times that the device reports for its last line; then `text` is empty.
    """

    text: str
    host: str = ""
    stamp: Stamp | None = None
    tag: str = ""
    facility: str = ""
    mnemonic: str = ""
    repeats: int = 0
    peer: str = ""
    """The sender's address, if the relay's JSON has it."""


def parse(data: bytes) -> Line:
    """Parse one line, or one JSON object of a relay; raises Reject for an oversized or empty line, or invalid JSON."""
    if len(data) > MOST_BYTES:
        raise Reject(f"a line of {len(data)} bytes")
    text = data.decode("utf-8", "replace").strip("\0\r\n\ufeff ")
    if not text:
        raise Reject("an empty line")
    if "\n" in text or "\0" in text:
        text = " ".join(text.replace("\0", " ").split("\n"))
    return _of_json(text) if text.startswith("{") else _of_text(text)


def _of_json(text: str) -> Line:
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Reject(f"no JSON: {error}") from error
    fields = {name.lower(): value for name, value in values.items() if isinstance(value, str)}
    message = fields.get("message") or fields.get("msg") or ""
    if not message.strip():
        raise Reject("a JSON object without a message")
    line = _of_text(message.strip())
    if line.stamp is None:
        line = replace(line, stamp=read_stamp(fields.get("timestamp") or fields.get("@timestamp") or "", 0)[0])
    host = line.host or host_name(fields.get("host") or fields.get("hostname") or "")
    peer = fields.get("fromhost-ip") or fields.get("source_ip") or fields.get("peer") or ""
    return replace(line, host=host, tag=line.tag or fields.get("program", ""), peer=peer)


def _of_text(text: str) -> Line:
    host, stamp, tag, identity, place = "", None, "", "", 0
    for _ in range(_MOST_HEADS):
        if found := _PRIORITY.match(text, place):
            place = found.end()
        if found := _RFC5424.match(text, place):
            stamp, host, place = read_stamp(found["time"], 0)[0], found["host"], found.end()
            tag = "" if found["app"] == "-" else found["app"]
            identity = "" if found["id"] == "-" else found["id"]
            host = "" if host == "-" else host
            while text[place : place + 1] in {" ", "\ufeff"}:
                place += 1
            continue
        head = _old_head(text, place)
        if head is None:
            break
        stamp, own, place = head
        host = own or host
    else:
        if _old_head(text, place) is not None:
            raise Reject("more heads than relays write")
    return _message(text, place, Line("", host_name(host), stamp, tag, mnemonic=identity))


def _old_head(text: str, place: int) -> tuple[Stamp | None, str, int] | None:
    """Return the time, the host and the end of a head of RFC 3164 or of a vendor; None if there is none."""
    host = ""
    for _ in range(4):
        stamp, end = read_stamp(text, place)
        if end >= 0:
            break
        if found := _SEQUENCE.match(text, place) or _NODE.match(text, place):
            place = found.end()
        elif found := _ORIGIN.match(text, place) or _host_before_time(text, place):
            host, place = found[1], found.end()
        elif text.startswith(": ", place):
            place += 2
        else:
            return None
    else:
        stamp, end = read_stamp(text, place)
        if end < 0:
            return None
    if text.startswith((": ", " : ", ":"), end):
        separator = _SEPARATOR.match(text, end)
        return stamp, host, separator.end() if separator else end
    while text.startswith(" ", end):
        end += 1
    if (found := _HOST.match(text, end)) and not text.startswith("%", end) and not _SEVERITY.match(text, end):
        return stamp, found[1], found.end()
    return stamp, host, end


def _host_before_time(text: str, place: int) -> re.Match[str] | None:
    """Return the host that precedes the time, or the node of IOS XR before it."""
    if (host := _HOST.match(text, place)) is None:
        return None
    node = _NODE.match(text, host.end())
    return host if read_stamp(text, node.end() if node else host.end())[1] >= 0 else None


def _message(text: str, place: int, line: Line) -> Line:
    """Return the line with its tag, its mnemonic and its text."""
    if found := _SEVERITY.match(text, place):
        place = found.end()
    tag = line.tag
    for _ in range(4):
        if found := _PREFIXES.match(text, place) or _SEQUENCE.match(text, place):
            place = found.end()
        elif not tag and not _MNEMONIC.match(text, place) and (found := _TAG.match(text, place)):
            tag, place = found[1], found.end()  # what follows may be a port, which is part of the message
        elif text.startswith((" ", ": "), place):
            place += 1
    if found := _REPEATED.match(text, place):
        if found["quoted"] is None:
            return replace(line, tag=tag, mnemonic="", repeats=int(found[1]))
        return replace(_message(found["quoted"], 0, replace(line, tag=tag)), repeats=int(found[1]))
    repeats = 0
    if (suffix := _SUFFIX.search(text)) and suffix.start() > place:
        text, repeats = text[: suffix.start()], int(suffix[1])
    found = _MNEMONIC.match(text, place)
    if found is None:
        return replace(line, text=text[place:].strip(), tag=tag, repeats=repeats)
    facility = found["facility"] or found["module"] or found["app"] or ""
    mnemonic = found["name"] or found["event"] or found["short"] or found["trap"] or found["junos"]
    return replace(
        line, text=text[found.end() :].strip(), tag=tag, facility=facility, mnemonic=mnemonic, repeats=repeats
    )


def host_name(name: str) -> str:
    """Return a device's name without its routing engine: `gw` of `re0.gw`, `re0-gw` and `gw-re0`."""
    return _ENGINE.sub("", name)
