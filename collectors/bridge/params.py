"""Settings of the bridge: its source topics and their Kafka, their format, and the mapping of their names."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from collectors.bridge.series import Input
from collectors.core.params import CollectorParams, from_json
from streams.wire.errors import Misconfigured
from streams.wire.login_settings import LoginSettings

Format = Literal["auto", "gnmic", "telegraf-json", "telegraf-influx"]


class SourceTopic(BaseModel):
    """One source topic; `auto` detects the format by each record's first bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    """The topic's name."""
    format: Format = "auto"
    """The format of its records."""


def _topics(value: object) -> object:
    """Parse topics given as JSON text, as one name or as several names."""
    if isinstance(value, str):
        value = orjson.loads(value) if value.lstrip()[:1] in {"[", "{"} else value.split(",")
    if isinstance(value, dict):
        value = [value]
    if isinstance(value, list | tuple):
        return [{"name": item.strip()} if isinstance(item, str) else item for item in value]
    return value


class Params(CollectorParams, LoginSettings):
    """Settings of `[collect.bridge]`."""

    supports_spool: ClassVar[bool] = False
    topics: Annotated[tuple[SourceTopic, ...], BeforeValidator(_topics)] = ()
    """The source topics: names, or tables with name and format."""
    group: str = Field(default="railsight-bridge", min_length=1)
    """Processes of one group divide the topics' partitions; Kafka stores their positions under this name."""
    start: Literal["earliest", "latest"] = "latest"
    """The start of a partition without a committed position; by default older records are skipped."""
    inputs: Annotated[dict[str, Input], BeforeValidator(from_json)] = Field(default_factory=dict)
    """The Telegraf input of a measurement (a glob), if its tags do not show it."""
    device_tag: str = ""
    """The tag that names the device, if it is not one of those in the tables."""
    devices: Annotated[dict[str, str], BeforeValidator(from_json)] = Field(default_factory=dict)
    """The inventory's name of a device, by the value of its tag (for example an address)."""
    gap_s: ClassVar[float] = 0.5
    """Values of one device that are further apart, by their own time, belong to different readings."""
    span_s: ClassVar[float] = 5.0
    """The maximum length of a reading."""
    quiet_s: ClassVar[float] = 0.25
    """A partition without new records for this long is complete: its readings are published."""
    wait_s: ClassVar[float] = 1.0
    """The maximum delay of a reading."""
    silent_s: ClassVar[float] = 30.0
    """A device without values for this long is reported as unreachable."""
    forget_s: ClassVar[float] = 3600.0
    """After this long, a silent device is no longer reported."""
    max_ports: ClassVar[int] = 4096
    """The limit of ports of one device; values of further ports are left out and counted."""
    max_devices: ClassVar[int] = 50_000
    """The limit of devices; values of further devices are left out and counted."""
    max_waiting: ClassVar[int] = 5_000
    """The limit of unacknowledged records: past it no further records are read."""
    once_records: ClassVar[int] = 5_000
    """The number of a partition's newest records that `--once --print` reads."""
    file: Path | None = None
    """A file of records, one per line, that `--once --print` reads instead of Kafka."""
    bootstrap: str = ""
    """The brokers of the source topics and of the login settings, if not railsight's; `--once --print` needs them."""

    @model_validator(mode="before")
    @classmethod
    def _default_mechanism(cls, values: object) -> object:
        if isinstance(values, dict) and values.get("username") and not values.get("sasl_mechanism"):
            return {**values, "sasl_mechanism": "SCRAM-SHA-512"}
        return values

    def source_options(self, default_options: dict[str, Any] | None) -> dict[str, Any]:
        """Return the client options of the source Kafka, by default railsight's. Raises Misconfigured."""
        if self.bootstrap:
            return self.client_options()
        if default_options is None:
            raise Misconfigured("collect bridge: Kafka's address is not set; set bootstrap")
        return default_options
