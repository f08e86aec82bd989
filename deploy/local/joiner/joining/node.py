"""The Node object that a booted instance registers, labels and all. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from .userdata import Bootstrap

ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
WINDOWS_BUILDS = {"2019": "10.0.17763", "2022": "10.0.20348", "2025": "10.0.26100"}
NOT_READY = "localstack/not-ready"
# With an external cloud provider, as on EKS, the kubelet registers with this taint.
UNINITIALIZED = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
# Labels in these domains a kubelet may not set on itself, apart from the well-known ones it owns.
REFUSED = re.compile(r"(^|\.)(kubernetes\.io|k8s\.io)/")
ALLOWED = re.compile(
    r"(^|\.)(kubelet|node)\.kubernetes\.io/"
    r"|^(beta\.)?kubernetes\.io/(hostname|os|arch)$|^beta\.kubernetes\.io/instance-type$"
    r"|^(topology|failure-domain\.beta)\.kubernetes\.io/(zone|region)$"
)


@dataclass
class Facts:
    """What is known of the instance from outside its user data."""

    id: str
    name: str  # private DNS name
    address: str
    instance_type: str
    zone: str
    zone_id: str
    region: str
    architecture: str  # as EC2 says it
    image_name: str
    kubelet_version: str
    capacity: dict[str, str] = field(default_factory=dict)
    allocatable: dict[str, str] = field(default_factory=dict)


def provider_id(zone: str, instance_id: str) -> str:
    return f"aws:///{zone}/{instance_id}"


def refused_labels(labels: dict[str, str]) -> list[str]:
    """Labels for which the kubelet would not start."""
    return sorted(k for k in labels if REFUSED.search(k) and not ALLOWED.search(k))


def build(facts: Facts, boot: Bootstrap, not_ready: bool, now: str, uninitialized: bool = False) -> dict[str, Any]:
    """The Node as it is registered. `now` is RFC 3339. The cloud controller removes the taint of an
    `uninitialized` one."""
    windows = boot.family == "Windows"
    system = "windows" if windows else "linux"
    arch = ARCHITECTURES.get(facts.architecture, facts.architecture)
    labels = {
        **boot.kubelet.labels,
        "kubernetes.io/hostname": facts.name,
        "kubernetes.io/os": system,
        "kubernetes.io/arch": arch,
        "beta.kubernetes.io/os": system,
        "beta.kubernetes.io/arch": arch,
        "node.kubernetes.io/instance-type": facts.instance_type,
        "beta.kubernetes.io/instance-type": facts.instance_type,
        "topology.kubernetes.io/region": facts.region,
        "topology.kubernetes.io/zone": facts.zone,
        "failure-domain.beta.kubernetes.io/region": facts.region,
        "failure-domain.beta.kubernetes.io/zone": facts.zone,
        "topology.k8s.aws/zone-id": facts.zone_id,
    }
    if windows:
        year = re.search(r"Windows_Server-(\d{4})", facts.image_name)
        build_number = WINDOWS_BUILDS.get(year.group(1) if year else "2022", WINDOWS_BUILDS["2022"])
        labels["node.kubernetes.io/windows-build"] = build_number
    annotations = {
        "kwok.x-k8s.io/node": "fake",
        "alpha.kubernetes.io/provided-node-ip": facts.address,
        "node.alpha.kubernetes.io/ttl": "0",
    }
    status: dict[str, Any] = {
        "capacity": facts.capacity,
        "allocatable": facts.allocatable,
        "addresses": [
            {"type": "InternalIP", "address": facts.address},
            {"type": "InternalDNS", "address": facts.name},
            {"type": "Hostname", "address": facts.name},
        ],
        "nodeInfo": {
            "architecture": arch,
            "operatingSystem": system,
            "kubeletVersion": facts.kubelet_version,
            "kubeProxyVersion": "",
            "containerRuntimeVersion": "containerd://2.1.4",
            "kernelVersion": "10.0" if windows else "6.12.40",
            "osImage": os_image(boot.family, facts.image_name),
            "bootID": facts.id,
            "machineID": facts.id.replace("-", ""),
            "systemUUID": facts.id,
        },
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }
    if not_ready:
        annotations[NOT_READY] = "False"
        status["conditions"] = [
            {
                "type": "Ready",
                "status": "False",
                "reason": "KubeletNotReady",
                "message": "container runtime network not ready: cni plugin not initialized",
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }
        ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": facts.name, "labels": labels, "annotations": annotations},
        "spec": {
            "providerID": provider_id(facts.zone, facts.id),
            "taints": [t.describe() for t in boot.kubelet.taints] + ([UNINITIALIZED] if uninitialized else []),
        },
        "status": status,
    }


def os_image(family: str, image_name: str) -> str:
    if family == "Bottlerocket":
        version = re.search(r"-v([\d.]+)-", image_name)
        variant = re.search(r"bottlerocket-(aws-k8s-[\d.]+(?:-nvidia)?)", image_name)
        return f"Bottlerocket OS {version.group(1) if version else '1.0'} ({variant.group(1) if variant else 'aws-k8s'})"
    if family == "Windows":
        year = re.search(r"Windows_Server-(\d{4})", image_name)
        return f"Windows Server {year.group(1) if year else '2022'} Datacenter"
    return "Amazon Linux 2" if family == "AL2" else "Amazon Linux 2023"


def kubelet_version(image_name: str, server_version: str) -> str:
    """The image's Kubernetes minor; its patch is the server's where the minors agree."""
    minor = re.search(r"(?:^|-)(1\.\d{2})(?:-|$)", image_name)
    if not minor or server_version.startswith(f"v{minor.group(1)}."):
        return server_version
    return f"v{minor.group(1)}.0"
