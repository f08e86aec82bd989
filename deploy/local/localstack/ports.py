"""Free ports on loopback for many instances at once.

They are taken below the range from which the kernel serves outgoing connections, because a port
that is free now could else be somebody's client port a moment later. A reservation file keeps two
commands that choose at the same time apart until the chosen server listens."""

import contextlib
import json
import os
import random
import socket
import time
from pathlib import Path

from . import files, paths
from .failure import Failure
from .paths import Instance

RANGE = range(20000, 32000)
# Long enough for any server to start listening after its port was chosen.
RESERVED_SECONDS = 120

CLUSTER = (
    "etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok",
    "aws", "aws-control", "jaeger", "jaeger-grpc", "otlp-grpc", "otlp-http",
)


def is_free(port: int, address: str = "127.0.0.1") -> bool:
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def choose(count: int, reservations: Path | None = None) -> list[int]:
    directory = reservations or paths.cache() / "ports"
    directory.mkdir(parents=True, exist_ok=True)
    chosen: list[int] = []
    for port in random.sample(RANGE, len(RANGE)):
        if len(chosen) == count:
            break
        if is_free(port) and _reserve(directory / str(port)):
            chosen.append(port)
    if len(chosen) < count:
        raise Failure(f"no {count} free ports in {RANGE.start}-{RANGE.stop - 1}; stop other instances")
    return chosen


def _reserve(path: Path) -> bool:
    for _ in range(2):
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            return True
        except FileExistsError:
            try:
                if time.time() - path.stat().st_mtime < RESERVED_SECONDS:
                    return False
            except FileNotFoundError:
                continue
            path.unlink(missing_ok=True)
    return False


def of_cluster(instance: Instance) -> dict[str, int]:
    """The instance's own ports: the same on every start, so that kubeconfigs stay valid."""
    record = instance.state / "ports.json"
    known: dict[str, int] = json.loads(files.read(record) or "{}")
    if absent := [name for name in CLUSTER if name not in known]:
        known |= dict(zip(absent, choose(len(absent))))
        files.replace(record, json.dumps(known, indent=1) + "\n")
    return known


def forget(instance: Instance) -> None:
    (instance.state / "ports.json").unlink(missing_ok=True)
