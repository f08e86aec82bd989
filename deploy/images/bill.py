"""The bill of materials (CycloneDX 1.5) of what the images hold: every crate in Cargo.lock, with version and checksum."""

import json
import tomllib
from pathlib import Path

OUR_LICENCE = [{"license": {"id": "Apache-2.0"}}]


def version(root: Path) -> str:
    return tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def materials(root: Path, tag: str) -> str:
    """Development dependencies are in the lock file too: a crate that is listed may be in no image, none is missing."""
    packages = tomllib.loads((root / "Cargo.lock").read_text())["package"]
    ours = [each for each in packages if "source" not in each]
    theirs = [each for each in packages if "source" in each]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "karpenter", "version": tag, "bom-ref": "karpenter", "licenses": OUR_LICENCE},
        },
        "components": [_component(each) for each in theirs],
        "dependencies": [{"ref": "karpenter", "dependsOn": sorted(_reference(each) for each in theirs)}],
        "properties": [{"name": "workspace crates", "value": ", ".join(sorted(each["name"] for each in ours))}],
    }
    return json.dumps(document, indent=1) + "\n"


def _reference(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def _component(package: dict) -> dict:
    purl = _reference(package)
    component = {"type": "library", "name": package["name"], "version": package["version"], "purl": purl, "bom-ref": purl}
    if checksum := package.get("checksum"):
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return component
