"""Serves nodes and pods of Kubernetes' API over TLS: get, patch with versions, the pods of a node, and their changes.

It answers as the real API server did where tests/integration/automation/test_kubernetes.py runs over both.
"""

import json
import ssl
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKENS = {"admin-token", "netbot-token"}
_NODES = "/api/v1/nodes"
_PODS = "/api/v1/pods"


class _Cluster:
    """The objects, by name."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: list[dict[str, Any]] = []
        self.version = 1
        self.lock = threading.RLock()
        self.changes: list[tuple[int, str, dict[str, Any]]] = []
        """Of pods: version, kind and object."""

    def change(self, kind: str, pod: dict[str, Any]) -> dict[str, Any]:
        """Store a change of a pod; return the pod in its new version."""
        with self.lock:
            self.version += 1
            made = pod | {"metadata": pod["metadata"] | {"resourceVersion": str(self.version)}}
            self.pods = [other for other in self.pods if _path(other) != _path(made)]
            if kind != "DELETED":
                self.pods.append(made)
            self.changes.append((self.version, kind, made))
            return made


def _path(pod: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _merged(present: Any, patch: Any) -> Any:
    """Return a value after a merge patch: null removes, a list replaces (as it does for the taints of a node)."""
    if not isinstance(patch, dict) or not isinstance(present, dict):
        return patch
    merged = present | {key: _merged(present.get(key, {}), value) for key, value in patch.items()}
    return {key: value for key, value in merged.items() if patch.get(key, value) is not None}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: _Cluster

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if not self._is_authenticated():
            return
        if url.path == _PODS:
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            if query.get("watch"):
                self._watch(int(query["resourceVersion"]), int(query["timeoutSeconds"]))
                return
            selector = query.get("fieldSelector", "").partition("=")
            assert selector[0] in ("", "spec.nodeName"), "the client selects all pods, or the node's"
            pods = [pod for pod in self.cluster.pods if not selector[2] or pod["spec"].get("nodeName") == selector[2]]
            version = {"resourceVersion": str(self.cluster.version)}
            self._answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": version, "items": pods})
        elif (node := self._node(url.path)) is not None:
            self._answer(200, node)

    def do_POST(self) -> None:
        body = self._body()
        if not self._is_authenticated():
            return
        with self.cluster.lock:
            if self.path == _NODES:
                body["metadata"]["resourceVersion"] = str(self.cluster.version)
                self.cluster.nodes[body["metadata"]["name"]] = body
            elif self.path.endswith("/pods"):
                body["metadata"] |= {"namespace": self.path.split("/")[-2], "uid": str(uuid.uuid4())}
                body = self.cluster.change("ADDED", body | {"status": {"phase": "Pending"}})
        self._answer(201, body)

    def do_DELETE(self) -> None:
        self._body()
        if self._is_authenticated() and (pod := self._pod(self.path)) is not None:
            self._answer(200, self.cluster.change("DELETED", pod))

    def _watch(self, version: int, for_s: int) -> None:
        """Send the changes since a version, and new ones as they come; of an old version an error with 410."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        end_s = time.monotonic() + for_s
        if version == 0:
            status = {"kind": "Status", "code": 410, "message": "too old resource version"}
            self._chunk({"type": "ERROR", "object": status})
            end_s = 0
        while time.monotonic() < end_s:
            for at, kind, pod in list(self.cluster.changes):
                if at > version:
                    self._chunk({"type": kind, "object": pod})
                    version = at
            time.sleep(0.02)
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, event: dict[str, Any]) -> None:
        data = json.dumps(event).encode() + b"\n"
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _pod(self, path: str) -> dict[str, Any] | None:
        pod = next((pod for pod in self.cluster.pods if _path(pod) == path), None)
        if pod is None:
            self._refuse(404, "Not Found")
        return pod

    def do_PATCH(self) -> None:
        body = self._body()
        if not self._is_authenticated():
            return
        if "/pods/" in self.path:
            if (pod := self._pod(self.path.removesuffix("/status"))) is not None:
                self._answer(200, self.cluster.change("MODIFIED", _merged(pod, body)))
            return
        url = urlsplit(self.path)
        with self.cluster.lock:
            if (node := self._node(url.path.removesuffix("/status"))) is None:
                return
            wanted = body.get("metadata", {}).get("resourceVersion", node["metadata"]["resourceVersion"])
            if wanted != node["metadata"]["resourceVersion"]:
                self._refuse(409, "Conflict")
                return
            self.cluster.version += 1
            made = _merged(node, body)
            made["metadata"]["resourceVersion"] = str(self.cluster.version)
            if node.get("spec", {}).get("unschedulable", False) != made.get("spec", {}).get("unschedulable", False):
                manager = parse_qs(url.query).get("fieldManager", ["kubectl"])[0]
                managed = {"manager": manager, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}
                made["metadata"]["managedFields"] = [managed]
            self.cluster.nodes[made["metadata"]["name"]] = made
        self._answer(200, made)

    def _node(self, path: str) -> dict[str, Any] | None:
        node = self.cluster.nodes.get(path.removeprefix(f"{_NODES}/"))
        if node is None:
            self._refuse(404, "Not Found")
        return node

    def _is_authenticated(self) -> bool:
        if self.headers.get("Authorization", "").removeprefix("Bearer ") in TOKENS:
            return True
        self._refuse(401, "Unauthorized")
        return False

    def _body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return body

    def _refuse(self, status: int, reason: str) -> None:
        self._answer(status, {"kind": "Status", "apiVersion": "v1", "code": status, "reason": reason})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@contextmanager
def kubernetes_server(cert: Path, key: Path) -> Iterator[str]:
    """Yield the URL of a server with this certificate."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"cluster": _Cluster()}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
