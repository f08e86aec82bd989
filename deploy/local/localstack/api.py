"""The few Kubernetes API calls that the stack itself makes, with the admin certificate over plain HTTP."""

import http.client
import json
import re
import ssl
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from .failure import Failure
from .paths import Instance

FIELD_MANAGER = "local-stack"


class ApiError(Failure):
    def __init__(self, status: int, method: str, path: str, body: str):
        try:
            message = json.loads(body)["message"]
        except (ValueError, KeyError, TypeError):
            message = body[:300]
        super().__init__(f"{method} {path}: {status} {message}")
        self.status = status


class Api:
    """One connection, so one thread at a time."""

    def __init__(self, instance: Instance, port: int):
        self._tls = ssl.create_default_context(cafile=str(instance.pki / "ca.crt"))
        self._tls.load_cert_chain(instance.pki / "admin.crt", instance.pki / "admin.key")
        self._port = port
        self._connection: http.client.HTTPSConnection | None = None
        self._resources: dict[tuple[str, str], dict] = {}

    def call(self, method: str, path: str, body: object = None, content: str = "application/json") -> dict:
        data = None if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        headers = {"Content-Type": content} if data is not None else {}
        for attempt in (1, 2):
            if self._connection is None:
                self._connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=30, context=self._tls)
            try:
                self._connection.request(method, path, data, headers)
                response = self._connection.getresponse()
                text = response.read().decode()
                break
            except (http.client.HTTPException, ConnectionError):
                # The server closed an idle connection: every call here can be repeated.
                self._connection.close()
                self._connection = None
                if attempt == 2:
                    raise
        if response.status >= 400:
            raise ApiError(response.status, method, path, text)
        return json.loads(text) if text.startswith("{") else {"text": text}

    def close(self) -> None:
        if self._connection:
            self._connection.close()

    def get(self, path: str) -> dict:
        return self.call("GET", path)

    def find(self, path: str) -> dict | None:
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def ready(self) -> bool:
        try:
            return self.get("/readyz")["text"] == "ok"
        except (ApiError, OSError, http.client.HTTPException):
            return False

    def apply(self, document: "Document") -> dict:
        """Server-side apply. The server reads the YAML, so that nothing here has to."""
        path = self._path_of(document)
        query = urllib.parse.urlencode({"fieldManager": FIELD_MANAGER, "force": "true"})
        return self.call("PATCH", f"{path}?{query}", document.text, "application/apply-patch+yaml")

    def _path_of(self, document: "Document") -> str:
        base = f"/apis/{document.api_version}" if "/" in document.api_version else f"/api/{document.api_version}"
        if (base, document.kind) not in self._resources:
            for each in self.get(base)["resources"]:
                if "/" not in each["name"]:
                    self._resources[base, each["kind"]] = each
        resource = self._resources.get((base, document.kind))
        if resource is None:
            raise ApiError(404, "GET", base, f"the server has no kind {document.kind}")
        middle = f"/namespaces/{document.namespace or 'default'}" if resource["namespaced"] else ""
        return f"{base}{middle}/{resource['name']}/{document.name}"


@dataclass(frozen=True)
class Document:
    """One object of a YAML file: its text, and the four facts that its address needs."""

    text: str
    api_version: str
    kind: str
    name: str
    namespace: str


def documents(text: str) -> list[Document]:
    """Split a file of plain block-style YAML, as our charts and manifests are, into objects."""
    found = []
    for part in re.split(r"^---.*$", text, flags=re.MULTILINE):
        api_version, kind = (re.search(rf"^{key}: *(\S+)", part, re.MULTILINE) for key in ("apiVersion", "kind"))
        if not api_version or not kind:
            continue
        metadata = re.search(r"^metadata:\n((?:[ \t]+.*\n|\s*\n|#.*\n)+)", part + "\n", re.MULTILINE)
        block = metadata.group(1) if metadata else ""
        found.append(
            Document(part, _plain(api_version.group(1)), _plain(kind.group(1)), _field(block, "name"), _field(block, "namespace"))
        )
    return found


def _field(block: str, key: str) -> str:
    found = re.search(rf"^  {key}: *(\S+)", block, re.MULTILINE)
    return _plain(found.group(1)) if found else ""


def _plain(value: str) -> str:
    return value.strip("\"'")


def files_below(*directories: Path) -> list[Path]:
    return sorted(path for each in directories for path in each.glob("*.y*ml"))
