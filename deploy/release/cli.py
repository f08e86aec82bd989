"""kubectl-karpenter for four platforms: archives, and the manifest by which krew installs it."""

import gzip
import hashlib
import io
import os
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path

from failure import Failure

PROGRAM = "kubectl-karpenter"
LARGEST = 25_000_000
TARGETS = {
    "linux-amd64": "x86_64-unknown-linux-gnu",
    "linux-arm64": "aarch64-unknown-linux-gnu",
    "darwin-amd64": "x86_64-apple-darwin",
    "darwin-arm64": "aarch64-apple-darwin",
}


def here() -> str:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{platform.system().lower()}-{machine}"


def given(pairs: list[str]) -> dict[str, Path]:
    programs = {}
    for pair in pairs:
        name, sep, path = pair.partition("=")
        if not sep or name not in TARGETS:
            raise Failure(f"--cli {pair}: write OS-ARCH=FILE with one of {', '.join(TARGETS)}")
        if not Path(path).is_file():
            raise Failure(f"--cli {pair}: there is no such file")
        programs[name] = Path(path)
    return programs


def archives(root: Path, version: str, programs: dict[str, Path], out: Path, build: bool) -> dict[str, Path]:
    """One archive per platform that has a program or can be built here; the others are named with the reason."""
    written = {}
    for name, target in TARGETS.items():
        program = programs.get(name)
        if not program:
            if reason := unable(name, target) if build else "--no-build, and no --cli for it":
                print(f"skipped {PROGRAM} for {name}: {reason}")
                continue
            program = dist(root, name, ["-p", "karpenter-cli", "--bin", PROGRAM]) / PROGRAM
        written[name] = out / f"{PROGRAM}-{version}-{name}.tar.gz"
        pack(program, root / "LICENSE", written[name])
    return written


def unable(name: str, target: str) -> str:
    """Why this machine cannot build for the platform; empty when it can."""
    if not shutil.which("cargo"):
        return "cargo is missing"
    if name == here():
        return ""
    if name.startswith("darwin") and not here().startswith("darwin"):
        return "needs Apple's SDK; build it on macOS and pass --cli"
    installed = subprocess.run(["rustup", "target", "list", "--installed"], capture_output=True, text=True).stdout if shutil.which("rustup") else ""
    if target not in installed.split():
        return f"run `rustup target add {target}`"
    if name == "linux-arm64" and not shutil.which("aarch64-linux-gnu-gcc"):
        return "no linker: install gcc-aarch64-linux-gnu"
    return ""


def dist(root: Path, name: str, selection: list[str]) -> Path:
    """Builds with the profile of the images, static on Linux; returns the directory of the programs."""
    target = TARGETS[name]
    environment = dict(os.environ)
    if name.startswith("linux"):
        environment["RUSTFLAGS"] = "-C target-feature=+crt-static"
    if name == "linux-arm64" and name != here():
        environment["CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER"] = "aarch64-linux-gnu-gcc"
    command = ["cargo", "build", "--locked", "--profile", "dist", "--target", target, *(selection or ["--workspace", "--bins"])]
    subprocess.run(command, check=True, cwd=root, env=environment)
    return Path(environment.get("CARGO_TARGET_DIR") or root / "target") / target / "dist"


def pack(program: Path, licence: Path, out: Path) -> None:
    """Equal programs give equal archives: no times, no owners."""
    stripped = out.with_suffix(".program")
    # `strip` of another platform's program fails; those were stripped where they were built.
    if not shutil.which("strip") or subprocess.run(["strip", "-o", str(stripped), str(program)], capture_output=True).returncode:
        shutil.copyfile(program, stripped)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, name, mode in ((licence, "LICENSE", 0o644), (stripped, PROGRAM, 0o755)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = path.stat().st_size, mode
            archive.addfile(entry, io.BytesIO(path.read_bytes()))
    out.write_bytes(gzip.compress(buffer.getvalue(), 9, mtime=0))
    stripped.unlink()
    if out.stat().st_size > LARGEST:
        raise Failure(f"{out.name} has {out.stat().st_size / 1e6:.1f} MB; at most {LARGEST / 1e6:.0f} are allowed")


def krew(version: str, url: str, written: dict[str, Path]) -> str:
    """Empty when nothing could be downloaded by it."""
    if not url or not written:
        return ""
    lines = [
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2",
        "kind: Plugin",
        "metadata:",
        "  name: karpenter",
        "spec:",
        f"  version: v{version}",
        "  shortDescription: Plan, explain and check node autoscaling",
        "  description: |",
        "    Shows why a pod is pending, why a node stays, what nodes cost, what a drain waits for,",
        "    and checks an installation of the node autoscaler. Also plans without a cluster.",
        "  platforms:",
    ]
    for name, archive in written.items():
        system, architecture = name.split("-")
        lines += [
            f"  - selector: {{matchLabels: {{os: {system}, arch: {architecture}}}}}",
            f"    uri: {url.rstrip('/')}/{archive.name}",
            f"    sha256: {hashlib.sha256(archive.read_bytes()).hexdigest()}",
            f"    bin: {PROGRAM}",
        ]
    return "\n".join(lines) + "\n"
