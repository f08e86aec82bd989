"""User data of every family as its image reads it, and what no image would boot from."""

from __future__ import annotations

import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from joining import userdata  # noqa: E402
from joining.flags import Garbled, Taint  # noqa: E402

from . import samples  # noqa: E402

UNREGISTERED = Taint("karpenter.sh/unregistered", "", "NoExecute")


def parse(text: str, family: str | None = None) -> userdata.Bootstrap:
    return userdata.parse(text.encode(), family)


class Families(unittest.TestCase):
    def test_every_family_tells_its_cluster_labels_and_taints(self) -> None:
        for family, text in (
            ("AL2023", samples.NODEADM),
            ("AL2", samples.BOOTSTRAP_SH),
            ("Bottlerocket", samples.BOTTLEROCKET),
            ("Windows", samples.WINDOWS),
        ):
            for told in (family, None):
                with self.subTest(family=family, told=told):
                    boot = parse(text, told)
                    self.assertEqual(family, boot.family)
                    self.assertEqual(("demo", "https://127.0.0.1:6443", samples.CA), (boot.cluster, boot.endpoint, boot.ca))
                    self.assertEqual("default", boot.kubelet.labels["karpenter.sh/nodepool"])
                    self.assertIn(UNREGISTERED, boot.kubelet.taints)

    def test_nodeadm_merges_configs_in_order_and_adds_flags_up(self) -> None:
        boot = parse(samples.NODEADM, "AL2023")
        self.assertEqual(29, boot.kubelet.max_pods)
        self.assertEqual({"memory.available": "5%"}, boot.kubelet.eviction_hard)
        self.assertEqual({"cpu": "200m", "memory": "1Gi"}, boot.kubelet.kube_reserved)
        self.assertEqual({"team": "a", "shared": "system", "karpenter.sh/nodepool": "default"}, boot.kubelet.labels)
        self.assertEqual([UNREGISTERED, Taint("dedicated", "gpu", "NoSchedule")], boot.kubelet.taints)
        self.assertTrue(boot.raid0)

    def test_a_node_config_need_not_be_mime(self) -> None:
        document = samples.NODEADM.split("Content-Type: application/node.eks.aws\n\n")[2].split("--//")[0]
        self.assertEqual("demo", parse(document, "AL2023").cluster)

    def test_bootstrap_sh_hands_its_extra_arguments_to_the_kubelet(self) -> None:
        boot = parse(samples.BOOTSTRAP_SH, "AL2")
        self.assertEqual({"karpenter.sh/nodepool": "default", "a": "b"}, boot.kubelet.labels)
        self.assertEqual([UNREGISTERED, Taint("x", "y", "NoSchedule")], boot.kubelet.taints)
        self.assertEqual({"cpu": "100m", "memory": "100Mi"}, boot.kubelet.system_reserved)
        self.assertEqual({"memory.available": "5%", "nodefs.available": "10%"}, boot.kubelet.eviction_hard)
        self.assertEqual((29, True), (boot.kubelet.max_pods, boot.raid0))

    def test_bottlerocket_reads_tables_of_taints_and_reservations(self) -> None:
        boot = parse(samples.BOTTLEROCKET, "Bottlerocket")
        wanted = [UNREGISTERED, Taint("dedicated", "gpu", "NoSchedule"), Taint("dedicated", "gpu", "NoExecute")]
        self.assertEqual(wanted, boot.kubelet.taints)
        self.assertEqual(({"memory": "2Gi"}, {"memory.available": "12%"}), (boot.kubelet.kube_reserved, boot.kubelet.eviction_hard))

    def test_the_image_name_tells_the_family(self) -> None:
        names = {
            "amazon-eks-node-al2023-x86_64-standard-1.35-v20260902": "AL2023",
            "amazon-eks-node-1.31-v20260902": "AL2",
            "amazon-eks-arm64-node-1.31-v20260902": "AL2",
            "bottlerocket-aws-k8s-1.35-x86_64-v1.46.0-abcdef01": "Bottlerocket",
            "Windows_Server-2022-English-Core-EKS_Optimized-1.35-2026.08.12": "Windows",
            "golden-1": None,
        }
        for name, family in names.items():
            with self.subTest(name):
                self.assertEqual(family, userdata.family_of_image(name))


class NeverBoots(unittest.TestCase):
    def refused(self, text: str, family: str | None = None) -> str:
        with self.assertRaises(Garbled) as caught:
            parse(text, family)
        return str(caught.exception)

    def test_user_data_of_another_family_starts_no_kubelet(self) -> None:
        self.refused(samples.BOTTLEROCKET, "AL2023")
        self.refused(samples.NODEADM, "Bottlerocket")
        self.refused(samples.NODEADM, "AL2")
        self.refused(samples.BOOTSTRAP_SH, "Windows")

    def test_empty_and_unknown_user_data_starts_nothing(self) -> None:
        self.assertIn("no user data", self.refused(" \n"))
        self.assertIn("no kubelet", self.refused("#!/bin/sh\necho hi\n"))

    def test_broken_documents_say_what_is_wrong(self) -> None:
        self.assertIn("parts", self.refused(samples.NODEADM.replace('boundary="//"', 'boundary="=="'), "AL2023"))
        self.assertIn("cluster.name", self.refused(samples.NODEADM.replace("    name: demo\n", ""), "AL2023"))
        self.assertIn("not YAML", self.refused(samples.NODEADM.replace("maxPods: 50", "maxPods: [50"), "AL2023"))
        self.assertIn("quotes", self.refused(samples.BOOTSTRAP_SH.replace("--local-disks raid0", "'"), "AL2"))
        self.assertIn("cannot read", self.refused(samples.BOTTLEROCKET + "\n[[", "Bottlerocket"))
        self.assertIn("not called", self.refused("<powershell>\nexit 0\n</powershell>", "Windows"))

    def test_a_taint_without_a_known_effect_is_refused(self) -> None:
        self.assertIn("Never", self.refused(samples.BOOTSTRAP_SH.replace("unregistered:NoExecute", "unregistered:Never"), "AL2"))
        self.assertIn("Never", self.refused(samples.BOTTLEROCKET.replace(":NoExecute']", ":Never']", 1), "Bottlerocket"))


if __name__ == "__main__":
    unittest.main()
