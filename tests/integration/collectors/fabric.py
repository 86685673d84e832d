"""Provides a simulated fabric on real sockets, and a collector that reads it, for the duration of a test."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc

from collectors.core.clock import SystemClock
from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics
from collectors.gnmi.collector import collect
from collectors.gnmi.params import Params, Target
from lab.constants import params_of
from lab.servers.gnmi_server import GnmiServers
from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.demo_world import DemoWorld
from lab.world.ground_truth import AnyFault
from streams.fabric.inventory import Inventory
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.running_task import run_beside

SMALL = DemoShape(pods=1, hosts=1, planes=1, spines=1, uplinks=1)
Faulty = Callable[[Inventory, int], list[AnyFault]]


def world_of(faulty: Faulty | None = None, now_ns: int | None = None, shape: DemoShape = SMALL) -> DemoWorld:
    """Return a fabric with these faults, from a time on: now unless given."""
    start_ns = SystemClock().now_ns() if now_ns is None else now_ns
    inventory = demo_fabric.inventory(shape, start_ns)
    return DemoWorld(inventory, faulty(inventory, start_ns) if faulty else (), 1, start_ns)


@dataclass
class Running:
    """A running collector: the fabric's server, the published records, and the self-metrics."""

    face: GnmiServers
    world: DemoWorld
    published: RecordingPublisher
    metrics: CollectorMetrics


@asynccontextmanager
async def running(
    faulty: Faulty | None = None,
    shape: DemoShape = SMALL,
    tls: grpc.ServerCredentials | None = None,
    **settings: object,
) -> AsyncIterator[Running]:
    """Run a fabric of this shape with these faults, and the collector on all its switches."""
    world = world_of(faulty, shape=shape)
    async with GnmiServers(world, SystemClock(), tls=tls) as face:
        targets = [Target(name=name, address=address) for name, address in face.addresses.items()]
        params = params_of(
            Params, {"targets": targets, "cadence_s": 0.5, "backoff_max_s": 0.5, "tls": tls is not None} | settings
        )
        async with collecting(params) as (published, metrics):
            yield Running(face, world, published, metrics)


@asynccontextmanager
async def collecting(params: Params) -> AsyncIterator[tuple[RecordingPublisher, CollectorMetrics]]:
    """Run the collector on these targets."""
    published, metrics = RecordingPublisher(), CollectorMetrics()
    async with run_beside(collect(params, CollectorContext(published, "test", metrics, run=7, rng=random.Random(1)))):
        yield published, metrics
