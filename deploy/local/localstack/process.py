"""Background processes of one instance: started in sessions of their own, found again by later
commands, and never confused with a stranger that got the same pid."""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from . import files
from .paths import Instance


@dataclass(frozen=True)
class Running:
    """A process as it was when started. `born` (clock ticks since boot) and `boot` make the pid unambiguous."""

    name: str
    pid: int
    born: int
    boot: str
    facts: dict

    def alive(self) -> bool:
        return self.boot == boot_id() and birth(self.pid) == self.born


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def birth(pid: int) -> int | None:
    """When the process started, or None if there is none or it is only waiting to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command, in brackets, may hold anything: fields are counted from its last bracket.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def start(
    instance: Instance, name: str, command: list[str], environment: dict[str, str] | None = None,
    facts: dict | None = None, directory: Path | None = None,
) -> Running:
    """Start `command` with its output appended to the log. `facts` are remembered with it."""
    with open(instance.log(name), "ab") as log:
        child = subprocess.Popen(
            command, env=environment if environment is not None else dict(os.environ), cwd=directory or instance.dir,
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )
    _children[child.pid] = child
    running = Running(name, child.pid, birth(child.pid) or 0, boot_id(), facts or {})
    record = {"pid": running.pid, "born": running.born, "boot": running.boot, "facts": running.facts}
    files.replace(_record(instance, name), json.dumps(record) + "\n")
    # The plain pid alone, for people and scripts.
    files.replace(instance.pids / name, f"{running.pid}\n")
    return running


# Children of this very command must be waited for, or they stay as zombies while it runs.
_children: dict[int, subprocess.Popen] = {}
_codes: dict[int, int] = {}


def reap() -> None:
    for pid, child in list(_children.items()):
        if child.poll() is not None:
            _codes[pid] = child.returncode
            del _children[pid]


def exit_code(running: Running) -> int | None:
    """Of a process that this command started and that has ended; None otherwise."""
    reap()
    return _codes.get(running.pid)


def _record(instance: Instance, name: str) -> Path:
    return instance.state / f"{name}.process"


def find(instance: Instance, name: str) -> Running | None:
    """The recorded process if it is still that process and alive."""
    text = files.read(_record(instance, name))
    if text is None:
        return None
    try:
        record = json.loads(text)
        running = Running(name, record["pid"], record["born"], record["boot"], record["facts"])
    except (ValueError, KeyError):
        return None
    reap()
    return running if running.alive() else None


def find_all(instance: Instance) -> dict[str, Running]:
    names = sorted(path.stem for path in instance.state.glob("*.process"))
    return {name: found for name in names if (found := find(instance, name))}


def forget(instance: Instance, name: str) -> None:
    _record(instance, name).unlink(missing_ok=True)
    (instance.pids / name).unlink(missing_ok=True)


def stop(instance: Instance, names: list[str], grace: float, kill: bool = False) -> list[str]:
    """End the named processes together and wait until they are gone; returns those that ran.

    After `grace` seconds (at once with `kill`) the whole session is killed, so that no child of theirs stays."""
    targets = [found for name in names if (found := find(instance, name))]
    for each in targets:
        _signal(each, signal.SIGKILL if kill else signal.SIGTERM)
    deadline = time.monotonic() + (0 if kill else grace)
    while any(each.alive() for each in targets) and time.monotonic() < deadline:
        time.sleep(0.02)
        reap()
    for each in targets:
        _signal(each, signal.SIGKILL)
    files.until(lambda: reap() or not any(each.alive() for each in targets), 10)
    for name in names:
        forget(instance, name)
    return [each.name for each in targets]


def _signal(target: Running, number: signal.Signals) -> None:
    # A leader that is gone may leave children in its group; the group's number cannot be reused while they live.
    try:
        if target.alive():
            os.killpg(target.pid, number)
        elif number == signal.SIGKILL and _group_is_ours(target):
            os.killpg(target.pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _group_is_ours(target: Running) -> bool:
    """True when members of the session that the target led are left, and the pid has no new owner."""
    return target.boot == boot_id() and birth(target.pid) is None
