"""The Kubernetes API over HTTPS with a kubeconfig's client certificate: the few calls on Nodes that a
booting instance and the cloud's node lifecycle controller make."""

from __future__ import annotations

import atexit
import base64
import json
import os
import pathlib
import tempfile
from dataclasses import dataclass
from typing import Any

import urllib3
import yaml


class Conflict(Exception):
    """A Node of that name exists already."""


class Unreachable(OSError):
    """The API server did not answer."""


@dataclass
class Answer:
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def check(self) -> "Answer":
        if self.status >= 400:
            try:
                why = self.json().get("message", "")
            except ValueError:
                why = self.body[:200].decode(errors="replace")
            raise RuntimeError(f"the API server answered {self.status}: {why}")
        return self

    def found(self) -> bool:
        return self.status != 404 and bool(self.check())


class Kube:
    def __init__(self, kubeconfig: str):
        config = yaml.safe_load(pathlib.Path(kubeconfig).read_text())
        context = named(config["contexts"], config["current-context"])["context"]
        cluster = named(config["clusters"], context["cluster"])["cluster"]
        user = named(config["users"], context["user"])["user"]
        base = pathlib.Path(kubeconfig).parent
        self.server = cluster["server"].rstrip("/")
        self.ca_file = material(cluster, "certificate-authority", base)
        self._http = urllib3.PoolManager(
            ca_certs=self.ca_file,
            cert_file=material(user, "client-certificate", base),
            key_file=material(user, "client-key", base),
            maxsize=32,
            timeout=urllib3.Timeout(connect=5, read=30),
            retries=urllib3.Retry(1, status=0, allowed_methods=None),
        )

    @property
    def ca(self) -> bytes:
        return pathlib.Path(self.ca_file).read_bytes()

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Answer:
        try:
            response = self._http.request(
                method,
                self.server + path,
                body=None if body is None else json.dumps(body),
                headers={"Content-Type": kind, "Accept": "application/json"},
            )
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(f"{method} {path}: {error}") from None
        return Answer(response.status, response.data)

    def version(self) -> str:
        return self.call("GET", "/version").check().json()["gitVersion"]

    def nodes(self) -> list[dict[str, Any]]:
        return self.call("GET", "/api/v1/nodes").check().json()["items"]

    def node(self, name: str) -> dict[str, Any] | None:
        answer = self.call("GET", f"/api/v1/nodes/{name}")
        return answer.json() if answer.found() else None

    def create_node(self, node: dict[str, Any]) -> str:
        """Gives the new Node's uid."""
        answer = self.call("POST", "/api/v1/nodes", node)
        if answer.status == 409:
            raise Conflict(node["metadata"]["name"])
        return answer.check().json()["metadata"]["uid"]

    def annotate(self, name: str, annotation: str, value: str | None) -> bool:
        """Sets or, with None, removes an annotation; False when the Node is gone."""
        patch = {"metadata": {"annotations": {annotation: value}}}
        return self.call("PATCH", f"/api/v1/nodes/{name}", patch, "application/merge-patch+json").found()

    def add_resources(self, name: str, resources: dict[str, str]) -> bool:
        patch = {"status": {"capacity": resources, "allocatable": resources}}
        return self.call("PATCH", f"/api/v1/nodes/{name}/status", patch, "application/strategic-merge-patch+json").found()

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
            if answer.status != 409:
                return answer.found()
        raise RuntimeError(f"the taints of {name} change all the time")

    def delete_node(self, name: str, uid: str) -> None:
        """Deletes exactly that Node; one that is gone, or replaced under the same name, is no error."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        answer = self.call("DELETE", f"/api/v1/nodes/{name}", options)
        if answer.status not in (404, 409):
            answer.check()


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
