"""The real node's places and configuration files. One node a machine: its bridge, chains and cgroups are the machine's."""

import json
from dataclasses import dataclass
from pathlib import Path

from . import files, kubeconfig, paths, settings
from .paths import Instance
from .processes import Cluster

NAME = "kubelet"
LABEL = "localstack/node=real"
# Only pods that ask for it: those of other tests belong on played nodes.
TAINT = {"key": "localstack/real-node", "effect": "NoSchedule"}

BRIDGE = "lscni0"
NETWORK = "localstack"
POD_RANGE = "10.245.0.0/24"
PAUSE_IMAGE = "localhost/pause:1"

# Not in the instance's directory: socket paths have little room.
STATE = Path("/var/lib/localstack-node")
SOCKETS = Path("/run/localstack-node")
CONTAINERD = SOCKETS / "containerd.sock"

PROCESSES = ("coredns", "kube-proxy", "kubelet", "bridge-forward", "containerd")


def record(instance: Instance) -> Path:
    return instance.state / "node.json"


def exists(instance: Instance) -> bool:
    return record(instance).exists()


@dataclass(frozen=True)
class Ports:
    kubelet: int
    kubelet_health: int
    proxy_health: int
    proxy_metrics: int


def write_configuration(cluster: Cluster, ports: Ports, cni_plugins: Path) -> Path:
    """All files below `config/node`; returns that directory."""
    home = cluster.instance.dir / "config" / "node"
    for user in ("kubelet", "kube-proxy", "admin"):
        kubeconfig.write(home / f"{user}.kubeconfig", kubeconfig.by_certificate(cluster.instance, cluster.endpoint, user))
    files.replace(home / "containerd.toml", _containerd(home, cni_plugins))
    files.replace(home / "cni" / "10-bridge.conflist", json.dumps(_network(), indent=1))
    files.replace(home / "kubelet.json", json.dumps(_kubelet(cluster, ports), indent=1))
    files.replace(home / "kube-proxy.json", json.dumps(_proxy(home, ports), indent=1))
    files.replace(home / "Corefile", _corefile(home))
    return home


def _containerd(home: Path, cni_plugins: Path) -> str:
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE, runc cannot lower a score below its own and every pod fails.
    return f"""version = 2
root = "{STATE}/containerd"
state = "{SOCKETS}/containerd"
[grpc]
  address = "{CONTAINERD}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{cni_plugins}"
  conf_dir = "{home}/cni"
"""


def _network() -> dict:
    address_plan = {
        "type": "host-local", "dataDir": f"{STATE}/addresses", "ranges": [[{"subnet": POD_RANGE}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge", "bridge": BRIDGE, "isGateway": True, "ipMasq": True, "hairpinMode": True, "ipam": address_plan,
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": NETWORK, "plugins": [bridge, portmap]}


def _kubelet(cluster: Cluster, ports: Ports) -> dict:
    pki = cluster.instance.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": settings.BRIDGE_ADDRESS,
        "port": ports.kubelet,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": ports.kubelet_health,
        "authentication": {
            "anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / "kubelet-serving.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet-serving.key"),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
        "cgroupDriver": "cgroupfs",
        # Old hierarchies are still common in containers and on CI machines.
        "failCgroupV1": False,
        "failSwapOn": False,
        "resolvConf": "",
        "clusterDNS": [settings.BRIDGE_ADDRESS],
        "clusterDomain": "cluster.local",
        "registerWithTaints": [TAINT],
        # The machine's disk may be nearly full for reasons that are not ours.
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
    }


def _proxy(home: Path, ports: Ports) -> dict:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(home / "kube-proxy.kubeconfig")},
        "hostnameOverride": NAME,
        "mode": "iptables",
        "clusterCIDR": POD_RANGE,
        # 0 leaves the machine's own limit alone.
        "conntrack": {"maxPerCore": 0},
        "healthzBindAddress": f"127.0.0.1:{ports.proxy_health}",
        "metricsBindAddress": f"127.0.0.1:{ports.proxy_metrics}",
    }


def _corefile(home: Path) -> str:
    return f""".:53 {{
    bind {settings.BRIDGE_ADDRESS}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {home}/admin.kubeconfig local
        pods insecure
    }}
    cache 5
}}
"""


def commands(cluster: Cluster, home: Path) -> dict[str, list[str]]:
    """In the order in which they are started."""
    forwarded = [str(cluster.ports[name]) for name in ("kube-apiserver", "aws", "aws-control", "otlp-grpc", "otlp-http")]
    return {
        "containerd": ["containerd", "--config", str(home / "containerd.toml")],
        "bridge-forward": ["python3", str(paths.LOCAL / "localstack" / "forward.py"), settings.BRIDGE_ADDRESS, *forwarded],
        "kubelet": [
            str(paths.program("kubelet")), f"--config={home}/kubelet.json", f"--kubeconfig={home}/kubelet.kubeconfig",
            f"--root-dir={STATE}/kubelet", f"--cert-dir={STATE}/kubelet/pki", f"--hostname-override={NAME}",
            f"--node-ip={settings.BRIDGE_ADDRESS}", f"--node-labels={LABEL}",
        ],
        "kube-proxy": [str(paths.program("kube-proxy")), f"--config={home}/kube-proxy.json"],
        "coredns": [str(paths.program("coredns")), "-conf", str(home / "Corefile")],
    }
