"""Conditions between the fields of one message: the codec rejects a message that contradicts itself.

Consumers rely on them without a check: lists of one length, and chunks of their set.
"""

from collections.abc import Callable, Mapping
from typing import Any

from streams.wire.errors import Reject
from streams.wire.models import InventoryChunk, PeerWindow, PortModules, SnapshotChunk, VersionCount, Window

MAX_CHUNKS = 1 << 14
"""8 GiB in chunks of 512 KiB."""


def _check_window(window: Window) -> None:
    if not len(window.metric) == len(window.index) == len(window.value) == len(window.before):
        raise Reject("its metrics, indices and values differ in number")


def _check_peer_window(window: PeerWindow) -> None:
    if len(window.value) != len(window.port) * len(window.metric):
        raise Reject(f"{len(window.value)} values for {len(window.metric)} metrics of {len(window.port)} ports")


def _check_version(version: VersionCount) -> None:
    if len(version.members) != len(version.since_ns):
        raise Reject("its members and their times differ in number")


def _check_modules(modules: PortModules) -> None:
    if len(modules.ports) != len(modules.part_numbers):
        raise Reject("its ports and their part numbers differ in number")


def _check_chunk(chunk: SnapshotChunk | InventoryChunk) -> None:
    if not chunk.chunk < chunk.chunks <= MAX_CHUNKS:
        raise Reject(f"chunk {chunk.chunk} of {chunk.chunks}")


CHECKS: Mapping[type, Callable[[Any], None]] = {
    Window: _check_window,
    PeerWindow: _check_peer_window,
    VersionCount: _check_version,
    PortModules: _check_modules,
    SnapshotChunk: _check_chunk,
    InventoryChunk: _check_chunk,
}
