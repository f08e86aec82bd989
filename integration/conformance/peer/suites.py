"""The suites: which packages they are, how each is built from the module cache and run."""

import json
import os
import string
import subprocess
import sys
from pathlib import Path

from localstack import paths

HERE = Path(__file__).resolve().parent.parent
AWS = "github.com/aws/karpenter-provider-aws"
CORE = "sigs.k8s.io/karpenter"
PACKAGES = {
    "performance": f"{CORE}/test/suites/performance",
    "regression": f"{CORE}/test/suites/regression",
    **{
        name: f"{AWS}/test/suites/{name}"
        for name in ("ami", "consolidation", "drift", "integration", "interruption", "nodeclaim", "storage")
    },
    "scheduling-besteffort": f"{AWS}/test/suites/scheduling-besteffort",
    "scheduling-strict": f"{AWS}/test/suites/scheduling-strict",
}
# For a whole suite; a spec that never ends would else keep the machine.
TIMEOUT = os.environ.get("CONFORMANCE_TIMEOUT", "3h")


def build(name: str) -> Path:
    """Nothing is copied: Go compiles the test package where the module cache has it."""
    program = paths.cache() / "conformance" / f"{name}.test"
    program.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -mod=readonly".strip()}
    program.unlink(missing_ok=True)
    print(f"building {PACKAGES[name]}", file=sys.stderr, flush=True)
    subprocess.run(["go", "test", "-c", "-o", str(program), PACKAGES[name]], cwd=HERE, env=environment, check=True)
    # Go compiles a package without tests without a word, and without a program.
    if not program.exists():
        raise SystemExit(f"{PACKAGES[name]} has no tests")
    return program


def module_directory(module: str) -> Path:
    found = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", module], cwd=HERE, capture_output=True, text=True, check=True,
        env={**os.environ, "GOFLAGS": "-mod=readonly"},
    )
    return Path(found.stdout.strip())


def defaults(cluster_name: str, into: Path) -> list[str]:
    """The NodePool and the EC2NodeClass that the provider's own Makefile gives the core's suite."""
    directory = module_directory(AWS) / "test" / "pkg" / "environment" / "aws"
    flags = []
    for flag, file in (("--default-nodeclass", "default_ec2nodeclass.yaml"), ("--default-nodepool", "default_nodepool.yaml")):
        written = into / file
        written.write_text(string.Template((directory / file).read_text()).substitute(CLUSTER_NAME=cluster_name))
        flags.append(f"{flag}={written}")
    return flags


def run(program: Path, name: str, cluster, focus: str, skipped: list[str]) -> list[dict]:
    """The reports of all specs, as ginkgo writes them."""
    result = cluster.directory / f"{name}.json"
    log = cluster.directory / f"{name}.log"
    flags = [f"--ginkgo.json-report={result}", f"--ginkgo.timeout={TIMEOUT}", "--ginkgo.no-color", "-test.timeout=0"]
    flags += [f"--ginkgo.skip={text}" for text in skipped]
    if focus:
        flags.append(f"--ginkgo.focus={focus}")
    if PACKAGES[name].startswith(CORE):
        flags += defaults(cluster.environment["CLUSTER_NAME"], cluster.directory)
    print(f"running {name}; its output goes to {log}", file=sys.stderr, flush=True)
    with log.open("w") as output:
        subprocess.run(
            [str(program), *flags], cwd=cluster.directory, stdout=output, stderr=subprocess.STDOUT,
            env={**os.environ, **cluster.environment}, check=False,
        )
    if not result.exists():
        raise SystemExit(f"suite {name} ended before its first spec; {log} ends with:\n{tail(log)}")
    return [spec for suite in json.loads(result.read_text()) for spec in suite.get("SpecReports") or []]


def tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
