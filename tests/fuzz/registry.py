"""The registry of all targets: `make test` checks each with a few inputs, `make fuzz` with as many as time allows."""

from tests.fuzz.target import Target
from tests.fuzz.targets import (
    answers,
    bridge,
    clickhouse_http,
    configuration,
    dialout,
    gnmi,
    host,
    inventory,
    jobs,
    snapshots,
    snmp,
    syslog,
    wire,
)

_MODULES = (
    gnmi,
    dialout,
    snmp,
    syslog,
    host,
    jobs,
    bridge,
    wire,
    snapshots,
    inventory,
    configuration,
    clickhouse_http,
    answers,
)

TARGETS: tuple[Target, ...] = tuple(target for module in _MODULES for target in module.TARGETS)
BY_NAME = {target.name: target for target in TARGETS}
MODULE_OF = {target.name: module.__name__ for module in _MODULES for target in module.TARGETS}
"""Name -> the module with the target: a fuzzer imports no other, because it instruments all that is imported."""
