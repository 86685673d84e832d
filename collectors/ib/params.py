"""Settings of the collector of InfiniBand: its inputs, and how it connects to them."""

from pathlib import Path
from typing import ClassVar, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import model_validator

from collectors.core.params import InputParams, InventoryParams
from streams.wire.errors import Misconfigured
from streams.wire.login_settings import ClientFiles, is_loopback
from streams.wire.tls_files import FileContext, TlsFiles


class Input(NamedTuple):
    """One input: a URL of UFM Telemetry, or a pattern of files."""

    form: Literal["url", "file"]
    place: str
    login: Path | None = None
    """The file of the login at the URL; it is read for each connection."""


def _input(text: str) -> Input:
    if text.startswith("file:") and len(text) > len("file:"):
        return Input("file", text.removeprefix("file:"))
    try:
        url = urlsplit(text)
        known = url.scheme in ("http", "https") and url.hostname and (url.port or True) and "@" not in url.netloc
    except ValueError:
        known = False
    if not known:
        raise ValueError(
            f"{text!r} is no input: http://HOST:PORT/PATH or https://HOST/PATH without a login, or file:PATTERN"
        )
    login = url.fragment.removeprefix("login=")
    if url.fragment and (login == url.fragment or not login):
        raise ValueError(f"{text!r}: what follows # is not login=PATH, the file of the login")
    if login and url.scheme == "http" and not is_loopback(f"{url.hostname}:"):
        raise ValueError(f"{text!r}: others on the network can read a login without TLS; use https")
    return Input("url", url._replace(fragment="").geturl(), Path(login) if login else None)


class Params(ClientFiles, InputParams, InventoryParams):
    """Settings of `[collect.ib]`."""

    supports_spool: ClassVar[bool] = True
    cadence_s: ClassVar[float] = 30.0
    """The interval at which UFM Telemetry's first instance samples (UFM manual); it has the last sample only."""
    files_every_s: ClassVar[float] = 600.0
    """The expected interval of runs of ibdiagnet: a device is silent after three of them."""
    deadline_s: ClassVar[float] = 25.0
    """An answer that is not complete by then is given up."""
    max_bytes: ClassVar[int] = 256 << 20
    """The limit of an answer or a file: 10,000 ports with 120 counters are 30 MB as Prometheus text."""
    max_devices: ClassVar[int] = 20_000
    """The limit of devices, for a process without an inventory."""

    @model_validator(mode="after")
    def _valid(self) -> "Params":
        self.parsed()
        if self.key_file and not self.cert_file:
            raise ValueError("key_file needs a cert_file")
        return self

    def parsed(self) -> tuple[Input, ...]:
        """Return the inputs; raises ValueError for an invalid one."""
        return tuple(map(_input, self.inputs))

    def tls(self) -> FileContext | None:
        """Return the context of TLS; None if no input needs one. Raises Misconfigured."""
        if not any(one.place.startswith("https:") for one in self.parsed() if one.form == "url"):
            return None
        files = TlsFiles(self.ca_file, self.cert_file, self.key_file)
        try:
            return FileContext(files)
        except OSError as error:  # ssl.SSLError is an OSError
            raise Misconfigured(f"collect.ib: cannot load {', '.join(map(str, files.present()))}: {error}") from error
