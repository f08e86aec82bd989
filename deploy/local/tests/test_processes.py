"""Processes are found again, stopped whole, and never mistaken for others."""

import json
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from localstack import files, paths, process
from localstack.paths import Instance
from localstack.processes import with_pod_grace

SLEEP = ["sleep", "600"]


class Processes(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.instance = Instance(Path(home.name))
        self.instance.create()
        self.addCleanup(lambda: process.stop(self.instance, list(process.find_all(self.instance)), 0, kill=True))

    def record(self) -> Path:
        return self.instance.state / "one.process"

    def test_a_started_process_is_found_by_a_later_command(self):
        started = process.start(self.instance, "one", SLEEP, facts={"port": 7})
        found = process.find(self.instance, "one")
        self.assertEqual((found.pid, found.facts), (started.pid, {"port": 7}))
        self.assertEqual((self.instance.pids / "one").read_text(), f"{started.pid}\n")

    def test_output_goes_to_the_log_and_a_restart_appends(self):
        for word in ("first", "second"):
            process.start(self.instance, "one", ["sh", "-c", f"echo {word}; echo {word} >&2"])
            self.assertTrue(files.until(lambda: process.find(self.instance, "one") is None, 30))
        self.assertEqual(self.instance.log("one").read_text().split(), ["first", "first", "second", "second"])

    def test_an_ended_process_is_not_found_though_nobody_reaped_it(self):
        started = process.start(self.instance, "one", ["true"])
        self.assertTrue(files.until(lambda: process.birth(started.pid) is None, 30))
        self.assertIsNone(process.find(self.instance, "one"))

    def test_a_stranger_with_the_recorded_pid_is_neither_found_nor_killed(self):
        stranger = subprocess.Popen(SLEEP, start_new_session=True)
        self.addCleanup(lambda: (stranger.kill(), stranger.wait()))
        record = {"pid": stranger.pid, "born": process.birth(stranger.pid) - 1, "boot": process.boot_id(), "facts": {}}
        self.record().write_text(json.dumps(record))
        self.assertIsNone(process.find(self.instance, "one"))
        self.assertEqual(process.stop(self.instance, ["one"], 0), [])
        self.assertIsNone(stranger.poll())
        self.assertFalse(self.record().exists())

    def test_a_record_of_a_former_boot_is_not_believed(self):
        stranger = subprocess.Popen(SLEEP, start_new_session=True)
        self.addCleanup(lambda: (stranger.kill(), stranger.wait()))
        record = {"pid": stranger.pid, "born": process.birth(stranger.pid), "boot": "another", "facts": {}}
        self.record().write_text(json.dumps(record))
        process.stop(self.instance, ["one"], 0, kill=True)
        self.assertIsNone(stranger.poll())

    def test_a_torn_record_is_as_good_as_none(self):
        self.record().write_text('{"pid": 1')
        self.assertIsNone(process.find(self.instance, "one"))

    def test_a_process_that_ignores_the_signal_is_killed_after_its_grace_period(self):
        started = process.start(self.instance, "one", ["sh", "-c", "trap '' TERM; echo set; while :; do sleep 1; done"])
        self.assertTrue(files.until(lambda: "set" in self.instance.log("one").read_text(), 30))
        self.assertEqual(process.stop(self.instance, ["one"], 0.2), ["one"])
        self.assertIsNone(process.birth(started.pid))
        self.assertEqual(process.exit_code(started), -signal.SIGKILL)

    def test_children_go_with_their_parent(self):
        process.start(self.instance, "one", ["sh", "-c", "sleep 600 & echo $!; wait"])
        self.assertTrue(files.until(lambda: self.instance.log("one").read_text().strip() != "", 30))
        child = int(self.instance.log("one").read_text())
        process.stop(self.instance, ["one"], 5)
        self.assertTrue(files.until(lambda: process.birth(child) is None, 30))

    def test_stopping_leaves_neither_record_nor_pid_file(self):
        process.start(self.instance, "one", SLEEP)
        process.stop(self.instance, ["one"], 5)
        self.assertEqual(list(self.instance.pids.iterdir()) + list(self.instance.state.iterdir()), [])

    def test_a_command_with_brackets_and_blanks_in_its_name_is_read_right(self):
        odd = self.instance.dir / "a) Z 1 (b"
        odd.symlink_to("/bin/sleep")
        started = process.start(self.instance, "one", [str(odd), "600"])
        self.assertGreaterEqual(started.born, process.birth(os.getpid()))
        self.assertEqual(process.find(self.instance, "one"), started)


class PodGrace(unittest.TestCase):
    def test_pods_are_deleted_late_unless_they_ask_otherwise(self):
        stages = (paths.LOCAL / "kwok" / "stages.yaml").read_text()
        turned = with_pod_grace(stages)
        use, no = 'annotations["localstack/use-grace"]', 'annotations["localstack/no-grace"]'
        self.assertIn(f"{use}', operator: DoesNotExist", stages)
        self.assertNotIn(use, turned)
        at_once = turned.split("name: pod-delete\n")[1].split("---")[0]
        late = turned.split("name: pod-delete-after-grace\n")[1]
        self.assertIn(f"{no}', operator: Exists", at_once)
        self.assertIn(f"{no}', operator: DoesNotExist", late)


if __name__ == "__main__":
    unittest.main()