"""Writes the generated code from the .proto files; `--check DIR` writes it elsewhere, to test that it is current."""

import sys
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent


def generate(out: Path) -> None:
    """Compile every .proto below this folder into `out`; raises SystemExit where protoc refuses one."""
    includes = [f"-I{ROOT}", f"-I{resources.files('grpc_tools') / '_proto'}"]
    for path in sorted(ROOT.rglob("*.proto")):
        name = path.relative_to(ROOT).as_posix()
        plugin = Path(sys.executable).parent / "protoc-gen-mypy"
        outputs = [f"--plugin=protoc-gen-mypy={plugin}", f"--python_out={out}", f"--mypy_out=quiet:{out}"]
        if protoc.main(["protoc", *includes, *outputs, name]) != 0:
            raise SystemExit(f"protoc refused {name}")


if __name__ == "__main__":
    generate(Path(sys.argv[2]) if sys.argv[1:2] == ["--check"] else ROOT.parent)
