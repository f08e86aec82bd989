"""The cluster as the suites expect it: one Deployment `karpenter` in kube-system whose environment holds the settings.

Our product is five services, so the Deployment is a stand-in: kwok plays its pod on a tainted system node, and whenever a suite
changes the Deployment's environment, the services are started again with it before the pod is named as the leader."""

import os
import subprocess
import threading
from pathlib import Path

from localstack import paths, settings
from localstack.api import Api, ApiError
from localstack.paths import Instance
from localstack.processes import Cluster as Processes

GATES = "NodeRepair,ReservedCapacity,SpotToSpotConsolidation,NodeOverlay,StaticCapacity,CapacityBuffer"
SETTINGS = {"FEATURE_GATES": ",".join(f"{gate}=true" for gate in GATES.split(","))}
DEPLOYMENT = f"/apis/apps/v1/namespaces/{settings.NAMESPACE}/deployments/karpenter"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{settings.NAMESPACE}/leases"
PODS = f"/api/v1/namespaces/{settings.NAMESPACE}/pods?labelSelector=app.kubernetes.io/instance%3Dkarpenter"
LABELS = {"app.kubernetes.io/instance": "karpenter", "app.kubernetes.io/name": "karpenter"}
# Our services do not lead beside a Karpenter that renews its Lease; this one was left long ago.
LONG_AGO = "2020-01-01T00:00:00.000000Z"


class Cluster:
    """Started on entry, taken down on exit."""

    def __init__(self) -> None:
        self.directory = paths.REPOSITORY / ".local" / "conformance"
        self._stop = threading.Event()
        self._follower = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> "Cluster":
        # Pods use their grace period here, as under a kubelet.
        self._stack("up", "--fresh", "--services", "none", environment={**os.environ, "POD_GRACE": "1"})
        self.environment = read_environment(self.directory / "env")
        try:
            self._api = self._connect()
            for path, body in objects():
                create(self._api, path, body)
            self._running: dict[str, str] = {}
            self._start(SETTINGS)
            self._follower.start()
        except BaseException:
            self._stack("down")
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._follower.join()
        self._stack("down")

    def _connect(self) -> Api:
        instance = Instance.at(str(self.directory))
        return Api(instance, Processes.existing(instance).ports["kube-apiserver"])

    def _stack(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        command = [str(paths.LOCAL / "stack"), "--dir", str(self.directory), *arguments]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment)

    def _start(self, wanted: dict[str, str]) -> None:
        for service in settings.SERVICES:
            if self._running:
                self._stack("service", "stop", service)
            given = [f"--env={name}={value}" for name, value in wanted.items()]
            self._stack("service", "start", service, *given)
        self._running = dict(wanted)

    def _follow(self) -> None:
        """Settings first, the leader's name after: a suite that sees a new leader meets services with its settings."""
        while not self._stop.wait(0.5):
            try:
                wanted = environment_of(self._api.get(DEPLOYMENT))
                if wanted != self._running:
                    self._start(wanted)
                if pod := newest_running(self._api.get(PODS)["items"]):
                    name_leader(self._api, pod)
            except (ApiError, OSError, subprocess.CalledProcessError) as error:
                print(f"stand-in: {error}", flush=True)


def read_environment(file: Path) -> dict[str, str]:
    found = subprocess.run(["bash", "-c", f"source {file} && env -0"], capture_output=True, text=True, check=True)
    pairs = (entry.partition("=") for entry in found.stdout.split("\0") if entry)
    return {name: value for name, _, value in pairs}


def environment_of(deployment: dict) -> dict[str, str]:
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    return {each["name"]: each.get("value", "") for each in container.get("env") or []}


def newest_running(pods: list[dict]) -> str | None:
    live = [
        pod for pod in pods
        if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    ]
    newest = max(live, key=lambda pod: pod["metadata"]["creationTimestamp"], default=None)
    return newest and newest["metadata"]["name"]


def name_leader(api: Api, pod: str) -> None:
    holder = f"{pod}_stand-in"
    lease = api.find(f"{LEASES}/karpenter-leader-election")
    if lease is None:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": LONG_AGO, "acquireTime": LONG_AGO}
        body = {"metadata": {"name": "karpenter-leader-election"}, "spec": spec}
        api.call("POST", LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body})
    elif lease["spec"].get("holderIdentity") != holder:
        path = f"{LEASES}/karpenter-leader-election"
        api.call("PATCH", path, {"spec": {"holderIdentity": holder}}, "application/merge-patch+json")


def create(api: Api, path: str, body: dict) -> None:
    try:
        api.call("POST", path, body)
    except ApiError as error:
        if error.status != 409:
            raise


def objects() -> list[tuple[str, dict]]:
    """Where each object is created, and what it is."""
    namespace = f"/namespaces/{settings.NAMESPACE}"
    group = "apiextensions.k8s.io/v1"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    policy = {
        "apiVersion": group, "kind": "CustomResourceDefinition",
        "metadata": {"name": "securitygrouppolicies.vpcresources.k8s.aws"},
        "spec": {
            "group": "vpcresources.k8s.aws", "scope": "Namespaced",
            "names": {"kind": "SecurityGroupPolicy", "listKind": "SecurityGroupPolicyList", "plural": "securitygrouppolicies",
                      "singular": "securitygrouppolicy"},
            "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    # Every node that is there before a spec must be tainted.
    node = {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "system", "labels": {"conformance/system": "", "kubernetes.io/hostname": "system"},
                     "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": [{"key": "CriticalAddonsOnly", "effect": "NoSchedule"}]},
        "status": {kind: {"cpu": "8", "memory": "32Gi", "pods": "110"} for kind in ("capacity", "allocatable")},
    }
    account = {
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "karpenter", "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/karpenter"}},
    }
    container = {"name": "controller", "image": "karpenter", "env": [{"name": k, "value": v} for k, v in SETTINGS.items()]}
    pod = {
        "serviceAccountName": "karpenter", "containers": [container], "nodeSelector": {"conformance/system": ""},
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}], "terminationGracePeriodSeconds": 0,
    }
    deployment = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "karpenter", "labels": LABELS},
        "spec": {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": {"metadata": {"labels": LABELS}, "spec": pod}},
    }
    return [
        (f"/apis/{group}/customresourcedefinitions", policy),
        ("/api/v1/nodes", node),
        (f"/api/v1{namespace}/serviceaccounts", account),
        (f"/apis/apps/v1{namespace}/deployments", deployment),
    ]
