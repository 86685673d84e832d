"""Who takes part, in the order of the table: the first of each kind is railsight, and the others are compared to it."""

from dataclasses import dataclass

from streams.wire.topics import SYMPTOMS, PartitionScheme, Topic

_PACKAGE = "streams.bench.baselines"
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Baseline:
    """One program.

    `keeps` says where its state, or its rows, are. One that stores has a `table`, with `rows_each` rows a port-sample.
    One that is `apart` runs in the peers' own environment; `share` is the part of the messages that it is given where
    the whole would take too long.
    """

    name: str
    program: str
    state_location: str
    table: str = ""
    rows_per_sample: int = 1
    is_isolated: bool = False
    share: float = 1.0

    @property
    def stores(self) -> bool:
        """Whether it stores readings, and does not look for crossings."""
        return bool(self.table)

    @property
    def module(self) -> str:
        """What runs it, with `python -m`."""
        return f"{_PACKAGE}.{self.program}"

    @property
    def answers(self) -> Topic:
        """Where it writes what it found: railsight in its own topic."""
        if self.program == "railsight_measure":
            return SYMPTOMS
        return Topic(f"bench.{self.program}", None, PartitionScheme.POD, _HOUR_S)


BASELINES: tuple[Baseline, ...] = (
    Baseline("railsight measure", "railsight_measure", "arrays; snapshots in Kafka"),
    Baseline("Faust agent", "faust_agent", "arrays; lost with the process"),
    Baseline("aiokafka, an object a port", "aiokafka_loop", "objects; lost with the process"),
    Baseline("Quix Streams", "quix_dataframe", "arrays in RocksDB, no changelog", is_isolated=True),
    Baseline("Bytewax", "bytewax_flow", "arrays; lost with the process", is_isolated=True),
    Baseline("railsight sink", "railsight_sink", "a row a port, exactly once", table="samples"),
    Baseline(
        "gnmic's row a value", "row_per_value", "a row a value", table="gnmic_telemetry", rows_per_sample=24, share=0.1
    ),
)
