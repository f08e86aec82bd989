"""When a component is built again, and when not."""

import json
import tempfile
import unittest
from pathlib import Path

from localstack import build
from localstack.components import COMPONENTS, EVERYTHING, NEEDED, Component

TOOL = Component("tool", "v1", "tool", "example.com/tool", 1)


class Stamps(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.local, self.cache = Path(home.name) / "local", Path(home.name) / "cache"
        (self.local / "tool").mkdir(parents=True)
        (self.cache / "bin").mkdir(parents=True)
        (self.cache / "stamps").mkdir()
        (self.local / "tool" / "go.mod").write_text("module tool\n")
        (self.local / "tool" / "go.sum").write_text("")
        self.built("go1.26.0")

    def built(self, compiler: str) -> None:
        (self.cache / "bin" / "tool").write_text("program")
        stamp = {"source": build.source_key(TOOL, self.local), "compiler": compiler}
        (self.cache / "stamps" / "tool").write_text(json.dumps(stamp))

    def current(self, component: Component = TOOL, compiler: str | None = "go1.26.0") -> bool:
        return build.is_current(component, compiler, self.cache, self.local)

    def test_nothing_changed_means_no_build(self):
        self.assertTrue(self.current())

    def test_a_changed_checksum_file_means_a_build(self):
        (self.local / "tool" / "go.sum").write_text("example.com/tool v1 h1:other=\n")
        self.assertFalse(self.current())

    def test_a_new_source_file_means_a_build(self):
        (self.local / "tool" / "main.go").write_text("package main\n")
        self.assertFalse(self.current())

    def test_text_that_moves_from_one_file_to_the_next_is_a_change(self):
        before = build.source_key(TOOL, self.local)
        (self.local / "tool" / "go.mod").write_text("")
        (self.local / "tool" / "go.sum").write_text("module tool\n")
        self.assertNotEqual(before, build.source_key(TOOL, self.local))

    def test_another_version_or_linker_flag_means_a_build(self):
        self.assertFalse(self.current(Component("tool", "v2", "tool", "example.com/tool", 1)))
        self.assertFalse(self.current(Component("tool", "v1", "tool", "example.com/tool", 1, "-X a=b")))

    def test_another_compiler_means_a_build_only_when_it_is_asked_for(self):
        self.assertFalse(self.current(compiler="go1.27.0"))
        self.assertTrue(self.current(compiler=None))

    def test_a_lost_program_or_a_torn_stamp_means_a_build(self):
        (self.cache / "stamps" / "tool").write_text('{"sour')
        self.assertFalse(self.current())
        self.built("go1.26.0")
        (self.cache / "bin" / "tool").unlink()
        self.assertFalse(self.current())


class Table(unittest.TestCase):
    def test_every_module_of_the_table_is_pinned_and_checksummed(self):
        for component in COMPONENTS.values():
            # Ours has no version and no dependency.
            if component.module and component.name != "pause":
                with self.subTest(component.name):
                    module = (build.paths.LOCAL / component.module / "go.mod").read_text()
                    self.assertTrue((build.paths.LOCAL / component.module / "go.sum").stat().st_size)
                    self.assertIn(component.version, module)

    def test_every_python_package_is_pinned_with_checksums(self):
        lines = build.REQUIREMENTS.read_text().splitlines()
        packages = [line for line in lines if line and not line.startswith((" ", "#"))]
        self.assertTrue(any(line.startswith("moto[") for line in packages))
        for line in packages:
            self.assertRegex(line, r"^[A-Za-z0-9._-]+(\[[a-z,]+\])?==\S+ \\$")
        self.assertNotIn("http", build.REQUIREMENTS.read_text())

    def test_the_default_set_is_part_of_everything(self):
        self.assertLess(set(NEEDED), set(EVERYTHING))


if __name__ == "__main__":
    unittest.main()
