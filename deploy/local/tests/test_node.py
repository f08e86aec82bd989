"""The real node's parts that can be checked without being root."""

import asyncio
import hashlib
import json
import os
import tarfile
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from localstack import forward, kubelet, node, ports, remains
from localstack.kubelet import oci
from localstack.failure import Failure
from localstack.paths import Instance
from localstack.processes import Cluster

SAVED = """*filter
:INPUT ACCEPT [1:2]
:MINE - [0:0]
:KUBE-FIREWALL - [0:0]
-A INPUT -j KUBE-FIREWALL
-A INPUT -p tcp -m tcp --dport 22 -j MINE
-A KUBE-FIREWALL -j DROP
COMMIT
*nat
:POSTROUTING ACCEPT [0:0]
:CNI-0123456789abcdef - [0:0]
-A POSTROUTING -s 10.245.0.2/32 -m comment --comment "name: \\"localstack\\" id: \\"1\\"" -j CNI-0123456789abcdef
COMMIT
"""


class Remains(unittest.TestCase):
    def test_the_machines_own_packet_filter_rules_stay(self):
        kept = remains.without_kubernetes(SAVED).splitlines()
        self.assertEqual(
            kept,
            [
                "*filter", ":INPUT ACCEPT [1:2]", ":MINE - [0:0]", "-A INPUT -p tcp -m tcp --dport 22 -j MINE", "COMMIT",
                "*nat", ":POSTROUTING ACCEPT [0:0]", "COMMIT",
            ],
        )

    def test_without_root_it_says_so_and_skips(self):
        with mock.patch("os.geteuid", return_value=1000), self.assertRaises(Failure) as raised:
            kubelet._check_machine()
        self.assertEqual(raised.exception.code, 77)
        self.assertIn("root", str(raised.exception))


class Images(unittest.TestCase):
    def test_an_image_names_its_blobs_by_their_digests_and_starts_the_program(self):
        with tempfile.TemporaryDirectory() as home:
            program, extra, out = Path(home, "app"), Path(home, "data.txt"), Path(home, "image.tar")
            program.write_bytes(b"#!program")
            program.chmod(0o755)
            extra.write_text("data")
            oci.pack("localhost/app:1", program, {"/etc/app/data.txt": extra}, out)
            with tarfile.open(out) as archive:
                blobs = {each.name: archive.extractfile(each).read() for each in archive.getmembers()}
            index = json.loads(blobs["index.json"])
            self.assertEqual(index["manifests"][0]["annotations"]["io.containerd.image.name"], "localhost/app:1")
            manifest = json.loads(self.blob(blobs, index["manifests"][0]))
            config = json.loads(self.blob(blobs, manifest["config"]))
            self.assertEqual(config["config"]["Entrypoint"], ["/app"])
            layer = Path(home, "layer.tar")
            layer.write_bytes(self.blob(blobs, manifest["layers"][0]))
            with tarfile.open(layer) as files:
                self.assertEqual(sorted(files.getnames()), ["app", "etc", "etc/app", "etc/app/data.txt"])
                self.assertEqual(files.getmember("app").mode, 0o755)

    def blob(self, blobs: dict[str, bytes], reference: dict) -> bytes:
        data = blobs["blobs/" + reference["digest"].replace(":", "/")]
        self.assertEqual((hashlib.sha256(data).hexdigest(), len(data)), (reference["digest"][7:], reference["size"]))
        return data

    def test_a_dynamic_program_brings_its_libraries(self):
        names = [os.path.basename(each) for each in oci.linked_libraries(Path("/bin/sh"))]
        self.assertTrue(any(name.startswith(("libc.", "ld-musl")) for name in names), names)


class Configuration(unittest.TestCase):
    def test_only_pods_that_ask_for_it_land_on_the_real_node(self):
        with tempfile.TemporaryDirectory() as home:
            cluster = Cluster(Instance(Path(home)), {name: 1 for name in ports.CLUSTER})
            written = node.write_configuration(cluster, node.Ports(1, 2, 3, 4), Path("/usr/lib/cni"))
            self.assertEqual(json.loads((written / "kubelet.json").read_text())["registerWithTaints"][0]["effect"], "NoSchedule")
            for path in written.rglob("*"):
                if path.suffix in (".json", ".conflist", ".kubeconfig"):
                    json.loads(path.read_text())


class Forwarding(unittest.TestCase):
    def test_bytes_pass_both_ways_and_ends_are_passed_on(self):
        async def scenario() -> bytes:
            async def upper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.write((await reader.read()).upper())
                await writer.drain()
                writer.close()

            behind = await asyncio.start_server(upper, "127.0.0.1", 0)
            port = behind.sockets[0].getsockname()[1]
            front = await asyncio.start_server(forward._to(port), "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*front.sockets[0].getsockname())
            writer.write(b"hello")
            writer.write_eof()
            answer = await reader.read()
            writer.close()
            front.close()
            behind.close()
            return answer

        self.assertEqual(asyncio.run(scenario()), b"HELLO")


if __name__ == "__main__":
    unittest.main()
