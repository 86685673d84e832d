"""Defines the settings of `[otlp]`: the receivers of log records and of self-metrics."""

from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import field_validator, model_validator

from streams.wire.login_settings import ClientFiles

PORTS = {"http": 80, "https": 443, "grpc": 4317, "grpcs": 4317}
"""The schemes of a receiver's URL, with the port of a URL without one; 4317 is OTLP's."""


class OtlpParams(ClientFiles):
    """The receivers of OTLP: a URL for each kind of data, and the files of TLS.

    `grpc://` and `grpcs://` (with TLS) name a receiver by gRPC, `http://` and `https://` one by HTTP.
    """

    logs: str = ""
    """The receiver of findings and remediations as log records, such as `grpc://collector:4317`; empty: not sent."""
    metrics: str = ""
    """The receiver of the self-metrics of each process, such as `http://prometheus:9090/api/v1/otlp`, to which
    `/v1/metrics` is appended; empty: not sent."""
    timeout_s: ClassVar[float] = 10
    """The limit of one request, the default of OpenTelemetry's exporters."""
    interval_s: ClassVar[float] = 60
    """The interval of the metrics, the default of OpenTelemetry's periodic reader."""
    backoff_s: ClassVar[float] = 1
    """The first wait between attempts; each wait doubles."""
    backoff_max_s: ClassVar[float] = 60
    """The longest wait between attempts."""

    @field_validator("logs", "metrics")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if not url:
            return url
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError("the URL of a receiver needs grpc://, grpcs://, http:// or https:// and a host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("the URL must not contain credentials, because it is logged; use cert_file and key_file")
        if parts.query or parts.fragment or not url.isprintable() or " " in url:
            raise ValueError("the URL of a receiver has no query, no fragment and no blanks")
        if parts.scheme.startswith("grpc") and parts.path.strip("/"):
            raise ValueError("the URL of a receiver by gRPC has no path")
        _ = parts.port  # raises ValueError for an invalid port
        return url.rstrip("/")

    @model_validator(mode="after")
    def _check_files(self) -> "OtlpParams":
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file requires cert_file")
        return self
