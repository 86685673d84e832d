"""Writes the generated code from the .proto files; `--check DIR` writes it elsewhere, to test that it is current.

Without `--check` it also writes the members of `Condition` in streams/wire/models.py, which equal the enum of the wire.
The automation of deploy/ has a .proto of its own beside its code, because it imports nothing of the pipeline.
"""

import re
import sys
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent


AUTOMATION = Path("deploy/automation")


def generate(out: Path) -> None:
    """Compile every .proto into `out`; raises SystemExit where protoc refuses one."""
    _compile(ROOT, out)
    (out / AUTOMATION).mkdir(parents=True, exist_ok=True)
    _compile(ROOT.parent / AUTOMATION, out / AUTOMATION)


def _compile(source: Path, out: Path) -> None:
    includes = [f"-I{source}", f"-I{resources.files('grpc_tools') / '_proto'}"]
    for path in sorted(source.rglob("*.proto")):
        name = path.relative_to(source).as_posix()
        plugin = Path(sys.executable).parent / "protoc-gen-mypy"
        outputs = [f"--plugin=protoc-gen-mypy={plugin}", f"--python_out={out}", f"--mypy_out=quiet:{out}"]
        if protoc.main(["protoc", *includes, *outputs, name]) != 0:
            raise SystemExit(f"protoc refused {name}")


def write_conditions() -> None:
    """Write the members of `Condition` from findings.proto."""
    proto, models = ROOT / "streams/wire/v1/findings.proto", ROOT.parent / "streams/wire/models.py"
    declared = proto.read_text("utf-8").partition("enum Condition {")[2].partition("}")[0]
    members = re.findall(r"^ *([A-Z_]+) = ([0-9]+);", declared, re.MULTILINE)
    before, begin, rest = models.read_text("utf-8").partition("class Condition(IntEnum):\n")
    after = rest[rest.index("\n\n") :]
    text = before + begin + "\n".join(f"    {name} = {number}" for name, number in members) + after
    models.write_text(text, "utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        generate(Path(sys.argv[2]))
    else:
        generate(ROOT.parent)
        write_conditions()
