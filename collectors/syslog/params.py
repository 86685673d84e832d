"""Settings of the syslog collector: where lines come from, and the devices that may send them."""

from typing import ClassVar, Literal, NamedTuple

from pydantic import TypeAdapter, model_validator

from collectors.core.params import InputParams, InventoryParams, LogParams, configured_targets
from collectors.dialout.params import ListenerParams, Target
from collectors.syslog.stamps import configured_zone
from streams.wire.errors import Misconfigured

Form = Literal["udp", "tcp", "tls", "file", "topic"]
_LISTENERS = ("udp", "tcp", "tls")


class Input(NamedTuple):
    """One input: an address to listen on, a file, or a topic."""

    form: Form
    place: str

    @property
    def listens(self) -> bool:
        """True for an address."""
        return self.form in _LISTENERS

    @property
    def address(self) -> tuple[str, int]:
        """The host, empty for all addresses, and the port of an address."""
        host, _, port = self.place.rpartition(":")
        return host.strip("[]"), int(port)


def _input(text: str) -> Input:
    form, colon, place = text.partition(":")
    form, place = form.strip(), place.strip()
    if form in _LISTENERS:
        place = place.removeprefix("//")
        host, _, port = place.rpartition(":")
        if port.isascii() and port.isdecimal() and int(port) < 65536 and (":" not in host or host.startswith("[")):
            return Input(form, place)  # type: ignore[arg-type] # it is one of them
    elif form in ("file", "topic") and colon and place:
        return Input(form, place)  # type: ignore[arg-type] # as above
    raise ValueError(
        f"{text!r} is no input: udp://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT, file:PATH or topic:NAME"
    )


class Params(ListenerParams, InputParams, InventoryParams, LogParams):
    """Settings of `[collect.syslog]`.

    Lines count only if a target has the sender's address. Lines of relays, files and topics name their device: a target
    or a device of the inventory.
    """

    supports_spool: ClassVar[bool] = True
    state_name: ClassVar[str] = "syslog"
    group: ClassVar[str] = "railsight-syslog"
    """Processes of one group divide the topics' partitions."""
    lines_per_s: ClassVar[float] = 1000.0
    """The rate limit of a device; a router whose BGP sessions were reset sent 66 lines/s. Further lines are counted."""
    lines_burst: ClassVar[int] = 5000
    """Lines of a device that are read at once before `lines_per_s` applies."""
    relay_factor: ClassVar[int] = 20
    """The limits of a relay are those of this many devices."""
    events_per_s: ClassVar[float] = 1.0
    """The rate limit of one kind of event at one port; beyond it the newest waits and counts the replaced ones."""
    events_burst: ClassVar[int] = 20
    """Events of one kind at one port that are sent at once before `events_per_s` applies."""
    max_connections: ClassVar[int] = 1000
    """The limit of connections; further ones are closed and counted."""
    max_connections_of_one: ClassVar[int] = 16
    """The limit of connections of one address."""
    incomplete_s: ClassVar[float] = 30.0
    """A connection whose line, or TLS handshake, is incomplete for this long is closed."""
    poll_s: ClassVar[float] = 0.25
    """Maximum delay of a line of a file, and of a delayed event."""

    @model_validator(mode="after")
    def _valid_inputs(self) -> "Params":
        forms = {one.form for one in self.parsed()}
        if "tls" in forms and self.cert_file is None:
            raise ValueError("tls:// needs cert_file and key_file")
        return self

    def parsed(self) -> tuple[Input, ...]:
        """Return the inputs; raises ValueError for an invalid one."""
        return tuple(map(_input, self.inputs))

    def topics(self) -> tuple[str, ...]:
        """Return the names of the topics."""
        return tuple(one.place for one in self.parsed() if one.form == "topic")

    def all_targets(self) -> tuple[Target, ...]:
        """Return the targets; raises Misconfigured for duplicates, and for none if there is no inventory either."""
        if not (self.targets or self.targets_file or self.inventory):
            raise Misconfigured("collect.syslog: no targets and no inventory; set targets, targets_file or inventory")
        if not (self.targets or self.targets_file):
            return ()
        targets = configured_targets("syslog", self, self.targets, self.targets_file, _TARGETS)
        for target in targets:
            try:
                configured_zone(target.zone)
            except ValueError as error:
                raise Misconfigured(f"collect.syslog: target {target.name}: {error}") from error
        return targets


_TARGETS = TypeAdapter(tuple[Target, ...])
