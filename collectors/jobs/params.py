"""Settings of the jobs collector: the schedulers, and how a job's team and tenant are found."""

from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from collectors.core.params import CollectorParams, from_json

Names = Annotated[dict[str, str], BeforeValidator(from_json)]


class SchedulerParams(BaseModel):
    """The settings that every scheduler has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=64)
    """Its name in the jobs that are published. Collectors of one Kafka need different ones: each ends its own jobs."""
    prefix: str = Field(default="", max_length=64)
    """Put before every job's id, where the ids of several schedulers would be the same."""
    nodes: Names = Field(default_factory=dict)
    """The scheduler's node of a host whose name in the inventory is another, as in the automation's settings."""
    teams: Names = Field(default_factory=dict)
    """The team of a value that is found by `team_by`; without an entry, the value itself."""
    tenants: Names = Field(default_factory=dict)
    """The tenant of a team; without an entry, `tenant`."""
    tenant: str = ""
    """The tenant of all other jobs; empty for that of the hosts in the inventory."""

    @cached_property
    def _hosts(self) -> dict[str, str]:
        return {node: host for host, node in self.nodes.items()}

    def host(self, node: str) -> str:
        """Return the host of a node."""
        return self._hosts.get(node, node)

    def team(self, value: str) -> str:
        """Return the team of a value that the scheduler reports."""
        return self.teams.get(value, value)

    def tenant_of(self, team: str) -> str:
        """Return the tenant of a team."""
        return self.tenants.get(team, self.tenant)


class SlurmParams(SchedulerParams):
    """Settings of `[collect.jobs.slurm]`."""

    name: str = Field(default="slurm", min_length=1, max_length=64)
    team_by: Literal["account", "comment", "user"] = "account"
    """The team is the job's account, its comment, or by its user in `teams`. Without accounting, accounts are empty."""
    command: tuple[str, ...] = Field(default=("squeue", "--json", "--states=all"), min_length=1)
    """Prints the jobs. SLURM_CONF and the login come from the environment of the process."""
    slurmrestd: Path | None = None
    """The unix socket of a slurmrestd that is read instead; it needs `rest_auth/local`."""
    api: str = Field(default="v0.0.38", pattern=r"^v0\.0\.\d+$")
    """The version of slurmrestd's API; v0.0.38 is Slurm 22.05's."""
    cadence_s: float = Field(default=2.0, ge=0.5, le=600)
    """slurmctld copies all jobs for each answer: with thousands of them, 10 s and more (choice)."""
    deadline_s: ClassVar[float] = 8.0
    """`squeue` waits for 9 s where slurmctld does not answer."""
    absent_s: ClassVar[float] = 60.0
    """A job that is missing from complete answers for so long has ended. Slurm shows a finished job for MinJobAge (300
    s): a missing one is of a controller that lost its state, or ended while this collector did not run."""


class KubernetesParams(SchedulerParams):
    """Settings of `[collect.jobs.kubernetes]`."""

    name: str = Field(default="kubernetes", min_length=1, max_length=64)
    kubeconfig: str = ""
    """A file; empty for the service account of the pod."""
    context: str = ""
    """The context of the kubeconfig; empty: its current one."""
    gpus: tuple[str, ...] = Field(default=("nvidia.com/gpu", "amd.com/gpu"), min_length=1)
    """The resources that are GPUs; pods that request none are no jobs."""
    user_label: str = ""
    """The label or annotation of a pod that names its user."""
    team_label: str = "kueue.x-k8s.io/queue-name"
    """The label or annotation of a pod that names its team; without it, its namespace."""
    relist_s: ClassVar[float] = 300.0
    """All pods are listed again so often; in between, changes are watched."""
    watch_s: ClassVar[int] = 20
    """A watch is begun again so often: its end shows that the API is there. Less than `stale_s`."""
    timeout_s: ClassVar[float] = 10.0
    """Of a connection and of a list; a watch that is silent for so long beyond its end has failed."""
    settle_s: ClassVar[float] = 0.5
    """Changes of pods are collected for so long before jobs are computed: a job of 1,000 pods changes in one moment."""


class Params(CollectorParams):
    """Settings of `[collect.jobs]`."""

    supports_spool: ClassVar[bool] = False
    slurm: SlurmParams | None = None
    kubernetes: KubernetesParams | None = None
    stale_s: ClassVar[float] = 30.0
    """After so long without an answer of its scheduler a running job is marked stale."""
    retain_s: ClassVar[float] = 86_400.0
    """Ended jobs stay in the topic, and so in the memory of every stage, for so long; ClickHouse keeps them longer."""

    def schedulers(self) -> list[SchedulerParams]:
        """Return the settings of the configured schedulers."""
        return [params for params in (self.slurm, self.kubernetes) if params is not None]
