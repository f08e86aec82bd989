"""Our five services as processes beside the cluster: one or more replicas each."""

import os
import shutil
from pathlib import Path

from . import environment, files, paths, ports, process, settings, tokens
from .api import Api
from .failure import Failure
from .paths import Instance
from .process import Running
from .processes import Cluster, http_ok, without_foreign_settings

# A service that is stopped finishes its work and gives its lease back within this time.
GRACE_SECONDS = 20
# Only for a service that neither gets ready nor ends.
READY_SECONDS = 180


def process_name(service: str, replica: int) -> str:
    return f"{service}-{replica}"


def known(service: str) -> str:
    if service not in settings.SERVICES:
        raise Failure(f"no service {service!r}; there are: {', '.join(settings.SERVICES)}", 64)
    return service


def binary(service: str, directory: str | None) -> Path:
    path = (Path(directory).absolute() if directory else paths.service_binaries()) / f"karpenter-{service}"
    if not path.exists():
        if not shutil.which("cargo"):
            raise Failure(f"{path} is not built, and Rust is missing to build it: install it from https://rustup.rs", 69)
        raise Failure(f"{path} is missing: run `make build`, or name another directory with --bin-dir", 69)
    return path


def running(instance: Instance) -> list[Running]:
    return [each for each in process.find_all(instance).values() if "service" in each.facts]


def start(
    cluster: Cluster, client: Api, service: str, replica: int, arguments: list[str], extra: dict[str, str],
    directory: str | None,
) -> Running:
    """Start a replica and return at once; `wait` returns when it is ready."""
    instance, name = cluster.instance, process_name(service, replica)
    if alive := process.find(instance, name):
        raise Failure(f"{name} runs already with pid {alive.pid}; stop it first")
    program = binary(service, directory)
    tokens.ensure_service(instance, client, cluster.endpoint, service)
    grpc, admin = (f"127.0.0.1:{port}" for port in ports.choose(2))
    facts = {"service": service, "replica": replica, "grpc": grpc, "admin": admin}
    return process.start(
        instance, name, [str(program), *arguments],
        service_environment(cluster, service, replica, grpc, admin) | extra, facts,
    )


def service_environment(cluster: Cluster, service: str, replica: int, grpc: str, admin: str) -> dict[str, str]:
    home = cluster.instance.account(service)
    return {
        **without_foreign_settings(dict(os.environ)),
        **cluster.client_settings(),
        # So that calls can be told apart in what the local AWS recorded.
        "AWS_ACCESS_KEY_ID": service,
        "KUBECONFIG": str(home / "kubeconfig"),
        "RPC_TOKEN_DIR": str(home / "rpc"),
        "GRPC_ADDR": grpc,
        "ADMIN_ADDR": admin,
        "POD_NAME": process_name(service, replica),
        "SYSTEM_NAMESPACE": settings.NAMESPACE,
        "OTEL_EXPORTER_OTLP_ENDPOINT": cluster.url("otlp-grpc"),
        "CLUSTER_NAME": cluster.cluster_name,
        "CLUSTER_ENDPOINT": cluster.endpoint,
        "INTERRUPTION_QUEUE": cluster.cluster_name,
    }


def wait(cluster: Cluster, replica: Running) -> None:
    """Until /readyz says so, which a service does when its gRPC health is SERVING."""
    port = int(replica.facts["admin"].rpartition(":")[2])
    ready = False

    def settled() -> bool:
        nonlocal ready
        process.reap()
        ready = replica.alive() and http_ok(port, "/readyz")
        return ready or not replica.alive()

    files.until(settled, READY_SECONDS, every=0.01)
    if not ready:
        log = cluster.instance.log(replica.name)
        code = process.exit_code(replica)
        state = "is not ready" if replica.alive() else f"ended with code {code} before it was ready"
        raise Failure(f"{replica.name} {state}; {log} ends with:\n{files.tail(log)}")


def stop(cluster: Cluster, names: list[str], kill: bool = False) -> list[str]:
    stopped = process.stop(cluster.instance, names, GRACE_SECONDS, kill)
    refresh(cluster)
    return stopped


def refresh(cluster: Cluster, client: Api | None = None) -> None:
    """Tell the outside what runs now. Tests start and stop services at the same time, hence the lock."""
    with files.locked(cluster.instance.state / "env.lock"):
        if client:
            environment.write_trust(cluster.instance, client)
        environment.write(cluster, running(cluster.instance))


def describe(replica: Running) -> dict:
    facts = replica.facts
    return {
        "name": facts["service"], "replica": facts["replica"], "pid": replica.pid,
        "grpc": facts["grpc"], "admin": facts["admin"],
    }
