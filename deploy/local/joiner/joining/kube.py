"""The Kubernetes API over HTTPS with a kubeconfig's client certificate: the few calls on Nodes that a
booting instance and the cloud's node lifecycle controller make."""

from __future__ import annotations

import atexit
import base64
import os
import pathlib
import tempfile
import threading
from typing import Any

import requests
import yaml


class Conflict(Exception):
    """A Node of that name exists already."""


class Kube:
    def __init__(self, kubeconfig: str):
        config = yaml.safe_load(pathlib.Path(kubeconfig).read_text())
        context = named(config["contexts"], config["current-context"])["context"]
        cluster = named(config["clusters"], context["cluster"])["cluster"]
        user = named(config["users"], context["user"])["user"]
        base = pathlib.Path(kubeconfig).parent
        self.server = cluster["server"].rstrip("/")
        self.ca_file = material(cluster, "certificate-authority", base)
        self.client = (material(user, "client-certificate", base), material(user, "client-key", base))
        self._local = threading.local()

    @property
    def ca(self) -> bytes:
        return pathlib.Path(self.ca_file).read_bytes()

    def _session(self) -> requests.Session:
        session = getattr(self._local, "session", None)
        if session is None:
            session = requests.Session()
            session.verify, session.cert = self.ca_file, self.client
            session.trust_env = False
            self._local.session = session
        return session

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> requests.Response:
        for attempt in (1, 2):
            try:
                return self._session().request(
                    method, self.server + path, json=body, headers={"Content-Type": kind}, timeout=30
                )
            except requests.ConnectionError:
                # A kept connection that the server had closed meanwhile.
                if attempt == 2:
                    raise
                self._local.session = None
        raise AssertionError("unreachable: the second attempt returns or raises")

    def version(self) -> str:
        answer = self.call("GET", "/version")
        answer.raise_for_status()
        return answer.json()["gitVersion"]

    def nodes(self) -> list[dict[str, Any]]:
        answer = self.call("GET", "/api/v1/nodes")
        answer.raise_for_status()
        return answer.json()["items"]

    def node(self, name: str) -> dict[str, Any] | None:
        answer = self.call("GET", f"/api/v1/nodes/{name}")
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        return answer.json()

    def create_node(self, node: dict[str, Any]) -> None:
        answer = self.call("POST", "/api/v1/nodes", node)
        if answer.status_code == 409:
            raise Conflict(node["metadata"]["name"])
        if answer.status_code >= 400:
            raise RuntimeError(f"the API server refused the Node: {answer.json().get('message', answer.text)}")

    def annotate(self, name: str, annotation: str, value: str | None) -> bool:
        """Sets or, with None, removes an annotation; False when the Node is gone."""
        patch = {"metadata": {"annotations": {annotation: value}}}
        answer = self.call("PATCH", f"/api/v1/nodes/{name}", patch, "application/merge-patch+json")
        return self._found(answer)

    def add_resources(self, name: str, resources: dict[str, str]) -> bool:
        patch = {"status": {"capacity": resources, "allocatable": resources}}
        answer = self.call("PATCH", f"/api/v1/nodes/{name}/status", patch, "application/strategic-merge-patch+json")
        return self._found(answer)

    def remove_taints(self, name: str, keys: list[str]) -> bool:
        for _ in range(20):
            node = self.node(name)
            if node is None:
                return False
            taints = node["spec"].get("taints") or []
            kept = [t for t in taints if t["key"] not in keys]
            if len(kept) == len(taints):
                return True
            patch = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": kept}}
            answer = self.call("PATCH", f"/api/v1/nodes/{name}", patch, "application/merge-patch+json")
            if answer.status_code != 409:
                return self._found(answer)
        raise RuntimeError(f"the taints of {name} change all the time")

    def delete_node(self, name: str) -> None:
        answer = self.call("DELETE", f"/api/v1/nodes/{name}")
        if answer.status_code != 404:
            answer.raise_for_status()

    @staticmethod
    def _found(answer: requests.Response) -> bool:
        if answer.status_code == 404:
            return False
        answer.raise_for_status()
        return True


def named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise SystemExit(f"the kubeconfig has no entry {name!r}")


def material(entry: dict[str, Any], key: str, base: pathlib.Path) -> str:
    """The path of a certificate or key, which may also be inline."""
    if entry.get(key):
        return str(base / entry[key])
    data = entry.get(f"{key}-data")
    if not data:
        raise SystemExit(f"the kubeconfig has no {key}: only client certificates are supported")
    handle, path = tempfile.mkstemp(prefix="joiner-")
    with os.fdopen(handle, "wb") as file:
        file.write(base64.b64decode(data))
    atexit.register(lambda: pathlib.Path(path).unlink(missing_ok=True))
    return path
