"""Tokens of service accounts, from the API server's TokenRequest as a kubelet would project them."""

import time
from pathlib import Path

from . import files, kubeconfig, settings
from .api import Api
from .paths import Instance

SECONDS = 24 * 3600


def ensure_service(instance: Instance, client: Api, endpoint: str, service: str) -> None:
    """The directory `sa/<service>`: a kubeconfig, its token, and in `rpc` the token shown to each other service."""
    home = instance.account(service)
    _ensure(client, service, home / "token", [])
    for callee in settings.SERVICES:
        if callee != service:
            _ensure(client, service, home / "rpc" / callee, [audience(callee)])
    path = home / "kubeconfig"
    text = kubeconfig.by_token_file(instance, endpoint, f"karpenter-{service}", home / "token")
    if files.read(path) != text:
        kubeconfig.write(path, text)


def ensure_operator(instance: Instance, client: Api) -> None:
    """One token for all services: a person types fewer variables, and every service is on this machine."""
    audiences = [audience(service) for service in settings.SERVICES]
    _ensure(client, settings.OPERATOR, instance.account(settings.OPERATOR) / "rpc-token", audiences)


def audience(service: str) -> str:
    return f"{service}.rpc.karpenter.sh"


def _ensure(client: Api, account: str, path: Path, audiences: list[str]) -> None:
    if path.exists() and time.time() - path.stat().st_mtime < SECONDS / 2:
        return
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": SECONDS} | ({"audiences": audiences} if audiences else {}),
    }
    answer = client.call(
        "POST", f"/api/v1/namespaces/{settings.NAMESPACE}/serviceaccounts/karpenter-{account}/token", body
    )
    files.replace(path, answer["status"]["token"], 0o600)
