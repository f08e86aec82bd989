"""What a node of a given type reports: capacity as the operating system shows it, allocatable as the
kubelet computes it from reservations and hard eviction thresholds. Pure, in whole units: CPU in
thousandths, memory and disk in bytes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from .userdata import Bootstrap

MI = 1024 * 1024
GI = 1024 * MI

# Of 10,000 parts of the memory that EC2 states, what firmware and kernel leave visible.
VISIBLE_MEMORY = 9275
# Of 10,000 parts of a volume, what its file system offers.
VISIBLE_DISK = 9963
# Memory that Graviton instances set aside for contiguous allocations.
ARM_SET_ASIDE = 64 * MI

UNITS = {
    "": 1, "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": 10**3, "M": 10**6, "G": 10**9,
    "T": 10**12, "P": 10**15, "E": 10**18, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip


def quantity(text: str) -> Decimal:
    digits = text.rstrip("".join({c for unit in UNITS for c in unit}))
    if text.endswith("%") or not digits:
        raise ValueError(f"{text!r} is not a quantity")
    return Decimal(digits) * UNITS[text[len(digits) :]]


def eni_pods(info: dict[str, Any]) -> int:
    """Pods by network interfaces of the default network card, as the EKS images compute it."""
    network = info["NetworkInfo"]
    default = network.get("DefaultNetworkCardIndex", 0)
    cards = network.get("NetworkCards") or [{"MaximumNetworkInterfaces": network["MaximumNetworkInterfaces"]}]
    interfaces = cards[default]["MaximumNetworkInterfaces"]
    return interfaces * (network["Ipv4AddressesPerInterface"] - 1) + 2


def pods(info: dict[str, Any], boot: Bootstrap) -> int:
    kubelet = boot.kubelet
    count = kubelet.max_pods
    if count is None:
        count = 110 if boot.family == "Windows" else eni_pods(info)
    if kubelet.pods_per_core:
        count = min(count, kubelet.pods_per_core * info["VCpuInfo"]["DefaultVCpus"])
    return count


def reserved_cpu(vcpus: int) -> int:
    """The kube-reserved CPU of the EKS images: 6 % of the first core, 1 % of the second, 0.5 % of the
    next two, 0.25 % of all others; in thousandths of a core."""
    total = 0
    for share, cores in ((60, 1), (10, 1), (5, 2)):
        used = min(vcpus, cores)
        total += share * used
        vcpus -= used
    return total + vcpus * 5 // 2


def kube_reserved(info: dict[str, Any], boot: Bootstrap) -> dict[str, Decimal]:
    by_pods = eni_pods(info) if boot.family in ("AL2", "AL2023") else pods(info, boot)
    reserved = {
        "cpu": Decimal(reserved_cpu(info["VCpuInfo"]["DefaultVCpus"])) / 1000,
        "memory": Decimal((11 * by_pods + 255) * MI),
        "ephemeral-storage": Decimal(GI),
    }
    reserved.update({k: quantity(v) for k, v in boot.kubelet.kube_reserved.items()})
    return reserved


def threshold(text: str, capacity: int) -> Decimal:
    """A hard eviction threshold: a quantity or a share of the capacity. 100 % switches it off."""
    if text.endswith("%"):
        share = Decimal(text[:-1])
        return Decimal(0) if share >= 100 else Decimal(capacity) * share / 100
    return quantity(text)


def devices(info: dict[str, Any], efa: int) -> dict[str, int]:
    """Extended resources that device plugins register."""
    found: dict[str, int] = {}
    names = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Habana": "habana.ai/gaudi"}
    for gpu in (info.get("GpuInfo") or {}).get("Gpus") or []:
        name = names.get(gpu.get("Manufacturer"))
        if name and gpu.get("Count"):
            found[name] = found.get(name, 0) + gpu["Count"]
    neuron = (info.get("NeuronInfo") or {}).get("NeuronDevices") or []
    if neuron:
        found["aws.amazon.com/neuron"] = sum(d.get("Count", 0) for d in neuron)
        found["aws.amazon.com/neuroncore"] = sum(d.get("Count", 0) * d.get("CoreInfo", {}).get("Count", 0) for d in neuron)
    if efa:
        found["vpc.amazonaws.com/efa"] = efa
    return {k: v for k, v in found.items() if v}


def compute(
    info: dict[str, Any], boot: Bootstrap, disk_gib: int, memory_percent: float = 100
) -> tuple[dict[str, str], dict[str, str]]:
    """(capacity, allocatable) without device plugins' resources. `disk_gib` is the size of the volume
    that holds containers; with RAID0 it is the instance's own disks instead. `memory_percent` of the
    memory that such a machine usually shows is there."""
    stated = info["MemoryInfo"]["SizeInMiB"] * MI
    if "arm64" in info["ProcessorInfo"]["SupportedArchitectures"]:
        stated -= ARM_SET_ASIDE
    # The kernel reports whole KiB.
    memory = int(stated * VISIBLE_MEMORY * memory_percent) // 1_000_000 // 1024 * 1024
    own_disks = (info.get("InstanceStorageInfo") or {}).get("TotalSizeInGB")
    raw_disk = own_disks * 10**9 if boot.raid0 and own_disks else disk_gib * GI
    disk = raw_disk * VISIBLE_DISK // 10_000 // 1024 * 1024
    cpu = info["VCpuInfo"]["DefaultVCpus"] * 1000
    count = pods(info, boot)

    kube = kube_reserved(info, boot)
    system = {k: quantity(v) for k, v in boot.kubelet.system_reserved.items()}
    hard = {"memory.available": "100Mi", "nodefs.available": "10%", **boot.kubelet.eviction_hard}

    def left(name: str, total: int, scale: int, eviction: Decimal) -> int:
        taken = (kube.get(name, Decimal(0)) + system.get(name, Decimal(0))) * scale + eviction
        return max(0, int(total - taken))

    capacity = {
        "cpu": str(cpu // 1000),
        "memory": f"{memory // 1024}Ki",
        "ephemeral-storage": f"{disk // 1024}Ki",
        "pods": str(count),
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
    }
    allocatable = {
        **capacity,
        "cpu": f"{left('cpu', cpu, 1000, Decimal(0))}m",
        "memory": f"{left('memory', memory, 1, threshold(hard['memory.available'], memory)) // 1024}Ki",
        "ephemeral-storage": str(left("ephemeral-storage", disk, 1, threshold(hard["nodefs.available"], disk))),
    }
    return capacity, allocatable
