"""What a test switches on: shortage of capacity, latency, throttling, errors, short pages, answers that are none, and
access keys that may do only some things. Empty at start, and `reset` makes it so again."""

from __future__ import annotations

import fnmatch
import threading
import time
import zlib
from dataclasses import dataclass, field
from typing import Any

from .errors import AwsError


# The node joiner plays machines that boot; AWS being slow to us does not stop them.
SPARED = ("joiner",)
# Answers with status 200 that are none: no body, the first half of it, something else, or a listing of nothing.
ODD = ("empty", "cut", "garbage", "nothing")


@dataclass
class Shortage:
    """Pools without capacity. `remaining` launches still succeed before the pool is dry."""

    capacity_type: str
    instance_type: str
    zone: str
    code: str = "InsufficientInstanceCapacity"
    message: str = ""
    remaining: int = 0

    def matches(self, pool: tuple[str, str, str]) -> bool:
        patterns = (self.capacity_type, self.instance_type, self.zone)
        return all(fnmatch.fnmatchcase(value, wanted) for value, wanted in zip(pool, patterns))

    def key(self) -> tuple[str, str, str]:
        return (self.capacity_type, self.instance_type, self.zone)

    def describe(self) -> dict[str, Any]:
        return {
            "capacityType": self.capacity_type,
            "instanceType": self.instance_type,
            "zone": self.zone,
            "code": self.code,
            "message": self.message,
            "remaining": self.remaining,
        }


@dataclass
class CallRule:
    """Something done to calls of an action (a pattern; `*` is all), maybe of one access key only."""

    action: str
    access_key: str = "*"
    ms: float = 0
    rate: float = 0
    burst: float = 1
    code: str = ""
    message: str = ""
    status: int | None = None
    count: int | None = None
    percent: float = 100
    due: float = 0
    tokens: float = field(default=0)
    refilled: float = field(default_factory=time.monotonic)

    def matches(self, action: str, access_key: str) -> bool:
        return fnmatch.fnmatchcase(action, self.action) and fnmatch.fnmatchcase(access_key, self.access_key)


class Faults:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        with self.lock:
            self.shortages: list[Shortage] = []
            self.latency: list[CallRule] = []
            self.throttle: list[CallRule] = []
            self.errors: list[CallRule] = []
            self.pages: dict[str, int] = {}
            self.allowed: dict[str, list[str]] = {}
            self.odd: dict[str, str] = {}

    # ---- capacity

    def add_shortage(self, shortage: Shortage) -> None:
        with self.lock:
            self.shortages = [s for s in self.shortages if s.key() != shortage.key()]
            # The most specific rule decides, so fewer wildcards come first.
            self.shortages.append(shortage)
            self.shortages.sort(key=lambda s: sum("*" in part for part in s.key()))

    def remove_shortage(self, key: tuple[str, str, str] | None) -> None:
        with self.lock:
            self.shortages = [] if key is None else [s for s in self.shortages if s.key() != key]

    def take_capacity(self, pool: tuple[str, str, str], zones: dict[str, str]) -> None:
        """Counts one launch in the pool, or raises the error which the pool's shortage carries."""
        with self.lock:
            for shortage in self.shortages:
                if shortage.matches(pool):
                    if shortage.remaining > 0:
                        shortage.remaining -= 1
                        return
                    raise AwsError(shortage.code, shortage.message or explain(shortage.code, pool, zones))

    def depth(self, pool: tuple[str, str, str]) -> int:
        """How much spare capacity a pool has. Outside EC2 it is not known, and the cheapest pool seldom has the most."""
        for shortage in self.shortages:
            if shortage.matches(pool):
                return shortage.remaining
        return 1_000_000 + zlib.crc32("/".join(pool).encode())

    # ---- calls

    def page_limit(self, action: str) -> int | None:
        for wanted, size in self.pages.items():
            if fnmatch.fnmatchcase(action, wanted):
                return size
        return None

    def oddity(self, action: str) -> str:
        for wanted, kind in self.odd.items():
            if fnmatch.fnmatchcase(action, wanted):
                return kind
        return ""

    def apply(self, action: str, access_key: str, json_service: bool) -> None:
        """Delays or refuses a call before it is looked at. Called without any lock held."""
        if access_key in SPARED:
            return
        delay = sum(r.ms for r in self.latency if r.matches(action, access_key))
        if delay:
            time.sleep(delay / 1000)
        permitted = self.allowed.get(access_key)
        if permitted is not None and not any(fnmatch.fnmatchcase(action, p) for p in permitted):
            code = "AccessDeniedException" if json_service else "UnauthorizedOperation"
            raise AwsError(code, f"You are not authorized to perform this operation: {access_key} may not call {action}", 403)
        with self.lock:
            for rule in self.throttle:
                if rule.matches(action, access_key):
                    now = time.monotonic()
                    rule.tokens = min(rule.burst, rule.tokens + (now - rule.refilled) * rule.rate)
                    rule.refilled = now
                    if rule.tokens < 1:
                        code = rule.code or ("ThrottlingException" if json_service else "RequestLimitExceeded")
                        raise AwsError(code, rule.message or "Request limit exceeded.", rule.status or (400 if json_service else 503))
                    rule.tokens -= 1
            for rule in self.errors:
                if rule.matches(action, access_key) and (rule.count is None or rule.count > 0):
                    # Evenly spread instead of by chance, so that a run can be repeated.
                    rule.due += rule.percent
                    if rule.due < 100:
                        continue
                    rule.due -= 100
                    if rule.count is not None:
                        rule.count -= 1
                    raise AwsError(rule.code, rule.message or f"{rule.code} as a test asked for", rule.status)


def explain(code: str, pool: tuple[str, str, str], zones: dict[str, str]) -> str:
    kind, instance_type, zone = pool
    if code == "InsufficientInstanceCapacity":
        others = ", ".join(z for z in sorted(zones) if z != zone)
        return (
            f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested ({zone}). "
            "Our system will be working on provisioning additional capacity. You can currently get "
            f"{instance_type} capacity by not specifying an Availability Zone in your request or choosing {others}."
        )
    texts = {
        "MaxSpotInstanceCountExceeded": "Max spot instance count exceeded",
        "VcpuLimitExceeded": "You have requested more vCPU capacity than your current vCPU limit allows for the instance bucket that the specified instance type belongs to.",
        "UnfulfillableCapacity": "Unable to fulfill capacity due to your request configuration. Please adjust your request and try again.",
        "UnauthorizedOperation": "You are not authorized to perform this operation.",
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted": "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.",
    }
    return texts.get(code, f"{code} for {kind} {instance_type} in {zone}")
