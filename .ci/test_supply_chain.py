"""What .ci/supply-chain decides by itself: licences, names, duplicates, and what is said where advisories cannot be looked up."""

import importlib.machinery
import importlib.util
import unittest
from pathlib import Path
from unittest import mock

_loader = importlib.machinery.SourceFileLoader("supply_chain", str(Path(__file__).parent / "supply-chain"))
_spec = importlib.util.spec_from_loader(_loader.name, _loader)
supply_chain = importlib.util.module_from_spec(_spec)
_loader.exec_module(supply_chain)


def report(*found: tuple[str, str]) -> dict:
    listed = [
        {
            "package": {"name": name, "version": "1.0.0"}, "advisory": {"id": number, "title": "reads too far"},
            "versions": {"patched": [">=1.0.1"], "unaffected": []},
        }
        for name, number in found
    ]  # fmt: skip
    return {"vulnerabilities": {"found": bool(listed), "list": listed}, "warnings": {"unmaintained": [{}]}}


class Licences(unittest.TestCase):
    def test_any_side_of_or_and_every_side_of_and_must_be_allowed(self):
        licences = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]
        for expression, expected in (
            ("MIT", True),
            ("GPL-3.0", False),
            ("", False),
            ("MIT OR GPL-3.0", True),
            ("GPL-3.0 OR MIT", True),
            ("GPL-3.0/MIT", True),
            ("MIT AND ISC", True),
            ("MIT AND GPL-3.0", False),
            # AND binds more closely.
            ("GPL-3.0 AND MIT OR ISC", True),
            ("GPL-3.0 AND (MIT OR ISC)", False),
            ("(MIT OR GPL-3.0) AND ISC", True),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", True),
            ("Apache-2.0", False),
            ("MIT WITH LLVM-exception", False),
            # Not an expression.
            ("MIT ISC", False),
            ("MIT OR", False),
            ("MIT AND", False),
            ("(MIT", False),
            ("MIT)", False),
        ):
            with self.subTest(expression):
                self.assertEqual(supply_chain.allowed(expression, licences), expected)


class Names(unittest.TestCase):
    def test_a_package_without_the_prefix_is_named(self):
        [found] = supply_chain.names([{"name": "karpenter-model"}, {"name": "solver"}])
        self.assertIn("karpenter-solver", found)

    def test_a_crate_of_another_source_is_named(self):
        ours, theirs = {"name": "a", "version": "1"}, {"name": "b", "version": "2", "source": "git+https://example.com/b"}
        [found] = supply_chain.sources([ours, theirs, {"name": "c", "version": "3", "source": supply_chain.CRATES_IO}])
        self.assertIn("b 2 comes from git+https://example.com/b", found)


class Duplicates(unittest.TestCase):
    def test_more_versions_than_allowed_are_named_and_so_is_an_allowance_that_is_not_needed(self):
        locked = [{"name": "rand", "version": "0.8"}, {"name": "rand", "version": "0.9"}, {"name": "sha1", "version": "1"}]
        with mock.patch.dict(supply_chain.RULES, duplicates={"sha1": 2}):
            found = supply_chain.duplicates(locked)
        self.assertEqual(len(found), 2)
        self.assertIn("rand is there in versions 0.8, 0.9; 1 allowed", found[0])
        self.assertIn("duplicates allows 2 versions of sha1", found[1])
        with mock.patch.dict(supply_chain.RULES, duplicates={"rand": 2}):
            self.assertEqual(supply_chain.duplicates(locked), [])


class Advisories(unittest.TestCase):
    def looked_up(self, *answers: dict | str) -> tuple[list[str], str, list[list[str]]]:
        asked, left = [], list(answers)

        def ask(options: list[str]) -> dict | str:
            asked.append(options)
            return left.pop(0)

        with mock.patch.object(supply_chain.shutil, "which", return_value="/bin/cargo-audit"):
            return *supply_chain.advisories(ask), asked

    def test_one_that_applies_is_named_with_its_remedy_and_a_warning_is_not(self):
        found, how, _ = self.looked_up(report(("ring", "RUSTSEC-2026-0001")))
        self.assertEqual(found, ["ring 1.0.0: RUSTSEC-2026-0001 reads too far (fixed in >=1.0.1)"])
        self.assertIn("newest", how)
        self.assertEqual(self.looked_up(report())[0], [])

    def test_offline_the_last_database_serves_and_without_one_nothing_fails(self):
        found, how, asked = self.looked_up("could not resolve host", report(("ring", "RUSTSEC-2026-0001")))
        self.assertEqual((len(found), asked), (1, [[], ["--no-fetch"]]))
        self.assertIn("could not resolve host", how)
        found, how, _ = self.looked_up("could not resolve host", "no database")
        self.assertEqual(found, [])
        self.assertRegex(how, "^skipped, .*could not resolve host$")

    def test_a_machine_without_the_program_says_so(self):
        with mock.patch.object(supply_chain.shutil, "which", return_value=None):
            found, how = supply_chain.advisories()
        self.assertEqual(found, [])
        self.assertIn("cargo-audit is not installed", how)


if __name__ == "__main__":
    unittest.main()
