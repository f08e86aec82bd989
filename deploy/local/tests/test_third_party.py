"""Tools that people run beside Karpenter: every metric that they ask for and that Karpenter 1.14 serves is in the reference of metrics,
which is generated from the code.

The names are facts about those tools, written down here; `integration/tests/install/queries.rs` asks a Prometheus the board's queries.
"""

import re
import unittest

from localstack import paths

DOCS = paths.REPOSITORY / "deploy"

GRAFANA_BOARD_20398 = """
karpenter_nodepools_limit karpenter_nodepools_usage karpenter_nodes_allocatable karpenter_nodes_total_daemon_limits
karpenter_nodes_total_daemon_requests karpenter_nodes_total_pod_limits karpenter_nodes_total_pod_requests karpenter_pods_state
"""

# Of the Datadog integration's list. Counters are listed without `_total`.
DATADOG = """
karpenter_build_info karpenter_cloudprovider_batcher_batch_size karpenter_cloudprovider_batcher_batch_time_seconds
karpenter_cloudprovider_duration_seconds karpenter_cloudprovider_errors karpenter_cloudprovider_instance_type_cpu_cores
karpenter_cloudprovider_instance_type_memory_bytes karpenter_cluster_state_node_count karpenter_cluster_state_synced
karpenter_interruption_deleted_messages karpenter_interruption_received_messages karpenter_nodeclaims_created
karpenter_nodeclaims_disrupted karpenter_nodeclaims_terminated karpenter_nodes_allocatable karpenter_nodes_created
karpenter_nodes_system_overhead karpenter_nodes_terminated karpenter_nodes_total_daemon_limits karpenter_nodes_total_daemon_requests
karpenter_nodes_total_pod_limits karpenter_nodes_total_pod_requests karpenter_pods_state
process_cpu_seconds process_max_fds process_open_fds process_resident_memory_bytes process_start_time_seconds
process_virtual_memory_bytes
"""
# Also on that list, and renamed by Karpenter 1.0, which serves them as little; but these two are served here for older boards.
OLDER = "karpenter_disruption_consolidation_timeouts karpenter_provisioner_scheduling_duration_seconds"

HEADLAMP = """
karpenter_nodeclaims_created_total karpenter_nodepools_allowed_disruptions karpenter_nodepools_limit karpenter_nodepools_usage
karpenter_pods_state operator_nodeclaim_status_condition_transition_seconds
"""


def documented() -> set[str]:
    text = (DOCS / "docs/reference/metrics.md").read_text() + (DOCS / "observability/README.md").read_text()
    return set(re.findall(r"^\| `([a-z_0-9*]+)", text, re.MULTILINE))


class ThirdParty(unittest.TestCase):
    def check(self, names: str):
        known = documented()
        self.assertGreater(len(known), 100)
        for name in names.split():
            family = name.split("_")[0] + "_*"
            with self.subTest(metric=name):
                self.assertTrue({name, f"{name}_total", family} & known, f"{name} is not in deploy/docs/reference/metrics.md")

    def test_the_grafana_board_20398_finds_its_metrics(self):
        self.check(GRAFANA_BOARD_20398)

    def test_the_datadog_integration_finds_its_metrics(self):
        self.check(DATADOG)
        self.check(OLDER)

    def test_the_headlamp_plugin_finds_its_metrics(self):
        self.check(HEADLAMP)


if __name__ == "__main__":
    unittest.main()
