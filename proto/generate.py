"""Writes the generated code from the .proto files; `--check DIR` writes it elsewhere, to test that it is current.

models.py writes the plain models of the messages beside the code of protoc.
The automation of deploy/ has a .proto of its own beside its code, because it imports nothing of the pipeline.
"""

import sys
import tempfile
from importlib import resources
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc
from models import models

ROOT = Path(__file__).resolve().parent
AUTOMATION = Path("deploy/automation")
WIRE = Path("streams/wire/v1")


def generate(out: Path) -> None:
    """Compile every .proto into `out`; raises SystemExit where protoc refuses one."""
    _compile(ROOT, out)
    (out / WIRE / "messages.py").write_text(models(_descriptors(), ROOT / WIRE), "utf-8")
    (out / AUTOMATION).mkdir(parents=True, exist_ok=True)
    _compile(ROOT.parent / AUTOMATION, out / AUTOMATION)


def _compile(source: Path, out: Path) -> None:
    plugin = Path(sys.executable).parent / "protoc-gen-mypy"
    outputs = [f"--plugin=protoc-gen-mypy={plugin}", f"--python_out={out}", f"--mypy_out=quiet:{out}"]
    for path in sorted(source.rglob("*.proto")):
        _protoc(source, path.relative_to(source).as_posix(), *outputs)


def _descriptors() -> FileDescriptorSet:
    """Return the descriptors of the messages between the processes of the pipeline."""
    with tempfile.NamedTemporaryFile() as made:
        _protoc(ROOT, f"{WIRE}/internal.proto", "--include_imports", f"--descriptor_set_out={made.name}")
        return FileDescriptorSet.FromString(Path(made.name).read_bytes())


def _protoc(source: Path, name: str, *outputs: str) -> None:
    includes = [f"-I{source}", f"-I{resources.files('grpc_tools') / '_proto'}"]
    if protoc.main(["protoc", *includes, *outputs, name]) != 0:
        raise SystemExit(f"protoc refused {name}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        generate(Path(sys.argv[2]))
    else:
        generate(ROOT.parent)
