"""Writes the generated code from the .proto files; `--check DIR` writes it elsewhere, to test that it is current.

The automation of deploy/ has a .proto of its own beside its code, because it imports nothing of the pipeline.
"""

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


if __name__ == "__main__":
    generate(Path(sys.argv[2]) if sys.argv[1:2] == ["--check"] else ROOT.parent)
