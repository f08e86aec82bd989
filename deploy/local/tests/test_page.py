"""The live page is a process of the instance: started with its address, shown, and ended with the rest."""

import json
import tempfile
import unittest
import urllib.request
from collections import Counter
from pathlib import Path

from localstack import live, page, ports, process, report
from localstack.cluster import down
from localstack.failure import Failure
from localstack.paths import Instance
from localstack.processes import Cluster

# Serves its own arguments and environment, as the program does its page.
SERVES = """#!/usr/bin/env python3
import http.server, json, os, sys

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps([sys.argv[1:], dict(os.environ)]).encode())

host, port = sys.argv[-1].rsplit(":", 1)
http.server.HTTPServer((host, int(port)), Page).serve_forever()
"""
ENDS = "#!/bin/sh\necho find the cluster: no kubeconfig >&2\nexit 1\n"


class LivePage(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.instance = Instance(Path(home.name) / "instance")
        self.instance.create()
        self.programs = Path(home.name) / "bin"
        self.programs.mkdir()
        self.cluster = Cluster(self.instance, ports.of_cluster(self.instance), "blue")
        self.addCleanup(lambda: process.stop(self.instance, list(process.find_all(self.instance)), 0, kill=True))

    def program(self, text: str) -> str:
        path = self.programs / "kubectl-karpenter"
        path.write_text(text)
        path.chmod(0o755)
        return str(self.programs)

    def picture(self) -> str:
        return live.draw(self.cluster, live.Picture(0, Counter(), Counter(), []))

    def test_it_serves_on_loopback_and_its_address_is_shown_until_it_ends(self):
        url = page.start(self.cluster, self.program(SERVES))
        self.assertRegex(url, r"^http://127\.0\.0\.1:\d+/$")
        self.assertEqual(page.start(self.cluster, self.program(SERVES)), url, "a second one was started")
        self.assertIn(f"the live page:    {url}\n", self.picture())
        self.assertEqual([row["address"] for row in report.rows(self.instance)], [url])
        down(self.instance, lambda _: None)
        self.assertIsNone(page.address(self.instance))
        self.assertIn(f"ended, see {self.instance.log(page.NAME)}", self.picture())

    def test_it_opens_no_browser_and_sees_this_instance_only(self):
        url = page.start(self.cluster, self.program(SERVES))
        with urllib.request.urlopen(url) as answer:
            text = answer.read().decode()
        arguments, environment = json.loads(text)
        self.assertEqual(arguments[:2], ["ui", "--no-open"])
        self.assertEqual(environment["KUBECONFIG"], str(self.instance.kubeconfig))
        self.assertEqual(environment["JAEGER_URL"], self.cluster.url("jaeger"))
        self.assertFalse([name for name in environment if name.startswith(("GRPC_", "KARPENTER_"))])

    def test_a_page_that_does_not_come_says_why_and_leaves_nothing(self):
        with self.assertRaisesRegex(Failure, "live-page ended.*\n.*no kubeconfig"):
            page.start(self.cluster, self.program(ENDS))
        self.assertEqual(process.find_all(self.instance), {})
        (self.programs / "kubectl-karpenter").unlink()
        with self.assertRaisesRegex(Failure, "make build"):
            page.start(self.cluster, str(self.programs))


if __name__ == "__main__":
    unittest.main()
