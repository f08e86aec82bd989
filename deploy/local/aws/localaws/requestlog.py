"""Who called what: counts per action and the last requests with their parameters, so that a test
can check which rights a service really uses and how often it calls."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import Counter, deque
from typing import Any

KEPT = 1000
# Parameters that name the resources a call touches.
NAMES = (
    "InstanceIds InstanceId LaunchTemplateId LaunchTemplateName LaunchTemplateIds LaunchTemplateNames ImageIds SubnetIds "
    "GroupIds Resources CapacityReservationIds InstanceProfileName RoleName QueueUrl QueueName Name name"
).split()


class RequestLog:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        with self.lock:
            self.counts: Counter[str] = Counter()
            self.by_key: dict[str, Counter[str]] = {}
            self.errors: Counter[str] = Counter()
            self.last: deque[dict[str, Any]] = deque(maxlen=KEPT)
            self.numbers = itertools.count(1)

    def record(
        self, service: str, action: str, region: str, access_key: str, params: dict[str, Any], status: int, code: str, ms: float
    ) -> None:
        resources: list[str] = []
        for name in NAMES:
            value = params.get(name)
            if isinstance(value, str):
                resources.append(value)
            elif isinstance(value, list):
                resources += [v for v in value if isinstance(v, str)]
        with self.lock:
            name = f"{service}:{action}"
            self.counts[name] += 1
            self.by_key.setdefault(access_key, Counter())[name] += 1
            if code:
                self.errors[f"{name}:{code}"] += 1
            self.last.append(
                {
                    "n": next(self.numbers),
                    "time": time.time(),
                    "service": service,
                    "action": action,
                    "region": region,
                    "accessKey": access_key,
                    "resources": resources[:1000],
                    # As text: the parsed parameters of one large fleet request take hundreds of kilobytes.
                    "params": json.dumps(params, default=str),
                    "status": status,
                    "code": code,
                    "ms": round(ms, 2),
                }
            )

    def describe(self, action: str | None, access_key: str | None, since: int, limit: int) -> dict[str, Any]:
        with self.lock:
            chosen = [
                r
                for r in self.last
                if (not action or r["action"] == action)
                and (not access_key or r["accessKey"] == access_key)
                and r["n"] > since
            ]
            return {
                "counts": dict(sorted(self.counts.items())),
                "errors": dict(sorted(self.errors.items())),
                "byAccessKey": {k: dict(sorted(c.items())) for k, c in sorted(self.by_key.items())},
                "requests": [{**r, "params": json.loads(r["params"])} for r in (chosen[-limit:] if limit else [])],
            }
