"""Serves one node of Kubernetes' API over TLS: get, strategic merge patch with versions, and the pods of the node.

It answers as the real API server did where tests/integration/automation/test_kubernetes.py runs over both.
"""

import json
import ssl
import threading
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
        self.lock = threading.Lock()


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
            selector = parse_qs(url.query).get("fieldSelector", [""])[0].partition("=")
            assert selector[0] == "spec.nodeName", "the client selects the node's pods"
            pods = [pod for pod in self.cluster.pods if pod["spec"]["nodeName"] == selector[2]]
            self._answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods})
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
                body["metadata"]["namespace"] = self.path.split("/")[-2]
                self.cluster.pods.append(body | {"status": {"phase": "Pending"}})
        self._answer(201, body)

    def do_PATCH(self) -> None:
        body = self._body()
        if not self._is_authenticated():
            return
        with self.cluster.lock:
            if (node := self._node(self.path.removesuffix("/status"))) is None:
                return
            wanted = body.get("metadata", {}).get("resourceVersion", node["metadata"]["resourceVersion"])
            if wanted != node["metadata"]["resourceVersion"]:
                self._refuse(409, "Conflict")
                return
            self.cluster.version += 1
            made = _merged(node, body)
            made["metadata"]["resourceVersion"] = str(self.cluster.version)
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
