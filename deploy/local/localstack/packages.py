"""Debian packages that a test or the real node needs beside what we build ourselves."""

import os
import shutil
import subprocess
from collections.abc import Callable

from .failure import Failure

# The exit code by which tests say "skipped".
SKIPPED = 77


def install(absent: list[str], say: Callable[[str], None]) -> None:
    if not absent:
        return
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise Failure(f"missing on this machine: {', '.join(absent)}", SKIPPED)
    say(f"installing {', '.join(absent)}")
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *absent]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        # A fresh image has no package lists.
        subprocess.run(["apt-get", "update", "-q"], capture_output=True, env=environment)
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise Failure(f"apt-get could not install {', '.join(absent)}:\n{done.stderr.strip()[-600:]}", SKIPPED)


def promtool(say: Callable[[str], None]) -> None:
    """Checks and tests of alert rules. The package's server is not started."""
    if not shutil.which("promtool"):
        install(["prometheus"], say)
