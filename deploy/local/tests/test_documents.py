"""Pages for people: links and paths lead somewhere, commands are shell, parameters exist, the references are up to date."""

import os
import re
import subprocess
import unittest
from pathlib import Path

from localstack import paths

ROOT = paths.REPOSITORY
CRATES = {path.parent.name: path.parent / "src" for path in (ROOT / "services").rglob("Cargo.toml")}
# `kind` is what a test of the page goes by, such as `aws`.
FENCED = re.compile(r"^```sh ?(?P<kind>\w*)\n(?P<script>.*?)^```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    found = []
    for directory, below, files in os.walk(ROOT):
        below[:] = [name for name in below if name not in (".git", ".local", "target")]
        found += [Path(directory) / name for name in files if name.endswith(".md")]
    return sorted(found)


def headings(page: Path) -> set[str]:
    """Anchors as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def packages() -> set[str]:
    manifests = (path.read_text() for path in ROOT.rglob("Cargo.toml") if ".local" not in path.parts)
    return {found[1] for text in manifests if (found := re.search(r'^\[package\]\nname = "([^"]+)"', text, re.MULTILINE))}


class Documents(unittest.TestCase):
    def test_every_package_that_cargo_is_given_exists(self):
        """Also where no test runs the command: releases and workflows."""
        files = [*pages(), ROOT / "Makefile", *(ROOT / ".github").rglob("*.yml"), *(ROOT / "deploy/release").glob("*.py")]
        named = re.compile(r"""(?:cargo [^\n`]*?|")(?:-p|--exclude)(?:", "| )([a-z][\w-]*)""")
        given = {(file.relative_to(ROOT), name) for file in files for name in named.findall(file.read_text())}
        self.assertGreater(len(given), 4)
        self.assertEqual([], sorted(each for each in given if each[1] not in packages()))

    def test_every_link_leads_to_a_file_and_its_heading(self):
        broken = []
        for page in pages():
            for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                file = (page.parent / path).resolve() if path else page
                if not file.exists() or (anchor and anchor not in headings(file)):
                    broken.append(f"{page.relative_to(ROOT)}: {target}")
        self.assertEqual(broken, [])

    def test_every_path_of_the_code_map_exists(self):
        readme = (ROOT / "README.md").read_text()
        page = (ROOT / "deploy/docs/code-map.md").read_text()
        rows = [line for line in (readme[readme.index("## Code map") :] + page).splitlines() if line.startswith("|")]
        self.assertGreater(len(rows), 50)
        missing = []
        for row in rows:
            for path in re.findall(r"`([\w./<>*-]+)`", "|".join(row.split("|")[1:3])):
                if "/" in path and not self.exists(path):
                    missing.append(path)
        self.assertEqual(missing, [])

    def exists(self, path: str) -> bool:
        """A path of the checkout, or `crate/module`, with or without `.rs`; `<service>` and `<kind>` stand for any."""
        pattern = re.sub(r"<\w+>", "*", path.rstrip("/"))
        first, _, rest = pattern.partition("/")
        places = [(ROOT, pattern)] + ([(CRATES[first], rest)] if first in CRATES else [])
        return any(any(place.glob(found)) for place, name in places for found in (name, f"{name}.rs"))

    def test_every_command_is_shell(self):
        for page in pages():
            for block in FENCED.finditer(page.read_text()):
                with self.subTest(page=str(page.relative_to(ROOT)), script=block["script"]):
                    checked = subprocess.run(["bash", "-n"], input=block["script"], capture_output=True, text=True)
                    self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_files_that_commands_name_exist(self):
        missing = []
        for page in pages():
            for block in FENCED.finditer(page.read_text()):
                named = re.findall(r"(?<![\w/.])((?:charts|deploy|services|integration)/[\w./-]+)", block["script"])
                missing += [f"{page.relative_to(ROOT)}: {each}" for each in named if not (ROOT / each.rstrip(".")).exists()]
        self.assertEqual(missing, [])

    def test_parameters_of_the_stack_exist(self):
        template = (ROOT / "deploy/aws/cloudformation.yaml").read_text()
        known = set(re.findall(r"^  (\w+):", template.split("Parameters:")[1].split("\nConditions:")[0], re.MULTILINE))
        self.assertIn("ClusterName", known)
        for page in pages():
            for given in re.findall(r"--parameter-overrides((?: (?:\\\n\s*)?\w+=\S+)+)", page.read_text()):
                for name in re.findall(r"(\w+)=", given):
                    self.assertIn(name, known, page)

    def test_references_are_up_to_date(self):
        done = subprocess.run([str(ROOT / "deploy/docs/reference/generate"), "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
