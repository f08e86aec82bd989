"""Builds what is missing, once, one after the other. A stamp beside each result says what it was
built from; as long as that is unchanged no compiler runs again."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from . import files, paths
from .components import COMPONENTS, Component
from .failure import Failure

PINNED = ("go.mod", "go.sum", "main.go", "tools.go")
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def source_key(component: Component, local: Path = paths.LOCAL) -> str:
    """Digest of everything in the checkout that decides what the result is."""
    digest = hashlib.sha256()
    for text in (component.name, component.version, component.package, component.linker_flags):
        digest.update(text.encode() + b"\0")
    inputs = [local / component.module / name for name in PINNED] if component.module else [REQUIREMENTS]
    for path in inputs:
        digest.update(path.name.encode() + b"\0")
        digest.update(path.read_bytes() if path.exists() else b"")
        digest.update(b"\0")
    return digest.hexdigest()[:32]


def is_current(component: Component, compiler: str | None, cache: Path | None = None, local: Path = paths.LOCAL) -> bool:
    """`compiler` None means: do not ask which compiler is installed, any result of these sources will do."""
    cache = cache or paths.cache()
    result = cache / "venv" / "bin" / "python" if not component.module else cache / "bin" / component.name
    stamp = files.read(cache / "stamps" / component.name)
    if stamp is None or not result.exists():
        return False
    try:
        recorded = json.loads(stamp)
    except ValueError:
        return False
    return recorded.get("source") == source_key(component, local) and compiler in (None, recorded.get("compiler"))


def missing(names: Iterable[str]) -> list[Component]:
    return [COMPONENTS[name] for name in names if not is_current(COMPONENTS[name], None)]


def build(names: Iterable[str], say: Callable[[str], None] = print, exact: bool = True) -> None:
    """Bring the named components up to date. With `exact`, a changed compiler is a reason to build."""
    wanted = [_known(name) for name in names]
    compilers = {True: _go_version() if exact else None, False: _python_version() if exact else None}
    if all(is_current(each, compilers[bool(each.module)]) for each in wanted):
        return
    cache = paths.cache()
    with files.locked(cache / "build.lock", lambda: say("another build is running in this cache: waiting for it")):
        # Asked again: the build that was waited for may have made them.
        stale = [each for each in wanted if not is_current(each, compilers[bool(each.module)])]
        if not stale:
            return
        _require_tools(stale)
        total = sum(each.minutes for each in stale)
        say(f"building {len(stale)} component(s) into {cache}, about {total:.0f} min on two free cores with cold caches")
        for position, component in enumerate(stale, 1):
            label = f"[{position}/{len(stale)}] {component.name} {component.version}"
            if component.module:
                _build_go(component, label, say)
                recorded = _go_version()
            else:
                _build_venv(label, component, say)
                recorded = _python_version()
            stamp = {"source": source_key(component), "compiler": recorded}
            files.replace(cache / "stamps" / component.name, json.dumps(stamp) + "\n")


def _known(name: str) -> Component:
    if name not in COMPONENTS:
        raise Failure(f"no component {name!r}; there are: {', '.join(COMPONENTS)}", 64)
    return COMPONENTS[name]


def _require_tools(stale: list[Component]) -> None:
    absent = []
    if any(each.module for each in stale) and not shutil.which("go"):
        absent.append("go (1.26 or newer; Debian: apt install golang-go from backports, or https://go.dev/dl)")
    if not shutil.which("openssl"):
        absent.append("openssl (Debian: apt install openssl)")
    if any(not each.module for each in stale):
        probe = subprocess.run([sys.executable, "-c", "import venv, ensurepip"], capture_output=True)
        if probe.returncode:
            absent.append("Python's venv (Debian: apt install python3-venv)")
    if absent:
        raise Failure("missing on this machine:\n  " + "\n  ".join(absent), 69)


def _go_version() -> str | None:
    if not shutil.which("go"):
        return None
    # Asked inside a module, because a go.mod may select another toolchain than the installed one.
    answer = subprocess.run(["go", "env", "GOVERSION"], cwd=paths.LOCAL / "kube", capture_output=True, text=True)
    return answer.stdout.strip() or None


def _python_version() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _build_go(component: Component, label: str, say: Callable[[str], None]) -> None:
    bin_dir = paths.cache() / "bin"
    bin_dir.mkdir(parents=True, exist_ok=True)
    partial = bin_dir / f".{component.name}.{os.getpid()}"
    command = [
        "go", "build", "-mod=readonly", "-buildvcs=false", "-trimpath",
        "-ldflags", f"-s -w {component.linker_flags}".strip(), "-o", str(partial), component.package,
    ]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    try:
        _run(label, component, command, paths.LOCAL / component.module, environment, say)
        os.replace(partial, bin_dir / component.name)
    finally:
        partial.unlink(missing_ok=True)
    for link in component.links:
        temporary = bin_dir / f".{link}.{os.getpid()}"
        temporary.symlink_to(component.name)
        os.replace(temporary, bin_dir / link)


def _build_venv(label: str, component: Component, say: Callable[[str], None]) -> None:
    """Scripts in an environment name its path, so each version has its own and `venv` points to it."""
    cache = paths.cache()
    cache.mkdir(parents=True, exist_ok=True)
    home = cache / f"venv-{source_key(component)[:12]}"
    _run(label, component, [sys.executable, "-m", "venv", "--clear", str(home)], cache, dict(os.environ), say)
    install = [
        str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--require-hashes", "-r", str(REQUIREMENTS),
    ]
    _run(label, component, install, cache, dict(os.environ), say)
    link = cache / "venv"
    if link.is_dir() and not link.is_symlink():
        # Somebody made it by hand; programs may be running from it, so it goes only after the new one is there.
        link.rename(cache / f"venv-replaced-{os.getpid()}")
    temporary = cache / f".venv.{os.getpid()}"
    temporary.symlink_to(home.name)
    os.replace(temporary, link)
    for old in cache.glob("venv-*"):
        if old != home:
            shutil.rmtree(old, ignore_errors=True)


def _run(
    label: str, component: Component, command: list[str], directory: Path, environment: dict[str, str],
    say: Callable[[str], None],
) -> None:
    began = time.monotonic()
    log = paths.cache() / "log" / f"build-{component.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    say(f"{label}: {command[0].rsplit('/', 1)[-1]} {command[1]} (about {component.minutes:g} min)")
    with open(log, "w") as out:
        child = subprocess.Popen(command, cwd=directory, env=environment, stdout=out, stderr=subprocess.STDOUT)
        try:
            while True:
                try:
                    code = child.wait(timeout=30)
                    break
                except subprocess.TimeoutExpired:
                    say(f"{label}: {time.monotonic() - began:.0f} s so far, about {component.minutes * 60:.0f} s expected")
        except BaseException:
            child.terminate()
            child.wait()
            raise
    if code:
        raise Failure(f"{label}: `{' '.join(command[:3])}` ended with {code}; {log} ends with:\n{files.tail(log)}")
    say(f"{label}: done in {time.monotonic() - began:.0f} s")
