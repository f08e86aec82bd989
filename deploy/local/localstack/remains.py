"""What containers, kubelet and kube-proxy leave on a machine, and its removal. Only things that were not there before."""

import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import files, node

_CHAINS = re.compile(r"\b(KUBE|CNI)-[A-Z0-9-]+", re.IGNORECASE)
_NETWORK_NAMESPACES = Path("/run/netns")
_CNI_RESULTS = Path("/var/lib/cni/results")


@dataclass(frozen=True)
class Before:
    """The machine before the node came."""

    ip_forward: str
    namespaces: list[str]
    network_results: list[str]

    @classmethod
    def now(cls) -> "Before":
        forward = Path("/proc/sys/net/ipv4/ip_forward").read_text().strip()
        return cls(forward, sorted(_namespaces()), sorted(_network_results()))


def found() -> str:
    """A sign of another node on this machine, or nothing."""
    if Path(f"/sys/class/net/{node.BRIDGE}").exists():
        return f"network device {node.BRIDGE} exists (another instance's real node?)"
    if groups := _kube_cgroups():
        return f"control group {groups[0]} exists"
    for command in ("iptables-save", "ip6tables-save"):
        if hit := _CHAINS.search(_output(command)):
            return f"packet filter chain {hit.group(0)} exists"
    return ""


def end_containers() -> None:
    """Shims outlive containerd by design; they name our socket in their command, so they are ours."""
    ours = _processes_naming(str(node.CONTAINERD))
    for pid in ours:
        _kill(pid)
    # What ran inside the containers goes with its cgroup.
    for group in _kube_cgroups():
        for path in group.rglob("cgroup.procs"):
            for line in (files.read(path) or "").split():
                _kill(int(line))


def remove(before: Before) -> None:
    _unmount()
    for command in ("iptables", "ip6tables"):
        _clean_filter(command)
    subprocess.run(["ip", "link", "del", node.BRIDGE], capture_output=True)
    for name in _namespaces() - set(before.namespaces):
        if name.startswith("cni-"):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text(before.ip_forward)
    # Ours, because the node is not started where such a group exists.
    for group in _kube_cgroups():
        _remove_cgroup(group)
    for directory in (node.STATE, node.SOCKETS):
        shutil.rmtree(directory, ignore_errors=True)
    for name in _network_results() - set(before.network_results):
        (_CNI_RESULTS / name).unlink(missing_ok=True)


def _output(command: str) -> str:
    return subprocess.run([command], capture_output=True, text=True).stdout if shutil.which(command) else ""


def without_kubernetes(saved: str) -> str:
    """The packet filter's own listing without the chains of Kubernetes and CNI, and without rules that name them."""
    return "".join(line for line in saved.splitlines(keepends=True) if not _CHAINS.search(line))


def _clean_filter(command: str) -> None:
    saved = _output(f"{command}-save")
    cleaned = without_kubernetes(saved)
    if cleaned != saved:
        subprocess.run([f"{command}-restore"], input=cleaned, text=True, capture_output=True)


def _namespaces() -> set[str]:
    return {each.name for each in _NETWORK_NAMESPACES.glob("*")} if _NETWORK_NAMESPACES.exists() else set()


def _network_results() -> set[str]:
    """The CNI library's notes, one a sandbox and network."""
    return {each.name for each in _CNI_RESULTS.glob("*")}


def _unmount() -> None:
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    below = [each for each in mounts if each.startswith((f"{node.STATE}/", f"{node.SOCKETS}/"))]
    for each in sorted(below, key=len, reverse=True):
        subprocess.run(["umount", "-l", each], capture_output=True)


def _kube_cgroups() -> list[Path]:
    root = Path("/sys/fs/cgroup")
    return sorted(each for each in (*root.glob("kubepods"), *root.glob("*/kubepods")) if each.is_dir())


def _remove_cgroup(group: Path) -> None:
    directories = sorted((each for each in group.rglob("*") if each.is_dir()), key=lambda each: len(each.parts), reverse=True)
    for each in (*directories, group):
        # The kernel needs a moment after the last process of a group has ended.
        files.until(lambda each=each: _rmdir(each), 5)


def _rmdir(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _processes_naming(text: str) -> list[int]:
    found_pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_text()
        except OSError:
            continue
        if "containerd-shim" in command and text in command:
            found_pids.append(int(path.parent.name))
    return found_pids


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
