"""Options of the commands that publish a control, and its publication: checked, signed if there is a key."""

import asyncio
import getpass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from streams.cli.printing import print_text
from streams.config.settings import Settings
from streams.decide.controls import refusal
from streams.runtime.topic_io import publish
from streams.wire.errors import Misconfigured
from streams.wire.models import Control
from streams.wire.topics import CONTROLS, encode

Actor = Annotated[str | None, typer.Option("--actor", help="Person or program; default: the login name.")]
Reason = Annotated[str, typer.Option("--reason", help="Reason, for the record.")]
Key = Annotated[
    Path | None, typer.Option("--key", help="File of the private key that signs; default: decide.signing_key.")
]
HOUR_NS = 3_600_000_000_000


def actor_name(actor: str | None) -> str:
    """Return the actor of a control."""
    return actor or getpass.getuser()


def fail(command: str, reason: str) -> NoReturn:
    """Print one line and end with exit code 1."""
    print_text(f"railsight {command}: {reason}", err=True)
    raise typer.Exit(1)


def publish_control(settings: Settings, control: Control, key: Path | None = None) -> None:
    """Publish a control and wait for its acknowledgement; raises Misconfigured if it is not valid."""
    if reason := refusal(control):
        raise Misconfigured(reason)
    record = encode(CONTROLS, control)
    path = key or settings.decide.signing_key
    if path is None and settings.decide.trusted_keys:
        raise Misconfigured("controls must be signed (decide.trusted_keys); pass --key or set decide.signing_key")
    if path is not None:
        from streams.wire.signatures import load_private_key, sign

        at_ns = control.at_ns or 0
        record = sign(
            record,
            load_private_key(_read(path), str(path)),
            source=f"/railsight/actor/{control.actor}",
            at_ns=at_ns,
            time=f"{datetime.fromtimestamp(at_ns // 1_000_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}",
        )
    asyncio.run(publish(settings.kafka, [record]))


def _read(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        if mode & 0o077:
            raise Misconfigured(f"{path}: other users can read this key (mode {mode & 0o777:04o}); run chmod 600")
        return path.read_bytes()
    except OSError as error:
        raise Misconfigured(f"cannot read {path}: {error.strerror}") from error
