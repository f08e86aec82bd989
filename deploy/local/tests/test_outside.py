"""What tools and people read: the environment file, trusted certificates, ports, prices, manifests."""

import os
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from localstack import api, environment, live, paths, ports, rights, services, settings
from localstack.paths import Instance
from localstack.process import Running
from localstack.processes import Cluster, without_foreign_settings

PORTS = {name: 20000 + index for index, name in enumerate(ports.CLUSTER)}
CLUSTER = Cluster(Instance(Path("/tmp/in stance")), PORTS, "blue")


def replica(service: str, number: int) -> Running:
    facts = {"service": service, "replica": number, "grpc": f"127.0.0.1:{number}1", "admin": f"127.0.0.1:{number}2"}
    return Running(f"{service}-{number}", 1, 1, "boot", facts)


class Environment(unittest.TestCase):
    def sourced(self, values: dict[str, str], name: str) -> str:
        script = environment.render(values) + f'printf %s "${name}"'
        return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout

    def test_a_shell_reads_back_what_was_written(self):
        values = {"A": "two words", "B": "it's $HOME `x`", "C": ""}
        for name, value in values.items():
            self.assertEqual(self.sourced(values, name), value)

    def test_every_promised_name_is_there(self):
        names = environment.variables(CLUSTER, [replica(each, 0) for each in settings.SERVICES], "secret")
        for name in (
            "KUBECONFIG AWS_ENDPOINT_URL AWS_REGION AWS_DEFAULT_REGION AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY CLUSTER_NAME "
            "INTERRUPTION_QUEUE JAEGER_URL OTEL_EXPORTER_OTLP_ENDPOINT AWS_CONTROL_URL GRPCURL GRPCURL_FLAGS "
            "GRPC_PROVISIONER ADMIN_PROVISIONER GRPC_INTERRUPTION_WATCHER ADMIN_PRICING_CACHE"
        ).split():
            self.assertTrue(names.get(name), name)
        self.assertEqual(names["CLUSTER_NAME"], "blue")

    def test_unquoted_grpcurl_flags_keep_the_header_in_one_word(self):
        values = environment.variables(CLUSTER, [], "secret")
        script = environment.render({"GRPCURL_FLAGS": values["GRPCURL_FLAGS"]}) + "printf '%s\\n' $GRPCURL_FLAGS"
        words = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertEqual(words[-2:], ["-H", "authorization:${GRPCURL_AUTHORIZATION}"])
        self.assertEqual(values["GRPCURL_AUTHORIZATION"], "Bearer secret")

    def test_the_first_running_replica_is_the_one_named(self):
        values = environment.variables(CLUSTER, [replica("termination", 3), replica("termination", 2)], None)
        self.assertEqual(values["GRPC_TERMINATION"], "127.0.0.1:21")
        self.assertNotIn("GRPC_PROVISIONER", values)

    def test_a_persons_own_cloud_and_cluster_are_hidden_from_what_is_started(self):
        os.environ["AWS_PROFILE"] = os.environ["KUBECONFIG"] = "mine"
        self.addCleanup(lambda: (os.environ.pop("AWS_PROFILE"), os.environ.pop("KUBECONFIG")))
        given = services.service_environment(CLUSTER, "disruption", 1, "127.0.0.1:1", "127.0.0.1:2")
        self.assertNotIn("AWS_PROFILE", given)
        self.assertTrue(given["KUBECONFIG"].endswith("/sa/disruption/kubeconfig"))
        self.assertEqual((given["POD_NAME"], given["GRPC_ADDR"]), ("disruption-1", "127.0.0.1:1"))
        self.assertEqual(without_foreign_settings({"PATH": "p", "OTEL_X": "y"}), {"PATH": "p"})

    def test_only_the_services_certificates_are_trusted(self):
        maps = [
            {"metadata": {"name": "karpenter-termination-trust"}, "data": {"b.pem": "B\n", "b.addr": "1:2", "a.pem": "A"}},
            {"metadata": {"name": "somebody-trust"}, "data": {"x.pem": "X"}},
            {"metadata": {"name": "karpenter-disruption-trust"}},
        ]
        self.assertEqual(environment.certificates_of(maps), "A\nB\n")


class Ports(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.reservations = Path(home.name)

    def test_two_choices_at_the_same_time_never_overlap(self):
        first, second = ports.choose(40, self.reservations), ports.choose(40, self.reservations)
        self.assertEqual(len({*first, *second}), 80)

    def test_a_port_in_use_is_not_free(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.assertFalse(ports.is_free(taken.getsockname()[1]))

    def test_an_old_reservation_can_be_taken_over(self):
        path = self.reservations / "20000"
        self.assertTrue(ports._reserve(path))
        self.assertFalse(ports._reserve(path))
        old = time.time() - ports.RESERVED_SECONDS - 1
        os.utime(path, (old, old))
        self.assertTrue(ports._reserve(path))

    def test_chosen_ports_are_below_those_of_outgoing_connections(self):
        low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        self.assertLessEqual(ports.RANGE.stop, low)


class Manifests(unittest.TestCase):
    def test_documents_are_found_with_what_their_address_needs(self):
        text = (
            "# intro\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n---\napiVersion: apps/v1\nkind: Deployment\n"
            "metadata:\n  labels:\n    name: not-this\n  name: \"b\"\n  namespace: c\nspec: {}\n---\n# nothing\n"
        )
        found = [(each.api_version, each.kind, each.name, each.namespace) for each in api.documents(text)]
        self.assertEqual(found, [("v1", "Namespace", "a", ""), ("apps/v1", "Deployment", "b", "c")])

    def test_all_our_manifests_are_readable(self):
        for path in api.files_below(paths.LOCAL / "manifests", paths.LOCAL / "manifests" / "demo"):
            with self.subTest(path.name):
                found = api.documents(path.read_text())
                self.assertTrue(found)
                self.assertTrue(all(each.name for each in found))

    def test_every_service_has_an_account_and_only_termination_may_evict(self):
        texts = {path.name: path.read_text() for path in api.files_below(paths.LOCAL / "manifests")}
        for service in settings.SERVICES:
            self.assertIn(f"name: karpenter-{service}\n", texts["00-accounts.yaml"])
        may = {
            service
            for service in settings.SERVICES
            for role in rights.objects(service)
            for rule in role.get("rules", [])
            if "pods/eviction" in rule["resources"]
        }
        self.assertEqual(may, {"termination"})


class LiveView(unittest.TestCase):
    def picture(self, *prices: int | None) -> live.Picture:
        nodes = [live.Node(f"n{i}", "m7g.large", "us-west-2a", "spot", True, False, each) for i, each in enumerate(prices)]
        return live.Picture(3, live.Counter(Running=3), live.Counter(Initialized=2), nodes)

    def test_prices_are_read_from_the_services_answer(self):
        answer = '{"prices": [{"offering": {"instanceType": "m7g.large", "zone": "us-west-2a", "capacityType": "CAPACITY_TYPE_ON_DEMAND", "microUsdPerHour": "81600"}}]}'
        self.assertEqual(live.parse_prices(answer), {("m7g.large", "us-west-2a", "on-demand"): 81600})
        self.assertEqual(live.parse_prices(""), {})

    def test_the_sum_is_unknown_when_one_price_is(self):
        self.assertEqual(self.picture(81600, 40000).dollars, "0.1216")
        self.assertEqual(self.picture(81600, None).dollars, "-")
        self.assertEqual(self.picture().dollars, "0.0000")

    def test_nodes_of_one_kind_are_one_row(self):
        drawn = live.draw(CLUSTER, self.picture(81600, 81600))
        self.assertRegex(drawn, r"\n +2  m7g\.large +us-west-2a +spot +0\.0816\n")
        self.assertIn("nodes 2, $/h 0.1632", live.line(self.picture(81600, 81600)))


if __name__ == "__main__":
    unittest.main()
