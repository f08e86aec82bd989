"""What `make release` checks before it builds, and what it writes."""

import contextlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest
from pathlib import Path
from unittest import mock

from localstack import paths

sys.path.insert(0, str(paths.REPOSITORY / "deploy" / "release"))
sys.path.insert(0, str(paths.REPOSITORY / "deploy" / "images"))
import bill  # noqa: E402
import charts  # noqa: E402
import checks  # noqa: E402
import cli  # noqa: E402
from failure import Failure  # noqa: E402

WIRE = "field a.M#00001 = name Optional String\nrpc a.S/Get = .a.M -> .a.M\n"


class Release(unittest.TestCase):
    """On a small checkout with one earlier release, v0.1.0."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        for each in ("Cargo.toml", "Cargo.lock", "LICENSE"):
            shutil.copy(paths.REPOSITORY / each, self.root / each)
        shutil.copytree(paths.REPOSITORY / "charts", self.root / "charts", symlinks=True)
        shutil.copytree(paths.REPOSITORY / "deploy/images", self.root / "deploy/images")
        (self.root / "deploy/docs").mkdir()
        self.changelog = self.root / checks.CHANGELOG
        self.changelog.write_text("# Changelog\n\n## 0.1.0\nFirst version.\n")
        self.wire = self.root / checks.WIRE
        self.wire.parent.mkdir(parents=True)
        self.wire.write_text(WIRE)
        self.version("0.1.0")
        self.git("init", "-q")
        self.commit()
        self.git("tag", "v0.1.0")

    def git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
        subprocess.run(["git", "-C", str(self.root), *identity, *arguments], check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Change")

    def version(self, version: str) -> None:
        subprocess.run([str(self.root / "deploy/images/version"), "--set", version], check=True)

    def check(self, version: str, strict: bool = False) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            checks.release(self.root, version, strict)

    def prepared(self) -> None:
        self.version("0.2.0")
        self.changelog.write_text("# Changelog\n\n## 0.2.0\n**Do this** first.\n\n## 0.1.0\nFirst version.\n")

    def refused(self, pattern: str, strict: bool = False) -> None:
        with self.assertRaisesRegex(Failure, pattern):
            self.check("0.2.0", strict)

    def test_a_version_is_set_in_every_place_at_once(self):
        self.version("0.2.0")
        self.assertEqual(bill.version(self.root), "0.2.0")
        for chart in (self.root / "charts").rglob("Chart.yaml"):
            self.assertIn("version: 0.2.0", chart.read_text(), chart)
            self.assertNotIn("0.1.0", chart.read_text(), chart)
        packages = tomllib.loads((self.root / "Cargo.lock").read_text())["package"]
        before = tomllib.loads((paths.REPOSITORY / "Cargo.lock").read_text())["package"]
        for old, new in zip(before, packages, strict=True):
            self.assertEqual(new["version"], old["version"] if "source" in old else "0.2.0", new["name"])

    def test_a_version_that_is_none_changes_nothing(self):
        done = subprocess.run([str(self.root / "deploy/images/version"), "--set", "next"], capture_output=True, text=True)
        self.assertEqual((done.returncode, bill.version(self.root)), (1, "0.1.0"))

    def test_a_prepared_release_passes(self):
        self.prepared()
        self.wire.write_text(WIRE + "field a.M#00002 = zone Optional String\n")
        self.commit()
        self.check("0.2.0", strict=True)
        self.assertEqual(checks.notes(self.root, "0.2.0"), "**Do this** first.\n")

    def test_another_version_than_cargo_has_is_refused_with_the_command(self):
        self.refused("deploy/images/version --set 0.2.0")

    def test_a_release_without_changelog_is_refused(self):
        self.version("0.2.0")
        self.refused("no section `## 0.2.0`")

    def test_publishing_with_uncommitted_changes_is_refused(self):
        self.prepared()
        self.refused("uncommitted", strict=True)
        self.check("0.2.0")

    def test_a_field_that_is_removed_retyped_or_renumbered_since_the_last_release_is_refused(self):
        self.prepared()
        for changed in (
            "rpc a.S/Get = .a.M -> .a.M\n",
            WIRE.replace("String", "Int64"),
            WIRE.replace("#00001", "#00002"),
            "field a.M#00001 = name Optional String\n",
        ):
            self.wire.write_text(changed)
            self.refused("not wire-compatible with v0.1.0")

    def test_archives_are_equal_for_equal_programs_and_krew_has_their_checksums(self):
        program = self.root / "program"
        program.write_bytes(b"program")
        sums = []
        for attempt in ("1", "2"):
            out = self.root / attempt
            out.mkdir()
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                written = cli.archives(self.root, "0.1.0", {"darwin-arm64": program}, out, build=False)
            program.touch()
            sums.append(cli.krew("0.1.0", "https://example.com/v0.1.0/", written))
        self.assertEqual(sums[0], sums[1])
        self.assertIn("uri: https://example.com/v0.1.0/kubectl-karpenter-0.1.0-darwin-arm64.tar.gz", sums[0])
        self.assertIn("matchLabels: {os: darwin, arch: arm64}", sums[0])
        self.assertIn("skipped kubectl-karpenter for linux-amd64", printed.getvalue())
        with tarfile.open(written["darwin-arm64"]) as archive:
            self.assertEqual(archive.getnames(), ["LICENSE", "kubectl-karpenter"])
            self.assertEqual(archive.getmember("kubectl-karpenter").mode, 0o755)

    def test_an_archive_that_is_too_large_is_refused(self):
        program = self.root / "program"
        program.write_bytes(b"program")
        with mock.patch.object(cli, "LARGEST", 10), self.assertRaisesRegex(Failure, "MB"):
            cli.pack(program, self.root / "LICENSE", self.root / "out.tar.gz")

    def test_a_program_for_an_unknown_platform_is_refused(self):
        with self.assertRaisesRegex(Failure, "OS-ARCH"):
            cli.given(["windows-amd64=x"])

    def test_the_links_of_the_chart_lead_to_crds_alerts_and_dashboards(self):
        chart = paths.REPOSITORY / "charts/karpenter"
        crds = {path.name for path in (chart / "crds").glob("*.yaml")}
        self.assertTrue({"nodepools.yaml", "nodeclaims.yaml", "ec2nodeclasses.yaml"} <= crds, crds)
        self.assertTrue(any((chart / "files/alerts").glob("*.rules.yaml")))
        self.assertTrue(any((chart / "files/dashboards").glob("*.json")))

    def test_charts_of_a_release_name_its_registry(self):
        values = self.root / "charts/karpenter/values.yaml"
        charts.set_registry(values, "registry.example/team")
        self.assertIn("\n    registry: registry.example/team\n", values.read_text())
        with self.assertRaises(Failure):
            charts.set_registry(values, "again")


if __name__ == "__main__":
    unittest.main()
