"""The live page of `stack run`: `kubectl-karpenter ui` as one more process of the instance, on loopback only."""

import os
from pathlib import Path

from . import files, paths, ports, process
from .failure import Failure
from .paths import Instance
from .processes import Cluster, http_ok

NAME = "live-page"
# Only for a program that neither listens nor ends.
READY_SECONDS = 60


def start(cluster: Cluster, directory: str | None) -> str:
    """Start it unless it runs, and return its address once it answers."""
    instance = cluster.instance
    if known := address(instance):
        return known
    program = (Path(directory).absolute() if directory else paths.service_binaries()) / "kubectl-karpenter"
    if not program.exists():
        raise Failure(f"{program} is missing: run `make build`, or name another directory with --bin-dir", 69)
    [port] = ports.choose(1)
    url = f"http://127.0.0.1:{port}/"
    # Nothing else of this shell: it may have the addresses of another instance's services.
    environment = {
        "PATH": os.environ.get("PATH", os.defpath), "KUBECONFIG": str(instance.kubeconfig), "JAEGER_URL": cluster.url("jaeger"),
    }
    command = [str(program), "ui", "--no-open", "--listen", f"127.0.0.1:{port}"]
    started = process.start(instance, NAME, command, environment, {"url": url})
    files.until(lambda: http_ok(port, "/") or process.find(instance, NAME) is None, READY_SECONDS)
    if not http_ok(port, "/"):
        state = f"does not answer at {url}" if started.alive() else "ended"
        process.stop(instance, [NAME], 0, kill=True)
        log = instance.log(NAME)
        raise Failure(f"{NAME} {state}; {log} ends with:\n{files.tail(log)}")
    return url


def address(instance: Instance) -> str | None:
    """Where it is, while it runs."""
    found = process.find(instance, NAME)
    return found.facts["url"] if found else None
