"""The Node that is registered, the checks before it, and what tests may ask of a boot."""

from __future__ import annotations

import base64
import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from joining import node, userdata  # noqa: E402
from joining.controls import controls  # noqa: E402
from joining.joiner import same_certificate, same_endpoint  # noqa: E402

from . import samples  # noqa: E402

FACTS = node.Facts(
    id="i-0123456789abcdef0",
    name="ip-10-0-0-4.us-west-2.compute.internal",
    address="10.0.0.4",
    instance_type="m5.large",
    zone="us-west-2a",
    zone_id="usw2-az2",
    region="us-west-2",
    architecture="x86_64",
    image_name="amazon-eks-node-al2023-x86_64-standard-1.35-v20260902",
    kubelet_version="v1.35.4",
    capacity={"cpu": "2"},
    allocatable={"cpu": "1930m"},
)
NOW = "2026-11-16T00:00:00Z"


class Registered(unittest.TestCase):
    def build(self, text: str, never_ready: bool = False) -> dict:
        return node.build(FACTS, userdata.parse(text.encode(), None), never_ready, NOW)

    def test_name_provider_id_labels_and_taints(self) -> None:
        made = self.build(samples.NODEADM)
        self.assertEqual(FACTS.name, made["metadata"]["name"])
        self.assertEqual("aws:///us-west-2a/i-0123456789abcdef0", made["spec"]["providerID"])
        self.assertEqual("fake", made["metadata"]["annotations"]["kwok.x-k8s.io/node"])
        wanted = {
            "kubernetes.io/hostname": FACTS.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": "m5.large",
            "topology.kubernetes.io/zone": "us-west-2a",
            "topology.kubernetes.io/region": "us-west-2",
            "topology.k8s.aws/zone-id": "usw2-az2",
            "karpenter.sh/nodepool": "default",
        }
        self.assertEqual(wanted, {k: made["metadata"]["labels"].get(k) for k in wanted})
        self.assertIn({"key": "karpenter.sh/unregistered", "effect": "NoExecute"}, made["spec"]["taints"])
        self.assertIn({"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}, made["spec"]["taints"])
        self.assertNotIn("conditions", made["status"])

    def test_windows_nodes_have_their_build(self) -> None:
        facts = node.Facts(**{**vars(FACTS), "image_name": "Windows_Server-2022-English-Core-EKS_Optimized-1.35-2026.08.12"})
        made = node.build(facts, userdata.parse(samples.WINDOWS.encode(), "Windows"), False, NOW)
        labels = made["metadata"]["labels"]
        self.assertEqual(("windows", "10.0.20348"), (labels["kubernetes.io/os"], labels["node.kubernetes.io/windows-build"]))

    def test_a_node_that_never_gets_ready_says_so(self) -> None:
        made = self.build(samples.NODEADM, never_ready=True)
        self.assertEqual("False", made["metadata"]["annotations"]["localstack/not-ready"])
        self.assertEqual([("Ready", "False")], [(c["type"], c["status"]) for c in made["status"]["conditions"]])

    def test_a_node_of_an_external_cloud_provider_registers_with_its_taint(self) -> None:
        made = node.build(FACTS, userdata.parse(samples.NODEADM.encode(), None), False, NOW, uninitialized=True)
        self.assertIn(node.UNINITIALIZED, made["spec"]["taints"])
        self.assertNotIn(node.UNINITIALIZED, self.build(samples.NODEADM)["spec"]["taints"])

    def test_labels_that_a_kubelet_may_not_set_are_named(self) -> None:
        given = {
            "karpenter.sh/nodepool": "a", "karpenter.k8s.aws/instance-family": "m5", "node.kubernetes.io/mine": "a",
            "kubernetes.io/hostname": "a", "node-restriction.kubernetes.io/x": "a", "app.k8s.io/x": "a",
        }  # fmt: skip
        self.assertEqual(["app.k8s.io/x", "node-restriction.kubernetes.io/x"], node.refused_labels(given))

    def test_the_kubelet_has_the_version_of_its_image(self) -> None:
        self.assertEqual("v1.35.4", node.kubelet_version(FACTS.image_name, "v1.35.4"))
        self.assertEqual("v1.34.0", node.kubelet_version("bottlerocket-aws-k8s-1.34-x86_64-v1.46.0-abcdef01", "v1.35.4"))
        self.assertEqual("v1.35.4", node.kubelet_version("golden-1", "v1.35.4"))


class Trust(unittest.TestCase):
    def test_only_the_right_endpoint_is_reached(self) -> None:
        self.assertTrue(same_endpoint("https://localhost:6443/", "https://127.0.0.1:6443"))
        for wrong in ("https://127.0.0.1:6444", "http://127.0.0.1:6443", "https://example.org:6443", ""):
            self.assertFalse(same_endpoint(wrong, "https://127.0.0.1:6443"), wrong)

    def test_only_the_right_certificate_is_trusted(self) -> None:
        pem = b"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
        self.assertTrue(same_certificate(base64.b64encode(pem.strip()).decode(), pem))
        self.assertFalse(same_certificate(base64.b64encode(b"other").decode(), pem))
        self.assertFalse(same_certificate("%%%", pem))


class Wishes(unittest.TestCase):
    def test_a_tag_beats_a_rule_and_a_later_rule_an_earlier(self) -> None:
        rules = [{"bootDelayMs": 100, "neverReady": True}, {"match": {"pool": "a"}, "bootDelayMs": 200}]
        self.assertEqual(100, controls({}, rules).boot_delay_ms)
        self.assertEqual(200, controls({"pool": "a"}, rules).boot_delay_ms)
        tagged = controls({"pool": "a", "localstack/boot-delay-ms": "300", "localstack/never-ready": "false"}, rules)
        self.assertEqual((300, False), (tagged.boot_delay_ms, tagged.never_ready))

    def test_a_slow_and_small_machine_may_be_asked_for_by_tag_and_by_rule(self) -> None:
        rules = [{"readyAfterMs": 50, "uninitializedMs": 60, "memoryPercent": 97}]
        ruled = controls({}, rules)
        self.assertEqual((50, 60, 97), (ruled.ready_after_ms, ruled.uninitialized_ms, ruled.memory_percent))
        tagged = controls({"localstack/memory-percent": "95", "localstack/ready-after-ms": "x"}, rules)
        self.assertEqual((50, 60, 95), (tagged.ready_after_ms, tagged.uninitialized_ms, tagged.memory_percent))
        plain = controls({}, [])
        self.assertEqual((0, 0, 100), (plain.ready_after_ms, plain.uninitialized_ms, plain.memory_percent))

    def test_agents_taints_are_a_list(self) -> None:
        wish = controls({"localstack/agent-taints": "a, b", "localstack/agent-after-ms": "50"}, [])
        self.assertEqual((["a", "b"], 50), (wish.agent_taints, wish.agent_after_ms))


if __name__ == "__main__":
    unittest.main()
