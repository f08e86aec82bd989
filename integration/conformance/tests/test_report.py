import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "deploy" / "local")]

from peer import report, stand_in  # noqa: E402


def spec(text: str, state: str, message: str = "") -> dict:
    return {"LeafNodeType": "It", "ContainerHierarchyTexts": ["Drift"], "LeafNodeText": text, "State": state,
            "RunTime": 2_000_000_000, "Failure": {"Message": message}}


CAUSE = report.Cause("drift", "never ends", "local AWS", "it cannot")


class Judging(unittest.TestCase):
    def test_every_spec_is_passed_explained_or_named(self):
        specs = [spec("works", "passed"), spec("never ends", "failed"), spec("breaks", "failed", "expected 1\nto be 2"),
                 spec("unasked", "skipped"), {"LeafNodeType": "BeforeSuite", "State": "passed"}]
        row = report.judge("drift", specs, [CAUSE])
        self.assertEqual((row.specs, row.passed, row.seconds, row.not_asked), (4, 1, 8, 1))
        self.assertEqual(row.explained, {CAUSE: 1})
        self.assertEqual(row.unexplained, ["Drift breaks: expected 1"])

    def test_a_cause_of_another_suite_explains_nothing(self):
        row = report.judge("ami", [spec("never ends", "failed")], [CAUSE])
        self.assertEqual(len(row.unexplained), 1)

    def test_a_run_replaces_its_own_rows_between_the_marks(self):
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "RESULTS.md"
            file.write_text(f"before\n{report.BEGIN}\n| ami | 3 |\n| drift | 1 |\n{report.END}\nafter\n")
            report.write("| suite | specs |\n|---|---|\n| drift | 2 |", file)
            table = "| suite | specs |\n|---|---|\n| ami | 3 |\n| drift | 2 |"
            self.assertEqual(file.read_text(), f"before\n{report.BEGIN}\n{table}\n{report.END}\nafter\n")

    def test_the_committed_causes_can_be_read(self):
        self.assertGreater(len(report.read_causes()), 3)


class StandIn(unittest.TestCase):
    def test_the_deployments_environment_is_what_services_get(self):
        deployment = next(body for _, body in stand_in.objects() if body["kind"] == "Deployment")
        self.assertEqual(stand_in.environment_of(deployment), stand_in.SETTINGS)

    def test_the_newest_running_pod_leads(self):
        def pod(name: str, phase: str, created: str, **more: str) -> dict:
            return {"metadata": {"name": name, "creationTimestamp": created, **more}, "status": {"phase": phase}}

        pods = [pod("old", "Running", "1"), pod("new", "Running", "2"), pod("next", "Pending", "3"),
                pod("gone", "Running", "4", deletionTimestamp="5")]
        self.assertEqual(stand_in.newest_running(pods), "new")
        self.assertIsNone(stand_in.newest_running([]))


if __name__ == "__main__":
    unittest.main()
