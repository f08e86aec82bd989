#!/usr/bin/env python3
"""What the local stack guarantees, on real instances. Takes about six minutes, the built components and services:

    deploy/local/tests/acceptance.py
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

LOCAL = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(LOCAL))

from localstack import api, files, ports, process, remains  # noqa: E402
from localstack import node as node_places  # noqa: E402
from localstack.paths import Instance  # noqa: E402


def stack(directory: Path, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(LOCAL / "stack"), *arguments, "--dir", str(directory)], capture_output=True, text=True,
        env={**os.environ, **(environment or {})},
    )


def document(kind: str, api_version: str, name: str, body: dict) -> api.Document:
    whole = {"apiVersion": api_version, "kind": kind, **body}
    whole["metadata"] = {"name": name, **body.get("metadata", {})}
    return api.Document(json.dumps(whole), api_version, kind, name, "")


def node(name: str) -> dict:
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "29"},
            "allocatable": {"cpu": "7910m", "memory": "30Gi", "pods": "29"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}],
            "nodeInfo": {
                "architecture": "arm64", "operatingSystem": "linux", "kubeletVersion": "v1.35.0-eks", "osImage": "AL2023",
                "kernelVersion": "6.12", "containerRuntimeVersion": "containerd://2.1", "machineID": "m", "systemUUID": "s",
                "bootID": "b", "kubeProxyVersion": "",
            },
        },
    }


# Only for a demo in which nothing happens any more: it grows and shrinks within four minutes.
DEMO_SECONDS = 1800


def decisions(page: str) -> Iterator[dict]:
    """The decisions in the event stream of the live page, until none has come for too long."""
    until = time.monotonic() + DEMO_SECONDS
    with urllib.request.urlopen(page + "events", timeout=DEMO_SECONDS) as stream:
        for line in stream:
            if line.startswith(b"data: "):
                yield from (each for each in json.loads(line[6:]).get("decisions", {}).values() if each)
            if time.monotonic() > until:
                return


DEPLOYMENT = {
    "spec": {
        "replicas": 10,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "100m"}}}]},
        },
    }
}


class Acceptance(unittest.TestCase):
    def instance(self) -> Instance:
        directory = Path(tempfile.mkdtemp(prefix="localstack-"))

        def end() -> None:
            stopped = stack(directory, "down")
            self.assertEqual(stopped.returncode, 0, stopped.stderr)
            self.assertEqual(self.commands_naming(directory), [])
            shutil.rmtree(directory)

        self.addCleanup(end)
        return Instance(directory)

    def up(self, instance: Instance, *arguments: str) -> dict:
        done = stack(instance.dir, "up", "--services", "none", "-o", "json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def client(self, instance: Instance) -> api.Api:
        client = api.Api(instance, ports.of_cluster(instance)["kube-apiserver"])
        self.addCleanup(client.close)
        return client

    def roll_out(self, client: api.Api) -> None:
        for name in ("n1", "n2", "n3"):
            client.call("POST", "/api/v1/nodes", node(name))
        client.apply(document("Deployment", "apps/v1", "web", DEPLOYMENT))

        def running() -> bool:
            pods = client.get("/api/v1/namespaces/default/pods?labelSelector=app%3Dweb")["items"]
            ready = [each for each in pods if each["status"].get("phase") == "Running" and each["spec"].get("nodeName")]
            return len(ready) == 10

        self.assertTrue(files.until(running, 120), "ten pods on three nodes")

    def down_leaves_nothing(self, instance: Instance) -> None:
        pids = {each.pid for each in process.find_all(instance).values()}
        self.assertGreaterEqual(len(pids), 6)
        done = stack(instance.dir, "down")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([pid for pid in pids if process.birth(pid)], [])
        self.assertEqual(self.commands_naming(instance.dir), [])
        self.assertEqual([name for name, port in ports.of_cluster(instance).items() if not ports.is_free(port)], [])
        self.assertEqual(list(instance.pids.iterdir()), [])

    def commands_naming(self, directory: Path) -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                text = path.read_text().replace("\0", " ")
            except OSError:
                continue
            if str(directory) in text:
                found.append(text)
        return found

    def test_pods_run_on_played_nodes_and_nothing_is_left_behind_twice_in_a_row(self):
        instance = self.instance()
        for _ in range(2):
            self.up(instance, "--fresh")
            client = self.client(instance)
            self.roll_out(client)
            status = client.get("/api/v1/nodes/n1")["status"]
            for field, value in node("n1")["status"].items():
                self.assertEqual(status[field], value, field)
            self.down_leaves_nothing(instance)
        self.assertEqual(stack(instance.dir, "down").returncode, 0)

    def test_two_instances_run_side_by_side_and_know_nothing_of_each_other(self):
        first, second = self.instance(), self.instance()
        self.up(first)
        self.up(second)
        self.client(first).call("POST", "/api/v1/nodes", node("only-here"))
        self.assertIsNotNone(self.client(first).find("/api/v1/nodes/only-here"))
        self.assertIsNone(self.client(second).find("/api/v1/nodes/only-here"))
        self.down_leaves_nothing(first)
        self.assertTrue(self.client(second).ready())
        self.down_leaves_nothing(second)

    def test_the_demo_prints_the_address_of_a_page_that_shows_it_grow_and_shrink(self):
        instance = self.instance()
        command = [str(LOCAL / "stack"), "run", "--dir", str(instance.dir)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
            printed = []
            try:
                for line in demo.stdout:
                    printed.append(line)
                    if line.startswith("the live page: "):
                        break
                page = "".join(printed[-1:]).removeprefix("the live page: ").strip()
                self.assertRegex(page, r"^http://127\.0\.0\.1:\d+/$", "".join(printed))
                with urllib.request.urlopen(page) as answer:
                    self.assertIn("<title>Karpenter</title>", answer.read().decode())
                wanted = {"launch", "removal"}
                for each in decisions(page):
                    if each["ended"]:
                        wanted.discard(each["kind"])
                    if not wanted:
                        break
                self.assertEqual(wanted, set(), "kinds of decisions that did not come to an end on the page")
            finally:
                demo.send_signal(signal.SIGINT)
                demo.communicate()
        self.assertEqual(demo.returncode, 0)
        with self.assertRaises(urllib.error.URLError):
            urllib.request.urlopen(page)

    def test_a_killed_api_server_comes_back_and_everything_else_stays(self):
        instance = self.instance()
        before = {each["process"]: each["pid"] for each in self.up(instance)["processes"]}
        self.client(instance).call("POST", "/api/v1/nodes", node("kept"))
        os.kill(before["kube-apiserver"], signal.SIGKILL)
        after = {each["process"]: each["pid"] for each in self.up(instance)["processes"]}
        self.assertEqual({name for name in after if after[name] != before.get(name)}, {"kube-apiserver"})
        self.roll_out(self.client(instance))
        self.assertIsNotNone(self.client(instance).find("/api/v1/nodes/kept"))

    def test_a_port_that_somebody_took_meanwhile_moves_the_instance(self):
        instance = self.instance()
        self.up(instance, "--no-joiner")
        self.client(instance).call("POST", "/api/v1/nodes", node("kept"))
        stack(instance.dir, "down")
        taken = ports.of_cluster(instance)["kube-apiserver"]
        with socket.socket() as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            stranger.bind(("127.0.0.1", taken))
            stranger.listen()
            self.up(instance, "--no-joiner")
            self.assertNotEqual(ports.of_cluster(instance)["kube-apiserver"], taken)
            self.assertIsNotNone(self.client(instance).find("/api/v1/nodes/kept"))

    def test_a_failed_start_shows_the_guilty_log_and_leaves_nothing(self):
        instance = self.instance()
        self.up(instance, "--no-joiner")
        stack(instance.dir, "down")
        (instance.pki / "apiserver.crt").write_text("not a certificate")
        done = stack(instance.dir, "up", "--services", "none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("kube-apiserver ended", done.stderr)
        self.assertIn("apiserver.crt", done.stderr)
        self.assertEqual(self.commands_naming(instance.dir), [])

    def test_services_hold_their_own_rights_and_no_others(self):
        instance = self.instance()
        self.up(instance, "--no-joiner")
        client = self.client(instance)

        def allowed(service: str, verb: str, group: str, resource: str, name: str = "", subresource: str = "") -> bool:
            review = {
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {
                    "user": f"system:serviceaccount:kube-system:karpenter-{service}",
                    "resourceAttributes": {
                        "namespace": "kube-system", "verb": verb, "group": group, "resource": resource, "name": name,
                        "subresource": subresource,
                    },
                },
            }
            return client.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]

        self.assertTrue(allowed("provisioner", "create", "karpenter.sh", "nodeclaims"))
        self.assertFalse(allowed("termination", "create", "karpenter.sh", "nodeclaims"))
        self.assertTrue(allowed("termination", "create", "", "pods", subresource="eviction"))
        self.assertFalse(allowed("disruption", "create", "", "pods", subresource="eviction"))
        self.assertFalse(allowed("provisioner", "delete", "", "nodes"))
        self.assertTrue(allowed("pricing-cache", "patch", "", "configmaps", "karpenter-pricing-cache-trust"))
        self.assertFalse(allowed("pricing-cache", "patch", "", "configmaps", "karpenter-provisioner-trust"))
        self.assertTrue(allowed("operator", "create", "rpc.karpenter.sh", "services", subresource="cancelcommand"))
        self.assertTrue(allowed("viewer", "get", "rpc.karpenter.sh", "services", subresource="replay"))
        self.assertFalse(allowed("viewer", "create", "rpc.karpenter.sh", "services", subresource="cancelcommand"))
        self.assertFalse(allowed("interruption-watcher", "delete", "karpenter.sh", "nodeclaims"))
        self.assertTrue(allowed("disruption", "watch", "coordination.k8s.io", "leases", "karpenter-provisioner"))
        self.assertFalse(allowed("disruption", "update", "coordination.k8s.io", "leases", "karpenter-provisioner"))

    def test_a_real_node_runs_real_pods_and_leaves_no_trace(self):
        instance = self.instance()
        self.up(instance, "--no-joiner")
        joined = stack(instance.dir, "kubelet", "up")
        if joined.returncode == 77:
            self.skipTest(joined.stderr)
        self.assertEqual(joined.returncode, 0, joined.stderr)
        packed = subprocess.run(
            [str(LOCAL / "stack"), "kubelet", "image", "--dir", str(instance.dir), "localhost/real:1", "/bin/sleep"],
            capture_output=True, text=True,
        )
        self.assertEqual(packed.returncode, 0, packed.stderr)
        client = self.client(instance)
        pod = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "real"},
            "spec": {
                "nodeSelector": {"localstack/node": "real"},
                "tolerations": [{"key": "localstack/real-node", "operator": "Exists"}],
                "containers": [
                    {"name": "real", "image": "localhost/real:1", "imagePullPolicy": "Never", "args": ["3600"]},
                ],
            },
        }
        client.call("POST", "/api/v1/namespaces/default/pods", pod)

        def started() -> bool:
            status = client.get("/api/v1/namespaces/default/pods/real")["status"]
            return any(each["ready"] for each in status.get("containerStatuses", []))

        self.assertTrue(files.until(started, 120), "the pod runs")
        left = stack(instance.dir, "kubelet", "down")
        self.assertEqual(left.returncode, 0, left.stderr)
        self.assertIsNone(client.find("/api/v1/nodes/kubelet"))
        self.assertEqual(remains.found(), "")
        self.assertEqual([each for each in (node_places.STATE, node_places.SOCKETS) if each.exists()], [])
        self.assertEqual(self.commands_naming(node_places.SOCKETS), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
