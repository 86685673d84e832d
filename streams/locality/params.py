"""Defines the settings of the exports and the locality service, and its access to Kafka."""

from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from streams.wire.login_settings import ServerFiles, is_loopback
from streams.wire.topics import (
    COLLECTOR_STATUS,
    CONTROLS,
    FINDINGS,
    FINDINGS_OPEN,
    INVENTORY,
    JOBS,
    PROGRESS,
    REMEDIATIONS,
    REMEDIATIONS_OPEN,
    TOPOLOGY,
    Access,
)


class LabelKeys(BaseModel):
    """The keys of the labels of Kubernetes nodes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefix: str = "fabric.topograph.run/tier-"
    """The prefix before the number of the level, 0 for the unit: the key of topograph 1.0 and later."""
    fixed: tuple[str, ...] = ()
    """Keys from the unit up that replace the numbered ones, for example `network.topology.nvidia.com/leaf`, `…/spine`
    and `…/core` of topograph up to 0.5."""

    def of_levels(self, count: int) -> tuple[str, ...]:
        """Return the keys of `count` levels, from the units up; fewer if there are not enough fixed keys."""
        return self.fixed[:count] if self.fixed else tuple(f"{self.prefix}{level}" for level in range(count))


class LocalityParams(ServerFiles):
    """Settings of `railsight topology export` and of the service `railsight serve`."""

    labels: LabelKeys = LabelKeys()
    kueue_topology: str = Field(default="railsight", pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    """The name of Kueue's Topology."""
    host: str = "127.0.0.1"
    """The address on which the service listens."""
    port: int = Field(default=8790, ge=0, le=65535)
    """The port on which the service listens; 0: a free one."""
    token_file: Path | None = None
    """The file of the token that clients send (`Authorization: Bearer TOKEN`), and people as the password; by default,
    the first start makes one in the user's data folder."""
    publish: bool = True
    """Publish the place and the state of each host on railsight.topology.v1."""
    refresh_s: ClassVar[float] = 60.0
    """The longest delay after which the service applies ends of maintenance and jobs, in seconds."""
    max_waiting: ClassVar[int] = 64
    """The limit of clients that wait for a change at the same time, by long poll or event stream."""

    @model_validator(mode="after")
    def _encrypted(self) -> "LocalityParams":
        if self.key_file and not self.cert_file:
            raise ValueError("key_file needs a cert_file")
        if self.client_ca_file and not self.cert_file:
            raise ValueError("client_ca_file needs a cert_file")
        if not is_loopback(self.host) and not (self.cert_file and (self.token_file or self.client_ca_file)):
            raise ValueError(
                f"host {self.host} is not on loopback: set cert_file, because others on the network could read the"
                " token, and token_file, so that clients have it, or client_ca_file"
            )
        return self


READS = (INVENTORY, JOBS, FINDINGS_OPEN, REMEDIATIONS_OPEN, CONTROLS)
"""The topics from which the locality is computed."""
ACCESS = Access(reads=(*READS, TOPOLOGY, COLLECTOR_STATUS, PROGRESS, FINDINGS, REMEDIATIONS), writes=(TOPOLOGY,))
"""The service reads its own topic at the start, so that it publishes only changes; its pages read the others."""
