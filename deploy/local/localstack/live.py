"""What the cluster looks like now: pods by phase, claims, nodes by type and zone, and what they cost."""

import json
import subprocess
import time
from collections import Counter
from dataclasses import dataclass

from . import files, page, paths, process, services, settings
from .api import Api, ApiError
from .processes import Cluster

PRICE_SECONDS = 60


@dataclass(frozen=True)
class Node:
    name: str
    type: str
    zone: str
    capacity: str
    ready: bool
    leaving: bool
    micro_usd: int | None


@dataclass(frozen=True)
class Picture:
    wanted: int
    pods: Counter
    claims: Counter
    nodes: list[Node]

    @property
    def dollars(self) -> str:
        """An hour of all nodes; unknown as soon as one is unknown."""
        if any(each.micro_usd is None for each in self.nodes):
            return "-"
        return f"{sum(each.micro_usd or 0 for each in self.nodes) / 1e6:.4f}"


class Prices:
    """Asks pricing-cache, as any person could with grpcurl, and remembers the answer for a while."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._known: dict[tuple[str, str, str], int] = {}
        self._asked: dict[str, float] = {}

    def of(self, instance_type: str, zone: str, capacity: str) -> int | None:
        if time.monotonic() - self._asked.get(instance_type, -PRICE_SECONDS) >= PRICE_SECONDS:
            self._asked[instance_type] = time.monotonic()
            self._known |= self._ask(instance_type)
        return self._known.get((instance_type, zone, capacity))

    def _ask(self, instance_type: str) -> dict[tuple[str, str, str], int]:
        instance = self._cluster.instance
        replica = process.find(instance, services.process_name("pricing-cache", 0))
        token = files.read(instance.account(settings.OPERATOR) / "rpc-token")
        if not replica or not token:
            return {}
        command = [
            str(paths.program("grpcurl")), "-cacert", str(instance.trust), "-max-time", "5",
            "-H", f"authorization: Bearer {token}", "-d", json.dumps({"instanceTypes": [instance_type]}),
            replica.facts["grpc"], "karpenter.pricingcache.v1.PricingCache/GetPrices",
        ]
        answer = subprocess.run(command, capture_output=True, text=True)
        return parse_prices(answer.stdout) if answer.returncode == 0 else {}


def parse_prices(answer: str) -> dict[tuple[str, str, str], int]:
    """(type, zone, capacity type) to micro-dollars an hour. 64-bit numbers are strings in protobuf's JSON."""
    found = {}
    for each in json.loads(answer or "{}").get("prices", []):
        offering = each.get("offering", {})
        capacity = offering.get("capacityType", "").removeprefix("CAPACITY_TYPE_").lower().replace("_", "-")
        price = int(offering.get("microUsdPerHour", 0))
        if price:
            found[offering.get("instanceType", ""), offering.get("zone", ""), capacity] = price
    return found


def observe(client: Api, prices: Prices, wanted: int) -> Picture:
    pods = Counter(_phase(pod) for pod in _items(client, "/api/v1/namespaces/default/pods?labelSelector=app%3Dinflate"))
    claims = Counter(_claim_state(claim) for claim in _items(client, "/apis/karpenter.sh/v1/nodeclaims"))
    nodes = [_node(node, prices) for node in _items(client, "/api/v1/nodes?labelSelector=karpenter.sh%2Fnodepool")]
    return Picture(wanted, pods, claims, sorted(nodes, key=lambda each: (each.type, each.zone, each.name)))


def _items(client: Api, path: str) -> list[dict]:
    try:
        return client.get(path)["items"]
    except ApiError as error:
        if error.status == 404:
            return []
        raise


def _phase(pod: dict) -> str:
    return "Terminating" if pod["metadata"].get("deletionTimestamp") else pod.get("status", {}).get("phase", "Pending")


def _claim_state(claim: dict) -> str:
    if claim["metadata"].get("deletionTimestamp"):
        return "Terminating"
    conditions = {each["type"]: each["status"] for each in claim.get("status", {}).get("conditions", [])}
    for state in ("Initialized", "Registered", "Launched"):
        if conditions.get(state) == "True":
            return state
    return "New"


def _node(node: dict, prices: Prices) -> Node:
    labels = node["metadata"].get("labels", {})
    kind = labels.get("node.kubernetes.io/instance-type", "?")
    zone = labels.get("topology.kubernetes.io/zone", "?")
    capacity = labels.get("karpenter.sh/capacity-type", "?")
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node.get("status", {}).get("conditions", []))
    taints = node.get("spec", {}).get("taints", [])
    leaving = bool(node["metadata"].get("deletionTimestamp")) or any(each["key"] == "karpenter.sh/disrupted" for each in taints)
    return Node(node["metadata"]["name"], kind, zone, capacity, ready, leaving, prices.of(kind, zone, capacity))


def line(picture: Picture) -> str:
    return (
        f"{time.strftime('%H:%M:%S')} wanted {picture.wanted}, pods {_counts(picture.pods)}, "
        f"claims {_counts(picture.claims)}, nodes {len(picture.nodes)}, $/h {picture.dollars}"
    )


def _counts(counter: Counter) -> str:
    return " ".join(f"{name} {number}" for name, number in sorted(counter.items())) or "0"


def draw(cluster: Cluster, picture: Picture) -> str:
    kinds = Counter((each.type, each.zone, each.capacity, each.micro_usd) for each in picture.nodes)
    lines = [
        f"local stack {cluster.cluster_name}   {time.strftime('%H:%M:%S')}   (Ctrl-C stops everything)",
        "",
        f"  inflate   {picture.wanted} pods wanted: {_counts(picture.pods)}",
        f"  claims    {_counts(picture.claims)}",
        f"  nodes     {len(picture.nodes)}, of them ready {sum(each.ready for each in picture.nodes)},"
        f" leaving {sum(each.leaving for each in picture.nodes)}",
        f"  $/h       {picture.dollars}",
        "",
        f"  {'NODES':>5}  {'TYPE':<18} {'ZONE':<14} {'CAPACITY':<10} {'$/h EACH':>9}",
    ]
    for (kind, zone, capacity, price), number in sorted(kinds.items(), key=lambda item: [str(part) for part in item[0]]):
        lines.append(f"  {number:>5}  {kind:<18} {zone:<14} {capacity:<10} {'-' if price is None else f'{price / 1e6:.4f}':>9}")
    lines += ["", f"  another terminal: source {cluster.instance.environment}"]
    lines += [f"  the live page:    {page.address(cluster.instance) or f'ended, see {cluster.instance.log(page.NAME)}'}"]
    return "\n".join(lines) + "\n"
