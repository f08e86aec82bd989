"""What must hold before anything is built: one version everywhere, a changelog entry, and contracts that only grew since the last release."""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "images"))

import bill  # noqa: E402
from failure import Failure  # noqa: E402

CHANGELOG = "deploy/docs/changelog.md"
WIRE = "proto/tests/wire.txt"


def release(root: Path, version: str, strict: bool) -> None:
    if version != bill.version(root):
        raise Failure(f"VERSION is {version}, Cargo.toml has {bill.version(root)}: run deploy/images/version --set {version}")
    subprocess.run([str(root / "deploy/images/version"), "--check"], check=True)
    notes(root, version)
    changed = git(root, "status", "--porcelain").strip()
    if changed and strict:
        raise Failure(f"uncommitted changes; a release is made from a commit:\n{changed}")
    if last := last_release(root, version):
        if broken := lost(git(root, "show", f"{last}:{WIRE}"), (root / WIRE).read_text()):
            raise Failure(f"not wire-compatible with {last}: services are upgraded one at a time and would not understand each other:\n" + "\n".join(broken))
        print(f"wire-compatible with {last}")
    else:
        print("no earlier release to compare the contracts with")


def notes(root: Path, version: str) -> str:
    """The changelog's section about this version."""
    text = (root / CHANGELOG).read_text()
    section = re.search(rf"(?ms)^## {re.escape(version)}\b.*?$\n(.*?)(?=^## |\Z)", text)
    if not section or not section[1].strip():
        raise Failure(f"{CHANGELOG} has no section `## {version}`")
    return section[1].strip() + "\n"


def lost(released: str, now: str) -> list[str]:
    """Lines of the released contracts that are gone or different."""
    present = set(now.splitlines())
    return [line for line in released.splitlines() if line and line not in present]


def last_release(root: Path, version: str) -> str:
    """The newest tag that is not the one being made; empty when there is none."""
    tags = git(root, "tag", "--list", "v[0-9]*", "--merged", "HEAD", "--sort=-version:refname").split()
    return next((tag for tag in tags if tag != f"v{version}"), "")


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
