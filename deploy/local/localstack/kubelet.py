"""A real node beside the played ones: containerd, kubelet, kube-proxy and cluster DNS, for tests that need real pods."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from . import api, build, files, node, packages, paths, ports, process, remains, settings
from .components import NODE
from .failure import Failure
from .packages import SKIPPED
from .paths import Instance
from .processes import Cluster, http_ok

# Images are written the same way for the real node and for releases.
sys.path.insert(0, str(paths.REPOSITORY / "deploy" / "images"))
import oci  # noqa: E402

READY_SECONDS = 180
CNI_PLACES = ("/usr/lib/cni", "/opt/cni/bin")
# What is looked for, and the Debian package that holds it.
PROGRAMS = {"containerd": "containerd", "runc": "runc", "iptables": "iptables", "conntrack": "conntrack", "ip": "iproute2"}


def up(cluster: Cluster, say: Callable[[str], None]) -> None:
    instance = cluster.instance
    if node.exists(instance) and process.find(instance, "kubelet"):
        say("the real node runs already")
        return
    _check_machine()
    plugins = _install(say)
    build.build(NODE, say, exact=False)
    if node.exists(instance):
        down(instance, say)
    if remains.found():
        raise Failure(f"this machine is a Kubernetes node already: {remains.found()}", SKIPPED)

    before = remains.Before.now()
    files.replace(node.record(instance), json.dumps(asdict(before)))
    try:
        _make_bridge()
        chosen = ports.choose(4)
        home = node.write_configuration(cluster, node.Ports(*chosen), plugins)
        _start(cluster, home, say)
        client = api.Api(instance, cluster.ports["kube-apiserver"])
        _wait(instance, "kubelet", lambda: _ready(client), say)
        _wait(instance, "kube-proxy", lambda: http_ok(chosen[2], "/healthz"), say)
    except BaseException:
        down(instance, say)
        raise


def _check_machine() -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        raise Failure("a real node needs Linux and root (mounts, network, cgroups)", SKIPPED)
    probe = Path(f"/run/localstack-probe-{os.getpid()}")
    try:
        for part in ("lower", "upper", "work", "merged"):
            (probe / part).mkdir(parents=True, exist_ok=True)
        options = f"lowerdir={probe}/lower,upperdir={probe}/upper,workdir={probe}/work"
        mounted = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(probe / "merged")], capture_output=True)
        if mounted.returncode:
            raise Failure("overlay file systems cannot be mounted here, which containers need", SKIPPED)
        subprocess.run(["umount", str(probe / "merged")], check=True)
    finally:
        shutil.rmtree(probe, ignore_errors=True)


def _install(say: Callable[[str], None]) -> Path:
    """Install what is missing; returns where the CNI plugins are."""
    absent = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    if not _cni_plugins():
        absent.append("containernetworking-plugins")
    packages.install(absent, say)
    plugins = _cni_plugins()
    if not plugins:
        raise Failure(f"no CNI plugins in {' or '.join(CNI_PLACES)}", SKIPPED)
    return plugins


def _cni_plugins() -> Path | None:
    return next((Path(each) for each in CNI_PLACES if Path(each, "bridge").exists() and Path(each, "portmap").exists()), None)


def _make_bridge() -> None:
    for arguments in (
        ["link", "add", node.BRIDGE, "type", "bridge"],
        ["address", "add", f"{settings.BRIDGE_ADDRESS}/24", "dev", node.BRIDGE],
        ["link", "set", node.BRIDGE, "up"],
    ):
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"`ip {' '.join(arguments)}` is refused here: {done.stderr.strip()}", SKIPPED)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _start(cluster: Cluster, home: Path, say: Callable[[str], None]) -> None:
    instance = cluster.instance
    for directory in (node.STATE / "kubelet", node.SOCKETS):
        directory.mkdir(parents=True, exist_ok=True)
    for name, command in node.commands(cluster, home).items():
        process.start(instance, name, command)
        if name == "containerd":
            _wait(instance, name, lambda: _ctr("version").returncode == 0, say)
            pause = node.STATE / "pause.tar"
            oci.pack(node.PAUSE_IMAGE, paths.program("pause"), {}, pause)
            _import(pause)


def _wait(instance: Instance, name: str, ready: Callable[[], bool], say: Callable[[str], None]) -> None:
    good = False

    def settled() -> bool:
        nonlocal good
        alive = process.find(instance, name) is not None
        good = alive and ready()
        return good or not alive

    files.until(settled, READY_SECONDS)
    if not good:
        raise Failure(f"{name} does not get ready; {instance.log(name)} ends with:\n{files.tail(instance.log(name))}")
    say(f"{name} is ready")


def _ready(client: api.Api) -> bool:
    found = client.find(f"/api/v1/nodes/{node.NAME}") or {}
    conditions = found.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _ctr(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(["ctr", "--address", str(node.CONTAINERD), "-n", "k8s.io", *arguments], capture_output=True, text=True)


def _import(archive: Path) -> None:
    try:
        _take(archive)
    finally:
        archive.unlink()


def _take(archive: Path) -> None:
    done = _ctr("images", "import", str(archive))
    if done.returncode:
        raise Failure(f"containerd did not take the image: {done.stderr.strip()[-600:]}")


def import_images(instance: Instance, archives: list[str]) -> None:
    """Images that exist as OCI tar files, such as those of deploy/images/build. The files are left alone."""
    _needs_node(instance)
    for archive in archives:
        _take(Path(archive))


def _needs_node(instance: Instance) -> None:
    if not process.find(instance, "containerd"):
        raise Failure("no real node runs in this instance: `stack kubelet up` first")


def load_image(instance: Instance, name: str, program: str, more: list[str]) -> None:
    _needs_node(instance)
    contents = oci.linked_libraries(Path(program))
    for each in more:
        source, _, target = each.partition("=")
        contents[target or f"/{Path(source).name}"] = Path(source)
    archive = node.STATE / f"image-{os.getpid()}.tar"
    oci.pack(name, Path(program), contents, archive)
    _import(archive)


def down(instance: Instance, say: Callable[[str], None]) -> None:
    """Remove the node and every trace of it on the machine."""
    text = files.read(node.record(instance))
    if text is None:
        say("no real node runs in this instance")
        return
    if process.find(instance, "kubelet") and process.find(instance, "kube-apiserver"):
        _remove_pods(api.Api(instance, ports.of_cluster(instance)["kube-apiserver"]))
    process.stop(instance, ["coredns", "kubelet"], 10)
    process.stop(instance, ["kube-proxy"], 10)
    remains.end_containers()
    process.stop(instance, ["containerd", "bridge-forward"], 10)
    remains.remove(remains.Before(**json.loads(text)))
    if process.find(instance, "kube-apiserver"):
        client = api.Api(instance, ports.of_cluster(instance)["kube-apiserver"])
        if client.find(f"/api/v1/nodes/{node.NAME}"):
            client.call("DELETE", f"/api/v1/nodes/{node.NAME}")
    node.record(instance).unlink()
    say("the real node is gone")


def _remove_pods(client: api.Api) -> None:
    """While the kubelet is there to end them properly. Their owners' next pods must not come here."""
    client.call(
        "PATCH", f"/api/v1/nodes/{node.NAME}", {"spec": {"unschedulable": True}}, "application/merge-patch+json"
    )
    listing = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node.NAME}"
    for pod in client.get(listing)["items"]:
        meta = pod["metadata"]
        try:
            client.call("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", {"gracePeriodSeconds": 1})
        except api.ApiError as error:
            if error.status != 404:
                raise
    files.until(lambda: not client.get(listing)["items"] and not _ctr("tasks", "ls", "-q").stdout.strip(), 30, 0.1)
