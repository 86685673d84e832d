"""Defines all settings of railsight: the Params of each room under one section name.

The command line passes the collectors' Params, so that this room imports no collector: they validate `[collect.<name>]`
by the collector's name. loader.py reads and validates the sources.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, create_model

from streams.config.identity import IdentitySettings
from streams.config.kafka import KafkaSettings
from streams.config.loader import load_model
from streams.config.runtime import RuntimeSettings
from streams.decide.params import DecideParams
from streams.detect.params import DetectParams
from streams.embedded.kafka_config import KafkaParams
from streams.health.health import HealthParams
from streams.locality.params import LocalityParams
from streams.notify.params import NotifyParams
from streams.notify.tickets.params import TicketParams
from streams.store.params import SinkParams, StoreParams
from streams.wire.otlp_params import OtlpParams


class Collectors(BaseModel):
    """One optional section for each collector that the caller passes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Embedded(BaseModel):
    """The servers that railsight starts if the configuration names no others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kafka: KafkaParams = KafkaParams()
    """The embedded Kafka."""


class Settings(BaseModel):
    """The whole configuration; an absent section has its defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kafka: KafkaSettings = KafkaSettings.model_validate({})
    """The brokers, the login and the partitions."""
    identity: IdentitySettings = IdentitySettings()
    """The identity of telemetry."""
    store: StoreParams = StoreParams.model_validate({})
    """The connection to ClickHouse."""
    persist: SinkParams = SinkParams.model_validate({})
    """The sink."""
    detect: DetectParams = DetectParams()
    """Thresholds of detection."""
    decide: DecideParams = DecideParams()
    """Guards and the life cycle of remediations."""
    notify: NotifyParams = NotifyParams()
    """Alertmanager."""
    otlp: OtlpParams = OtlpParams()
    """Receivers of findings, remediations and self-metrics by OTLP."""
    tickets: TicketParams | None = None
    """The ticket system; without the section there are no tickets."""
    locality: LocalityParams = LocalityParams()
    """Locality of jobs."""
    runtime: RuntimeSettings = RuntimeSettings.model_validate({})
    """Workers."""
    health: HealthParams = HealthParams()
    """Liveness and readiness."""
    embedded: Embedded = Embedded()
    """The servers that railsight starts itself."""
    collect: Collectors = Collectors()
    """One section for each collector."""

    @property
    def collectors(self) -> dict[str, BaseModel]:
        """Return the Params of each collector that has a section, by name."""
        sections = {name: getattr(self.collect, name) for name in type(self.collect).model_fields}
        return {name: params for name, params in sections.items() if params is not None}


def load(
    path: Path | None = None,
    collectors: Mapping[str, type[BaseModel]] | None = None,
    environ: Mapping[str, str] = os.environ,
    others: Iterable[str] = (),
) -> Settings:
    """Load the settings of a file and the environment; raises Misconfigured with a line for each problem.

    `collectors` are the Params of collectors by name; the sections of `others` are ignored. Without `collectors`,
    `[collect]` is ignored: a process that runs no collector reads the shared file without the collectors installed.
    """
    if collectors is None:
        return load_model(Settings, path, environ, ignored=("collect",))
    fields = {name: (params | None, None) for name, params in collectors.items()}
    section = create_model("Collectors", __base__=Collectors, **fields)  # type: ignore[call-overload]
    model = create_model("Settings", __base__=Settings, collect=(section, section()))
    return load_model(model, path, environ, ignored=[f"collect.{name}" for name in others])
