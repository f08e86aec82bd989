"""Where things are: the checkout, the cache that outlives it, and one instance's directory."""

import os
from dataclasses import dataclass
from pathlib import Path

LOCAL = Path(__file__).resolve().parent.parent
REPOSITORY = LOCAL.parent.parent


def cache() -> Path:
    """Built programs live here, outside the checkout, so that a fresh clone starts quickly."""
    if explicit := os.environ.get("KARPENTER_CACHE"):
        return Path(explicit).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "karpenter"


def program(name: str) -> Path:
    return cache() / "bin" / name


def python() -> Path:
    """The interpreter of the environment that holds moto and boto3."""
    return cache() / "venv" / "bin" / "python"


def service_binaries() -> Path:
    """Where our programs are started from: another build than cargo's debug one is named with KARPENTER_BIN_DIR."""
    if named := os.environ.get("KARPENTER_BIN_DIR"):
        return Path(named).absolute()
    target = os.environ.get("CARGO_TARGET_DIR")
    return (Path(target).absolute() if target else cache() / "target") / "debug"


@dataclass(frozen=True)
class Instance:
    """One complete stack. Everything it writes is under `dir`, so several run side by side."""

    dir: Path

    @classmethod
    def at(cls, directory: str | None) -> "Instance":
        return cls(Path(directory).absolute() if directory else REPOSITORY / ".local")

    @property
    def pki(self) -> Path:
        return self.dir / "pki"

    @property
    def logs(self) -> Path:
        return self.dir / "log"

    @property
    def pids(self) -> Path:
        return self.dir / "pid"

    @property
    def state(self) -> Path:
        return self.dir / "state"

    @property
    def kubeconfig(self) -> Path:
        return self.dir / "kubeconfig"

    @property
    def environment(self) -> Path:
        return self.dir / "env"

    @property
    def trust(self) -> Path:
        return self.dir / "trust.pem"

    def account(self, name: str) -> Path:
        return self.dir / "sa" / name

    def log(self, process: str) -> Path:
        return self.logs / f"{process}.log"

    def create(self) -> None:
        for each in (self.pki, self.logs, self.pids, self.state, self.dir / "config", self.dir / "sa"):
            each.mkdir(parents=True, exist_ok=True)
        # Keys and tokens are below: nobody else on the machine needs them.
        self.dir.chmod(0o700)
