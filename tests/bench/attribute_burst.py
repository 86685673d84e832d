"""The cost of a burst for `attribute`, which has one owner for the whole fabric: leaves of the largest one restart.

Every link of some leaves goes down within ten seconds, as its far end reports; the episodes arrive between 100
watermarks. Then all recover and are final. `python -m tests.bench.attribute_burst [EPISODES]` prints seconds of CPU and
the size of the state.
"""

import random
import sys
import time

from streams.detect.attribute.stage import Attribute
from streams.detect.params import DetectParams
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.topology import Topology
from streams.wire.models import Condition, Endpoint, Episode, Evidence, Finding, Message, Severity, Status, Subject

_S = 1_000_000_000
_T0 = 1_000_000 * _S
_STEPS = 100


def episodes(top: Topology, count: int, rng: random.Random) -> list[Finding]:
    """Return findings of links that are down, one leaf after the other."""
    leaves = [device.name for device in top.devices.values() if device.tier == "T0"]
    found: list[Finding] = []
    for leaf in leaves:
        for link in top.links_of[leaf]:
            far = link.lower if link.upper.device == leaf else link.upper
            begin = _T0 + rng.randrange(10 * _S)
            subject = Subject(link.id, Endpoint(*link.lower), Endpoint(*link.upper), link.role, pod=link.pod)
            evidence = Evidence("down", at=Endpoint(*far))
            found.append(
                Finding(
                    f"{len(found):032x}", 1, False, Condition.LINK_DOWN, Status.OPEN, Severity.WARNING, subject,
                    begin, begin, None, begin + 30 * _S, evidence=(evidence,), detector="link/down",
                )
            )  # fmt: skip
        if len(found) >= count:
            break
    rng.shuffle(found)
    return found[:count]


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    top = Topology(generate(GenerateParams(gpus=131_072)))
    own = episodes(top, count, random.Random(1))
    stage = Attribute(DetectParams())
    stage.start_epoch(1)
    stage.set_topology(top)
    stage.set_topology(top)
    top.graph  # noqa: B018 — made once for all stages, before the first finding
    started, published, worst = time.process_time(), 0, 0.0
    for step in range(_STEPS):
        batch: list[Message] = [Episode(f, (f.started_at_ns,)) for f in own[step::_STEPS]]
        first = time.process_time()
        published += len(stage.process(batch)) + len(stage.advance_watermark(_T0 + 40 * _S + step * _S // 10))
        worst = max(worst, time.process_time() - first)
    opened = time.process_time()
    state = stage.snapshot()
    saved = time.process_time()
    for step in range(_STEPS):
        ended: list[Message] = []
        for f in own[step::_STEPS]:
            resolved = {name: getattr(f, name) for name in f.__slots__} | {
                "revision": 2, "status": Status.RESOLVED, "resolved_at_ns": _T0 + 100 * _S, "final": True,
            }  # fmt: skip
            ended.append(Episode(Finding(**resolved), (f.started_at_ns,)))
        published += len(stage.process(ended)) + len(stage.advance_watermark(_T0 + 140 * _S + step * _S // 10))
    published += len(stage.advance_watermark(_T0 + 400 * _S))
    over_s = time.process_time() - saved
    quiet = time.process_time()
    for step in range(1000):
        stage.advance_watermark(_T0 + 401 * _S + step * _S // 10)
    print(  # noqa: T201 — its purpose
        f"{len(own)} episodes: open {opened - started:.2f} s (worst step {worst * 1000:.0f} ms), over {over_s:.2f} s,"
        f" {published} messages; snapshot {len(state) / 1e6:.1f} MB in {saved - opened:.2f} s;"
        f" 1000 watermarks without input {(time.process_time() - quiet) * 1000:.1f} ms"
    )


if __name__ == "__main__":
    main()
