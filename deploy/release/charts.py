"""The three charts as packages, with the registry of the release as the default of `controller.image.registry`."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from failure import Failure

CHARTS = ("karpenter", "karpenter-crd", "karpenter-nodepool")


def package(root: Path, version: str, registry: str, out: Path, push: bool) -> list[str]:
    """Writes the packages; pushed charts are returned by name and digest."""
    helm = program()
    pushed = []
    with tempfile.TemporaryDirectory() as directory:
        # Symbolic links (CRDs, alerts, dashboards) become the files themselves.
        sources = Path(directory)
        for name in CHARTS:
            shutil.copytree(root / "charts" / name, sources / name)
        if registry:
            set_registry(sources / "karpenter/values.yaml", registry)
        for name in CHARTS:
            subprocess.run([helm, "package", str(sources / name), "--destination", str(out)], check=True, stdout=subprocess.DEVNULL)
            if push:
                archive = out / f"{name}-{version}.tgz"
                done = subprocess.run([helm, "push", str(archive), f"oci://{registry}"], check=True, capture_output=True, text=True)
                digest = re.search(r"sha256:[0-9a-f]{64}", done.stdout + done.stderr)
                if not digest:
                    raise Failure(f"helm push of {archive.name} printed no digest: {done.stdout}{done.stderr}")
                pushed.append(f"{registry}/{name}@{digest[0]}")
    return pushed


def set_registry(values: Path, registry: str) -> None:
    text, count = re.subn(r'(?m)^(    registry: )""$', rf'\g<1>{registry}', values.read_text())
    if count != 1:
        raise Failure("charts/karpenter/values.yaml has no line `registry: \"\"` under controller.image")
    values.write_text(text)


def program() -> str:
    """helm from the PATH, else the one that `make stack` builds."""
    cache = os.environ.get("KARPENTER_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "karpenter"
    built = Path(cache) / "bin/helm"
    if found := shutil.which("helm") or (str(built) if built.exists() else ""):
        return found
    raise Failure("helm is missing: install it, or run `deploy/local/stack build helm`")
