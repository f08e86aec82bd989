"""How `cases` reads catalogues and tests."""

import importlib.machinery
import importlib.util
import unittest
from pathlib import Path

_loader = importlib.machinery.SourceFileLoader("cases", str(Path(__file__).parent / "cases"))
_spec = importlib.util.spec_from_loader(_loader.name, _loader)
cases = importlib.util.module_from_spec(_spec)
_loader.exec_module(cases)


class Catalogues(unittest.TestCase):
    def test_words_with_numbers_ranges_and_lists(self):
        text = "# About REP-9\n- REP-1 One.\n- REP-2 Two. REP-3 Three.\nMore: BAL-4..6 and BAL-9/11.\n"
        expected = ["REP-1", "REP-2", "REP-3", "BAL-4", "BAL-5", "BAL-6", "BAL-9", "BAL-11"]
        self.assertEqual(cases.listed(text), expected)

    def test_items_numbered_below_headings(self):
        text = "1. Not in a section.\n### A.1 Batching\n1. One.\n2–3. Two.\n4, 6. Four.\n## K. More\n1. One.\n"
        expected = [f"SCH-A.1-{number}" for number in (1, 2, 3, 4, 6)] + ["SCH-K-1"]
        self.assertEqual(cases.listed(text), expected)


class Tests(unittest.TestCase):
    def test_a_comment_names_what_a_test_asserts(self):
        text = "    // Cases: REP-6, SCH-A.1-3\n    #[test]\n# Cases: BAL-1\n// Case: REP-7\n"
        self.assertEqual(cases.cited(text), {"REP-6", "SCH-A.1-3", "BAL-1"})

    def test_what_concerns_the_reference_alone_is_no_gap(self):
        known = {"A-2": ("elsewhere", "a fixture"), "A-3": ("untested", "nobody looked")}
        verdict = cases.judge(["A-1", "A-2", "A-3", "A-4"], {"A-1"}, known)
        self.assertEqual((verdict["covered"], verdict["elsewhere"], verdict["unknown"]), (1, 1, 1))
        self.assertEqual(verdict["percent_of_ours"], 33.3)

    def test_every_reason_is_of_a_known_kind(self):
        kinds = {kind for kind, _ in cases.reasons(cases.NOT_TESTED.read_text()).values()}
        self.assertLessEqual(kinds, {"elsewhere", "not-built", "untested"})

    def test_no_case_is_both_tested_and_said_not_to_be(self):
        known, tested = cases.reasons(cases.NOT_TESTED.read_text()), cases.cited_in(cases.ROOT)
        self.assertEqual(sorted(tested & known.keys()), [])


if __name__ == "__main__":
    unittest.main()
