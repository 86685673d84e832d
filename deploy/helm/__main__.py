"""Renders the Helm chart, checks the objects and runs the chart's tests: `python -m deploy.helm` (`make chart`).

Helm, kubeconform and helm-unittest are built once from the Go module proxy into the user's cache, which takes minutes
and needs Go. Kubernetes' schemas come from the Python package kubernetes-validate. The rendered objects are written to
deploy/helm/rendered with the digest of the chart's files; `make test` uses it to check that they are up to date.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from streams.embedded.directories import cache_directory

FOLDER = Path(__file__).parent
CHART, EXAMPLES, RENDERED = FOLDER / "railsight", FOLDER / "examples", FOLDER / "rendered"
KUBERNETES = "1.34.0"
TOOLS = {
    "helm": "helm.sh/helm/v3@v3.22.0",
    "kubeconform": "github.com/yannh/kubeconform@v0.8.0",
    "helm-unittest": "github.com/helm-unittest/helm-unittest@v1.1.2",
}
"""Go modules, each with the program in `cmd`."""
SCHEMAS = "kubernetes-validate==1.37.0"
CUSTOM = ("ServiceMonitor", "ScaledObject")
"""Kinds without a schema here, from the Prometheus operator and from KEDA."""
SPOILED = {"maxSurge": "maxSruge", "containerPort: 9100": "containerPort: health", "kind: Job": "kind: Jbo"}
"""Texts of rendered objects, each with an invalid replacement that kubeconform must refuse."""


def digest() -> str:
    """Return the digest of all files of the chart and of the examples."""
    total = hashlib.sha256()
    for path in sorted(path for folder in (CHART, EXAMPLES) for path in folder.rglob("*") if path.is_file()):
        total.update(f"{path.relative_to(FOLDER)}\n".encode() + path.read_bytes())
    return total.hexdigest()


class ToolNotBuilt(SystemExit):
    """Raised if a program could not be built: Go is absent, or its modules cannot be downloaded."""


def is_built(name: str) -> bool:
    """Return whether a program was built before."""
    return (cache_directory() / "tools" / name).exists()


def tool(name: str) -> str:
    """Return the path of a program, building it at the first call; raises ToolNotBuilt."""
    folder = cache_directory() / "tools"
    if not is_built(name):
        if shutil.which("go") is None:
            raise ToolNotBuilt(f"make chart: {name} is built with Go, which is not installed; install Go")
        folder.mkdir(parents=True, exist_ok=True)
        # Run in the module's folder: `go install` refuses a module that has replace directives.
        found = _go("mod", "download", "-json", TOOLS[name])
        _go("build", "-o", str(folder / name), f"./cmd/{name}", folder=json.loads(found)["Dir"])
    return str(folder / name)


def _go(*arguments: str, folder: str | None = None) -> str:
    done = subprocess.run(["go", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolNotBuilt(f"make chart: go {' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def schemas(kinds: set[str]) -> Path:
    """Return a folder with a self-contained schema for each kind (`deployment-apps-v1`)."""
    folder = cache_directory() / f"kubernetes-schemas-{KUBERNETES}"
    if any(not (folder / f"{kind}.json").exists() for kind in kinds):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as temporary:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
            subprocess.run([*pip, "--dest", temporary, SCHEMAS], check=True)
            (wheel,) = Path(temporary).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                prefix = f"kubernetes_validate/kubernetes-json-schema/v{KUBERNETES}-local-strict/"
                shared = json.loads(_text(archive, f"{prefix}_definitions.json"))["$defs"]
                for kind in kinds:
                    found = json.loads(_text(archive, f"{prefix}{kind}.json"))
                    (folder / f"{kind}.json").write_text(json.dumps(found | {"$defs": shared}))
    return folder


def _text(archive: zipfile.ZipFile, name: str) -> str:
    text = archive.read(name).decode()
    return text.replace("/api/_definitions.json#", "#").replace('"_definitions.json#', '"#')


def run_suites(folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    """Run the tests of the chart in a folder (suites/) with helm-unittest, which includes Helm."""
    command = [tool("helm-unittest"), "--strict", "--file", "../suites/*.yaml", str(folder / "railsight")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def template(values: Path) -> subprocess.CompletedProcess[str]:
    """Render the chart with the values of a file."""
    command = [tool("helm"), "template", "railsight", str(CHART), "--namespace", "fabric", "--kube-version", KUBERNETES]
    return subprocess.run([*command, "--values", str(values)], capture_output=True, text=True, check=False)


def objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of rendered text."""
    yield from (one for one in yaml.safe_load_all(text) if one)


def conform(text: str) -> subprocess.CompletedProcess[str]:
    """Check objects against Kubernetes' schemas."""
    kinds = {_schema_name(one) for one in objects(text) if one["kind"] not in CUSTOM}
    location = (
        f"{schemas({kind for kind in kinds if 'jbo' not in kind})}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    )
    command = [tool("kubeconform"), "-strict", "-summary", "-kubernetes-version", KUBERNETES]
    return subprocess.run(
        [*command, "-schema-location", location, "-skip", ",".join(CUSTOM)],
        input=text, capture_output=True, text=True, check=False,
    )  # fmt: skip


def _schema_name(one: dict[str, Any]) -> str:
    group, _, version = one["apiVersion"].rpartition("/")
    short = group.partition(".")[0]
    return "-".join(filter(None, (one["kind"].lower(), short, version)))


def main() -> None:
    """Render each example, check its objects, run the chart's tests, and check that wrong objects are refused."""
    lint = [tool("helm"), "lint", "--strict", str(CHART), "--kube-version", KUBERNETES, "--values"]
    full = ""
    for values in sorted(EXAMPLES.glob("*.yaml")):
        subprocess.run([*lint, str(values)], check=True)
        done = template(values)
        if done.returncode:
            raise SystemExit(done.stderr)
        checked = conform(done.stdout)
        print(f"{values.name}: {checked.stdout.strip()}")
        if checked.returncode:
            raise SystemExit(1)
        full = done.stdout if values.stem == "full" else full
        (RENDERED / values.name).write_text(f"# Made by `make chart`. Chart: {digest()}\n{done.stdout}")
    tested = run_suites()
    print(tested.stdout.strip())
    if tested.returncode:
        raise SystemExit(tested.stderr)
    for right, wrong in SPOILED.items():
        if right not in full or conform(full.replace(right, wrong, 1)).returncode == 0:
            raise SystemExit(f"kubeconform accepts {wrong}")
        print(f"refused: {wrong}")


if __name__ == "__main__":
    main()
