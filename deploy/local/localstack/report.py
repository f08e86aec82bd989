"""What runs, for people and for programs."""

import os
from pathlib import Path

from . import ports, process
from .paths import Instance

_PAGE = os.sysconf("SC_PAGE_SIZE")
_HTTPS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def rows(instance: Instance) -> list[dict]:
    running = process.find_all(instance)
    known = ports.of_cluster(instance) if running else {}
    return [
        {
            "process": name, "pid": each.pid, "address": _address(name, each.facts, known),
            "mib": _resident(each.pid), "log": str(instance.log(name)),
        }
        for name, each in running.items()
    ]


def _address(name: str, facts: dict, known: dict[str, int]) -> str:
    if "grpc" in facts:
        return f"grpc {facts['grpc']}, admin {facts['admin']}"
    if "url" in facts:
        return facts["url"]
    if name == "jaeger":
        return f"http://127.0.0.1:{known['jaeger']}, OTLP 127.0.0.1:{known['otlp-grpc']}"
    if name == "aws":
        return f"http://127.0.0.1:{known['aws']}, control 127.0.0.1:{known['aws-control']}"
    if name in known:
        return f"{'https' if name in _HTTPS else 'http'}://127.0.0.1:{known[name]}"
    return "-"


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE // 2**20
    except (FileNotFoundError, ProcessLookupError):
        return 0


def table(found: list[dict]) -> str:
    lines = [("PROCESS", "PID", "MiB", "ADDRESS", "LOG")]
    lines += [(each["process"], str(each["pid"]), str(each["mib"]), each["address"], each["log"]) for each in found]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line[:4], widths)) + f"  {line[4]}" for line in lines
    )
