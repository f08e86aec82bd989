"""EC2's default request limits, on a clock of its own."""

from __future__ import annotations

import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from localaws.rates import Rates  # noqa: E402


class DefaultRates(unittest.TestCase):
    def setUp(self) -> None:
        self.now = 0.0
        self.rates = Rates(1, lambda: self.now)

    def allowed(self, action: str, calls: int) -> int:
        return sum(self.rates.allows(action) for _ in range(calls))

    def test_a_bucket_is_full_at_first_and_fills_at_its_rate(self) -> None:
        self.assertEqual(100, self.allowed("DescribeInstances", 150))
        self.now += 2
        self.assertEqual(40, self.allowed("DescribeInstances", 150))

    def test_actions_of_a_category_share_a_bucket_and_others_do_not(self) -> None:
        self.assertEqual(100, self.allowed("DescribeInstances", 100))
        self.assertEqual(0, self.allowed("DescribeSubnets", 1))
        self.assertEqual(50, self.allowed("CreateFleet", 60))
        self.assertEqual(50, self.allowed("ModifyInstanceAttribute", 60))

    def test_a_bucket_never_holds_more_than_its_size(self) -> None:
        self.now += 3600
        self.assertEqual(100, self.allowed("CreateTags", 500))


if __name__ == "__main__":
    unittest.main()
