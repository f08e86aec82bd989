"""One certificate authority an instance, and the certificates that the control plane needs. Made by
openssl, elliptic curve keys, so that all of it takes a fraction of a second."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import files
from .failure import Failure
from .paths import Instance
from .settings import API_SERVICE_ADDRESS, BRIDGE_ADDRESS

DAYS = "3650"


@dataclass(frozen=True)
class Leaf:
    name: str
    subject: str
    names: str = ""

    @property
    def usage(self) -> str:
        return "serverAuth,clientAuth" if self.names else "clientAuth"


LEAVES = (
    Leaf(
        "apiserver", "/CN=kube-apiserver",
        "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
        "DNS:kubernetes.default.svc.cluster.local,"
        f"IP:127.0.0.1,IP:{API_SERVICE_ADDRESS},IP:{BRIDGE_ADDRESS}",
    ),
    Leaf("kubelet-serving", "/O=system:nodes/CN=system:node:kubelet", f"IP:{BRIDGE_ADDRESS},DNS:kubelet"),
    Leaf("admin", "/O=system:masters/CN=admin"),
    Leaf("kube-controller-manager", "/CN=system:kube-controller-manager"),
    Leaf("kube-scheduler", "/CN=system:kube-scheduler"),
    Leaf("front-proxy", "/CN=front-proxy"),
    Leaf("kubelet", "/O=system:nodes/CN=system:node:kubelet"),
    Leaf("kube-proxy", "/CN=system:kube-proxy"),
    Leaf("apiserver-kubelet", "/O=system:masters/CN=kube-apiserver-kubelet-client"),
)


def ensure(instance: Instance) -> None:
    """Make what is missing. Existing keys stay: clients of a resumed instance still hold them."""
    pki = instance.pki
    if (pki / "complete").exists():
        return
    if not shutil.which("openssl"):
        raise Failure("openssl is missing (Debian: apt install openssl)", 69)
    _openssl(
        "req", "-x509", *_key(pki / "ca.key"), "-out", str(pki / "ca.crt"), "-days", DAYS, "-subj", "/CN=local-stack",
        "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
    )
    with ThreadPoolExecutor(4) as pool:
        # Service account tokens are signed with RSA: the API server's discovery document of keys then suits every client.
        pending = [pool.submit(_service_account_key, pki)]
        pending += [pool.submit(_issue, pki, leaf) for leaf in LEAVES]
        for each in pending:
            each.result()
    files.replace(pki / "complete", "")


def _key(path: Path) -> list[str]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-keyout", str(path)]


def _issue(pki: Path, leaf: Leaf) -> None:
    extensions = [
        "-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"extendedKeyUsage={leaf.usage}",
        "-addext", "keyUsage=critical,digitalSignature",
    ]
    if leaf.names:
        extensions += ["-addext", f"subjectAltName={leaf.names}"]
    _openssl(
        "req", "-x509", *_key(pki / f"{leaf.name}.key"), "-CA", str(pki / "ca.crt"), "-CAkey", str(pki / "ca.key"),
        "-out", str(pki / f"{leaf.name}.crt"), "-days", DAYS, "-subj", leaf.subject, *extensions,
    )


def _service_account_key(pki: Path) -> None:
    _openssl("genrsa", "-out", str(pki / "sa.key"), "2048")
    _openssl("rsa", "-in", str(pki / "sa.key"), "-pubout", "-out", str(pki / "sa.pub"))


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"openssl {arguments[0]} failed: {done.stderr.strip()[-600:]}")
