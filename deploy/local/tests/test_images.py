"""Images as files: what `deploy/images/build` writes."""

import io
import json
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

from localstack import paths

sys.path.insert(0, str(paths.REPOSITORY / "deploy" / "images"))
import bill  # noqa: E402
import oci  # noqa: E402


def blob(archive: Path, digest: str) -> bytes:
    with tarfile.open(archive) as tar:
        return tar.extractfile(f"blobs/sha256/{digest.removeprefix('sha256:')}").read()


def index(archive: Path) -> dict:
    with tarfile.open(archive) as tar:
        return json.load(tar.extractfile("index.json"))


class Images(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.home = Path(self.directory.name)
        self.program = self.home / "karpenter-termination"
        self.program.write_bytes(b"program")
        self.program.chmod(0o755)

    def tearDown(self):
        self.directory.cleanup()

    def content(self, architecture: str) -> oci.Content:
        return oci.Content("/karpenter-termination", {"/karpenter-termination": self.program}, architecture)

    def test_equal_programs_give_an_equal_image_whenever_it_is_made(self):
        first = oci.write("a:1", [self.content("amd64")], self.home / "1.tar", compress=True)
        self.program.touch()
        second = oci.write("a:1", [self.content("amd64")], self.home / "2.tar", compress=True)
        self.assertEqual(first, second)
        self.assertEqual((self.home / "1.tar").read_bytes(), (self.home / "2.tar").read_bytes())

    def test_several_architectures_are_an_index_of_images(self):
        out = self.home / "both.tar"
        oci.write("a:1", [self.content("amd64"), self.content("arm64")], out)
        top = index(out)["manifests"][0]
        self.assertEqual(top["mediaType"], "application/vnd.oci.image.index.v1+json")
        listed = json.loads(blob(out, top["digest"]))["manifests"]
        self.assertEqual([each["platform"]["architecture"] for each in listed], ["amd64", "arm64"])

    def test_the_program_runs_as_nobody_and_is_all_there_is(self):
        out = self.home / "one.tar"
        oci.write("a:1", [self.content("amd64")], out)
        manifest = json.loads(blob(out, index(out)["manifests"][0]["digest"]))
        config = json.loads(blob(out, manifest["config"]["digest"]))
        self.assertEqual(config["config"]["User"], "65532:65532")
        with tarfile.open(fileobj=io.BytesIO(blob(out, manifest["layers"][0]["digest"]))) as layer:
            self.assertEqual(layer.getnames(), ["karpenter-termination"])
            self.assertEqual(layer.getmembers()[0].mode, 0o755)

    def test_a_program_that_needs_libraries_is_refused(self):
        self.program.unlink()
        self.program.symlink_to("/bin/sh")
        command = [str(paths.REPOSITORY / "deploy/images/build"), "--bin-dir", str(self.home), "--service", "termination"]
        done = subprocess.run([*command, "--out", str(self.home / "out")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("not static", done.stderr)

    def test_the_bill_of_materials_names_every_crate_with_its_checksum(self):
        listed = json.loads(bill.materials(paths.REPOSITORY, "1"))["components"]
        names = {each["name"] for each in listed}
        self.assertTrue({"kube", "tonic", "aws-sdk-ec2"} <= names)
        self.assertNotIn("solver", names)
        self.assertTrue(all(each.get("hashes") for each in listed))


if __name__ == "__main__":
    unittest.main()
