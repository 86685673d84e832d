"""Runs one target under atheris (libFuzzer), which sees the code that an input reaches: `make fuzz` starts it.

python -m tests.fuzz.coverage_guided MODULE TARGET [options of libFuzzer] FOLDER
"""

import importlib
import sys

import atheris

from tests.fuzz.target import MAX_INPUT_BYTES

_OPTIONS = (f"-max_len={MAX_INPUT_BYTES}", "-timeout=30", "-rss_limit_mb=4096", "-print_final_stats=1")


def main() -> None:
    """Fuzz until libFuzzer's limit, or the first input that breaks the promise."""
    module, name = sys.argv.pop(1), sys.argv.pop(1)
    with atheris.instrument_imports(include=["streams", "collectors", "lab", "railsight_automation"]):
        targets = importlib.import_module(module).TARGETS
    import logging

    from tests.fuzz.target import MemoryMeter, check

    logging.disable(logging.CRITICAL)  # a line for each refused input
    target, meter = next(one for one in targets if one.name == name), MemoryMeter()
    for data in target.seeds():
        check(target, data, meter)  # caches, and modules that are imported at the first use
    meter.growth_bytes()

    def run(data: bytes) -> None:
        check(target, data, meter)

    atheris.Setup([sys.argv[0], *_OPTIONS, *sys.argv[1:]], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
