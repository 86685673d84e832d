"""Certificates are read again when their files change: a renewed one is used by the next connection."""

import asyncio
import datetime as dt
import ssl
from pathlib import Path

import pytest

from streams.wire.tls_files import FileContext, TlsFiles
from tests.fixtures.certificates import CertificateAuthority


async def handshake(server_files: tuple[Path, Path], client: FileContext, client_ca: Path | None = None) -> None:
    """Connect once to a new server; raises ssl.SSLError or ConnectionError if one side refuses the other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*server_files)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca)

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"ok")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        try:
            if await reader.read() != b"ok":
                raise ConnectionResetError
        finally:
            writer.close()
    finally:
        server.close()


async def test_a_renewed_ca_replaces_the_former_one(tmp_path: Path) -> None:
    """Servers of the new CA are trusted at once, and those of the former one no longer."""
    former, new = CertificateAuthority(tmp_path / "1"), CertificateAuthority(tmp_path / "2")
    served_former, served_new = former.signed("server"), new.signed("server")
    file = tmp_path / "ca.pem"
    file.write_bytes(former.file.read_bytes())
    context = FileContext(TlsFiles(file))
    await handshake(served_former, context)
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(served_new, context)
    file.write_bytes(new.file.read_bytes() + b"\n")
    await handshake(served_new, context)
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(served_former, context)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # sockets of refused handshakes
async def test_an_expired_client_certificate_works_again_once_it_is_renewed(tmp_path: Path) -> None:
    """A renewal that is not complete, a certificate without its key, changes nothing."""
    ca = CertificateAuthority(tmp_path)
    server = ca.signed("server")
    certificate, key = ca.signed("client", dt.timedelta(seconds=-1))
    context = FileContext(TlsFiles(ca.file, certificate, key))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await handshake(server, context, ca.file)
    renewed, renewed_key = ca.signed("renewed")
    certificate.write_bytes(renewed.read_bytes())
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await handshake(server, context, ca.file)
    key.write_bytes(renewed_key.read_bytes())
    await handshake(server, context, ca.file)


def test_unusable_files_are_refused_at_the_start(tmp_path: Path) -> None:
    """A missing file and one without a certificate raise at once."""
    with pytest.raises(FileNotFoundError):
        FileContext(TlsFiles(tmp_path / "none.pem"))
    (tmp_path / "empty.pem").write_text("no certificate")
    with pytest.raises(ssl.SSLError):
        FileContext(TlsFiles(tmp_path / "empty.pem"))
