"""Makes the self-signed certificate of brokers on loopback and renews it at a start before it expires."""

import datetime as dt
import ipaddress
from contextlib import suppress
from pathlib import Path

from streams.embedded.directories import write_private

_VALID = dt.timedelta(days=397)
_RENEW_BEFORE = dt.timedelta(days=60)


def server_certificate(folder: Path, now: dt.datetime) -> tuple[Path, Path]:
    """Return two paths: the file with the key and the certificate, and the file that clients trust."""
    both, public = folder / "certificate.pem", folder / "ca.pem"
    if not _is_valid(public, now + _RENEW_BEFORE) or not both.exists():
        _make(both, public, now)
    return both, public


def _is_valid(public: Path, until: dt.datetime) -> bool:
    from cryptography import x509

    with suppress(OSError, ValueError):
        return x509.load_pem_x509_certificate(public.read_bytes()).not_valid_after_utc > until
    return False


def _make(both: Path, public: Path, now: dt.datetime) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "railsight embedded broker")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + _VALID)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM).decode()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    write_private(both, private + pem)
    write_private(public, pem)
