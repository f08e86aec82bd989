"""Kubeconfigs of an instance, one a user. Written as JSON, which is YAML as well."""

import json
from pathlib import Path

from . import files
from .paths import Instance


def by_certificate(instance: Instance, server: str, user: str) -> str:
    key = {"client-certificate": str(instance.pki / f"{user}.crt"), "client-key": str(instance.pki / f"{user}.key")}
    return _render(instance, server, user, key)


def by_token_file(instance: Instance, server: str, user: str, token: Path) -> str:
    return _render(instance, server, user, {"tokenFile": str(token)})


def write(path: Path, text: str) -> None:
    files.replace(path, text, 0o600)


def _render(instance: Instance, server: str, user: str, credentials: dict) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "local", "cluster": {"server": server, "certificate-authority": str(instance.pki / "ca.crt")}}
            ],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": user}}],
            "current-context": "local",
        },
        indent=1,
    ) + "\n"
