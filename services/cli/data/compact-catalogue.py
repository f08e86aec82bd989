#!/usr/bin/env python3
"""Makes catalogue.tsv, the catalogue that kubectl-karpenter has built in, from a full catalogue in the plan format.

    compact-catalogue.py CATALOGUE.json > catalogue.tsv

Only figures are kept; capacity, overhead and labels follow from them (src/catalogue/figures.rs). The script fails on a
type whose capacity or overhead does not follow, rather than change it silently.
"""
import json
import sys

PREFIX = "karpenter.k8s.aws/instance-"


def kube_reserved_millicores(cpus):
    milli = 60.0
    for nth in range(2, cpus + 1):
        milli += 10 if nth == 2 else 5 if nth <= 4 else 2.5
    return int(milli)


def row(kind):
    labels, capacity = kind["labels"], kind["capacity"]

    def label(name):
        return labels.get(PREFIX + name, "")

    cpus, mib, pods = int(label("cpu")), int(label("memory")), int(capacity["pods"])
    expected = {"cpu": str(cpus), "memory": f"{mib * 925 // 1000}Mi", "ephemeral-storage": "20Gi", "pods": str(pods)}
    devices = []
    for resource, short in (("nvidia.com/gpu", "nvidia"), ("aws.amazon.com/neuron", "neuron")):
        if resource in capacity:
            expected[resource] = capacity[resource]
            devices.append(f"{short}={capacity[resource]}")
    if capacity != expected:
        sys.exit(f"{kind['name']}: capacity {capacity} is not {expected}")
    overhead = {"cpu": f"{kube_reserved_millicores(cpus)}m", "memory": f"{355 + 11 * pods}Mi", "ephemeral-storage": "3Gi"}
    if kind["overhead"] != overhead:
        sys.exit(f"{kind['name']}: overhead {kind['overhead']} is not {overhead}")
    gpu = "/".join(label("gpu-" + part) for part in ("name", "manufacturer", "count", "memory")) if label("gpu-name") else ""
    prices = {}
    for offering in kind["offerings"]:
        zone = offering["zone"].removeprefix(region)
        prices.setdefault(zone, {})[offering["capacityType"]] = round(offering["price"] * 1e6)
        zone_ids.setdefault(zone, offering["zoneId"])
    on_demand = {p["on-demand"] for p in prices.values() if "on-demand" in p}
    if len(on_demand) > 1:
        sys.exit(f"{kind['name']}: on-demand prices differ by zone")
    # "a43000": spot price in zone a; "a": on-demand only there; "a43000!": spot only
    zones = [
        zone + str(p.get("spot", "")) + ("" if "on-demand" in p else "!") for zone, p in sorted(prices.items())
    ]
    return [
        kind["name"], labels["kubernetes.io/arch"], label("hypervisor"), label("cpu-manufacturer"), str(cpus), str(mib), str(pods),
        "e" if label("encryption-in-transit-supported") == "true" else "", label("network-bandwidth"), label("local-nvme"), gpu,
        ",".join(devices), str(*on_demand) if on_demand else "", " ".join(zones),
    ]


catalogue = json.load(open(sys.argv[1]))
region = catalogue["region"]
zone_ids = {}
rows = [row(kind) for kind in sorted(catalogue["instanceTypes"], key=lambda kind: kind["name"])]
print("# region, then zone=zone id")
print("\t".join([region] + [f"{zone}={zone_ids[zone]}" for zone in sorted(zone_ids)]))
print("# name arch hypervisor cpu-maker vcpu MiB pods encryption Mbit/s nvme-GB gpu devices on-demand-micro$ spot-micro$-by-zone")
for columns in rows:
    print("\t".join(columns))
