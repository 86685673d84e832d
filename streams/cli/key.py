"""`railsight key`: makes the key with which a person or a program signs controls and results."""

import os
from pathlib import Path
from typing import Annotated

import typer

from streams.wire.errors import Misconfigured

File = Annotated[Path, typer.Argument(metavar="FILE", help="The file of the private key (PEM).")]

key = typer.Typer(no_args_is_help=True, help="Make the key that signs controls.")


@key.command()
def new(file: File) -> None:
    """Write a new Ed25519 private key, readable by its owner only, and print the public key.

    Example: `railsight key new operator.pem`.
    """
    from streams.wire.signatures import load_private_key, new_private_key, public_text

    pem = new_private_key()
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Misconfigured(f"cannot create {file}: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as out:
        out.write(pem)
    typer.echo(public_text(load_private_key(pem, str(file))))


@key.command()
def show(file: File) -> None:
    """Print the public key of a private key, for `decide.trusted_keys`.

    Example: `railsight key show operator.pem`.
    """
    from streams.wire.signatures import load_private_key, public_text

    try:
        pem = file.read_bytes()
    except OSError as error:
        raise Misconfigured(f"cannot read {file}: {error.strerror}") from error
    typer.echo(public_text(load_private_key(pem, str(file))))
