"""EC2's request limits as an account has them by default: a bucket of tokens a category of actions, shared by all callers."""

from __future__ import annotations

import fnmatch
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

# Patterns of actions, bucket size, tokens a second. The first that matches decides.
DEFAULTS: tuple[tuple[tuple[str, ...], float, float], ...] = (
    (("CreateFleet", "RunInstances"), 50, 5),
    (("TerminateInstances", "StartInstances", "StopInstances"), 100, 5),
    (("CreateTags", "DeleteTags"), 100, 10),
    (("CreateLaunchTemplate", "DeleteLaunchTemplate"), 50, 5),
    (("Describe*", "Get*"), 100, 20),
    (("*",), 50, 5),
)


@dataclass
class Bucket:
    patterns: tuple[str, ...]
    size: float
    rate: float
    tokens: float = field(default=0)
    refilled: float = 0

    def take(self, now: float) -> bool:
        self.tokens = min(self.size, self.tokens + (now - self.refilled) * self.rate)
        self.refilled = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class Rates:
    """Full buckets at the start, refilled at this share of EC2's rate; `clock` counts seconds."""

    def __init__(self, share: float = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self.share, self._clock, self._lock = share, clock, threading.Lock()
        now = clock()
        self._buckets = [Bucket(patterns, size, rate * share, size, now) for patterns, size, rate in DEFAULTS]

    def allows(self, action: str) -> bool:
        with self._lock:
            for bucket in self._buckets:
                if any(fnmatch.fnmatchcase(action, pattern) for pattern in bucket.patterns):
                    return bucket.take(self._clock())
        return True
