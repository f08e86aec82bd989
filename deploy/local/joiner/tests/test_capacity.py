"""Capacity and allocatable as a kubelet of each family reports them."""

from __future__ import annotations

import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from joining import capacity  # noqa: E402
from joining.flags import Kubelet  # noqa: E402
from joining.userdata import Bootstrap  # noqa: E402

from . import samples  # noqa: E402


def boot(family: str = "AL2023", raid0: bool = False, **kubelet: object) -> Bootstrap:
    return Bootstrap(family, "demo", "https://127.0.0.1:6443", samples.CA, Kubelet(**kubelet), raid0)


def kibibytes(text: str) -> int:
    return int(text.removesuffix("Ki"))


class Compute(unittest.TestCase):
    def test_a_plain_node_of_m5_large(self) -> None:
        total, left = capacity.compute(samples.M5_LARGE, boot(), 20)
        self.assertEqual(("2", "29"), (total["cpu"], total["pods"]))
        self.assertEqual(8192 * 1024 * 9275 // 10000, kibibytes(total["memory"]))
        # 60m of the first core and 10m of the second; 11 MiB a pod, 255 MiB and 100 MiB for eviction.
        self.assertEqual("1930m", left["cpu"])
        self.assertEqual((11 * 29 + 255 + 100) * 1024, kibibytes(total["memory"]) - kibibytes(left["memory"]))
        disk = kibibytes(total["ephemeral-storage"]) * 1024
        self.assertLess(disk, 20 * 2**30)
        self.assertAlmostEqual(disk - 2**30 - disk / 10, int(left["ephemeral-storage"]), delta=1)

    def test_a_machine_may_show_less_memory_than_usual(self) -> None:
        usual, left = capacity.compute(samples.M5_LARGE, boot(), 20)
        small, small_left = capacity.compute(samples.M5_LARGE, boot(), 20, 97)
        self.assertEqual(kibibytes(usual["memory"]) * 97 // 100, kibibytes(small["memory"]))
        missing = kibibytes(usual["memory"]) - kibibytes(small["memory"])
        self.assertEqual(missing, kibibytes(left["memory"]) - kibibytes(small_left["memory"]))

    def test_the_visible_memory_is_above_the_estimate_of_the_autoscaler(self) -> None:
        # Else pods that were planned onto the node would not fit: it takes 7.5 % off, rounded up.
        for info in (samples.M5_LARGE, samples.M6G_LARGE, samples.P4D):
            with self.subTest(info["InstanceType"]):
                stated = info["MemoryInfo"]["SizeInMiB"] - (64 if "arm64" in info["ProcessorInfo"]["SupportedArchitectures"] else 0)
                estimate = stated - -(-stated * 75 // 1000)
                total, _ = capacity.compute(info, boot(), 20)
                self.assertGreaterEqual(kibibytes(total["memory"]), estimate * 1024)

    def test_max_pods_pods_per_core_and_family_decide_the_pods(self) -> None:
        pods = lambda b, info=samples.M5_LARGE: capacity.compute(info, b, 20)[0]["pods"]  # noqa: E731
        self.assertEqual("110", pods(boot(max_pods=110)))
        self.assertEqual("8", pods(boot(max_pods=110, pods_per_core=4)))
        self.assertEqual("110", pods(boot("Windows")))
        self.assertEqual("737", pods(boot(), samples.P4D))

    def test_given_reservations_replace_the_defaults_key_by_key(self) -> None:
        total, left = capacity.compute(
            samples.M5_LARGE,
            boot(kube_reserved={"cpu": "500m"}, system_reserved={"memory": "1Gi"}, eviction_hard={"memory.available": "10%"}),
            20,
        )
        self.assertEqual("1500m", left["cpu"])
        memory = kibibytes(total["memory"])
        self.assertAlmostEqual(memory - memory / 10 - (11 * 29 + 255) * 1024 - 2**20, kibibytes(left["memory"]), delta=1)

    def test_an_eviction_threshold_of_a_hundred_percent_is_off(self) -> None:
        total, left = capacity.compute(samples.M5_LARGE, boot(eviction_hard={"memory.available": "100%"}), 20)
        self.assertEqual((11 * 29 + 255) * 1024, kibibytes(total["memory"]) - kibibytes(left["memory"]))

    def test_raid0_counts_the_instance_disks(self) -> None:
        plain, _ = capacity.compute(samples.P4D, boot(), 20)
        raid, _ = capacity.compute(samples.P4D, boot(raid0=True), 20)
        self.assertLess(kibibytes(plain["ephemeral-storage"]), 20 * 2**20)
        self.assertGreater(kibibytes(raid["ephemeral-storage"]) * 1024, 7_900 * 10**9)

    def test_reserved_cpu_follows_the_bands(self) -> None:
        self.assertEqual([60, 70, 80, 90, 310], [capacity.reserved_cpu(n) for n in (1, 2, 4, 8, 96)])

    def test_devices_are_counted(self) -> None:
        self.assertEqual({"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 4}, capacity.devices(samples.P4D, 4))
        self.assertEqual({}, capacity.devices(samples.M5_LARGE, 0))


if __name__ == "__main__":
    unittest.main()
