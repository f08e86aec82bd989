"""The instances: their records, how their state moves on with time, and a feed of changes.

A change of state is due at a time and carried out by one thread, so that delays can be set by a
test, state-change events are sent when they happen and a watcher learns of them at once.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from typing import Any

from .filters import tag_list
from .wire import Ec2Wire, Raw

CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}


class Instance:
    """One instance. `record` is the answer of DescribeInstances without state and tags."""

    def __init__(self, id: str, sequence: int, record: dict[str, Any], tags: dict[str, str]):
        self.id = id
        self.key = f"{sequence:012d}"
        self.record = record
        self.tags = tags
        self.state = "pending"
        self.launched = time.time()
        self.reason = ""
        self.state_reason: dict[str, str] | None = None
        self.user_data = ""
        self.protected = False
        self.volumes: list[dict[str, Any]] = []
        self.addresses: list[str] = []
        self.extra_addresses = 0
        self.interface_tags: dict[str, dict[str, str]] = {}  # by network interface id
        self.request_tags: dict[str, str] = {}  # of its spot request
        self.group_id: str | None = None
        self.partition: int | None = None
        self.reservation_id: str | None = None
        self.lifecycle = "on-demand"
        self.pool: tuple[str, str, str] = ("", "", "")
        self.version = 0
        self.ended: float | None = None
        self.impaired: dict[str, float] = {}
        self.spot_status = "fulfilled"
        self.events: list[dict[str, Any]] = []
        self.running_since: float | None = None
        self._xml: Raw | None = None

    @property
    def zone(self) -> str:
        return self.record["Placement"]["AvailabilityZone"]

    @property
    def type(self) -> str:
        return self.record["InstanceType"]

    @property
    def alive(self) -> bool:
        return self.state not in ("shutting-down", "terminated")

    def touched(self) -> None:
        self._xml = None

    def state_dict(self, state: str | None = None) -> dict[str, Any]:
        state = state or self.state
        return {"Code": CODES[state], "Name": state}

    def describe(self) -> dict[str, Any]:
        answer = dict(self.record)
        answer["State"] = self.state_dict()
        answer["Tags"] = tag_list(self.tags)
        answer["StateTransitionReason"] = self.reason
        if self.state_reason:
            answer["StateReason"] = self.state_reason
        if self.state == "terminated":
            # A terminated instance has lost its addresses, interfaces and disks.
            for gone in ("PrivateIpAddress", "PublicIpAddress", "SubnetId", "VpcId"):
                answer.pop(gone, None)
            answer["PrivateDnsName"] = answer["PublicDnsName"] = ""
            answer["NetworkInterfaces"], answer["BlockDeviceMappings"], answer["SecurityGroups"] = [], [], []
        return answer

    def xml(self, wire: Ec2Wire, owner: str) -> Raw:
        if self._xml is None:
            inner = wire.fragment("Instance", self.describe())
            self._xml = Raw(
                f"<reservationId>r-{self.id[2:]}</reservationId><ownerId>{owner}</ownerId><groupSet/>"
                f"<instancesSet><item>{inner}</item></instancesSet>"
            )
        return self._xml

    def summary(self) -> dict[str, Any]:
        """What the change feed and the control path tell of it."""
        record = self.record
        return {
            "id": self.id,
            "version": self.version,
            "state": self.state,
            "instanceType": self.type,
            "lifecycle": self.lifecycle,
            "zone": self.zone,
            "zoneId": record["Placement"].get("AvailabilityZoneId"),
            "privateDnsName": record["PrivateDnsName"],
            "privateIp": record.get("PrivateIpAddress"),
            "imageId": record["ImageId"],
            "architecture": record["Architecture"],
            "subnetId": record.get("SubnetId"),
            "capacityReservationId": self.reservation_id,
            "launched": self.launched,
            "ended": self.ended,
            "tags": self.tags,
        }


class Instances:
    """All instances of a region. Everything here is called with the world's lock held, except
    `wait_for_change`."""

    def __init__(self, lock: threading.RLock, settings: Any):
        self.lock = lock
        self.changed = threading.Condition(lock)
        self.settings = settings
        self.on_state: list[Callable[[Instance, str], None]] = []
        self.by_id: dict[str, Instance] = {}
        self.version = 0
        self.sequence = 0
        self._order: dict[str, int] = {}  # instance id to version, oldest change first; also of gone ones
        self._due: list[tuple[float, int, str, str]] = []
        self._tie = 0
        threading.Thread(target=self._run, name="instance-states", daemon=True).start()

    def reset(self) -> None:
        self._due.clear()
        for instance in self.all():
            self.forget(instance)

    def forget(self, instance: Instance) -> None:
        """The instance is no longer listed; watchers are told that it is gone."""
        del self.by_id[instance.id]
        self._note(instance.id)

    def all(self) -> list[Instance]:
        return list(self.by_id.values())

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence

    def add(self, instance: Instance) -> None:
        self.by_id[instance.id] = instance
        self.mark(instance)
        delay = self.settings.running_after_ms
        self.schedule(instance, "running", delay)

    def mark(self, instance: Instance) -> None:
        """Notes that the instance changed: its XML is stale and watchers are told."""
        instance.touched()
        self._note(instance.id)
        instance.version = self.version

    def _note(self, instance_id: str) -> None:
        self.version += 1
        self._order.pop(instance_id, None)
        self._order[instance_id] = self.version
        self.changed.notify_all()

    def schedule(self, instance: Instance, state: str, after_ms: float) -> None:
        if after_ms <= 0:
            self._enter(instance, state)
            return
        self._tie += 1
        heapq.heappush(self._due, (time.time() + after_ms / 1000, self._tie, instance.id, state))
        self.changed.notify_all()

    def set_state(self, instance: Instance, state: str, reason: str = "", code: str = "") -> None:
        """Begins or forces a state; what follows from it is scheduled."""
        if reason:
            instance.reason = reason
            instance.state_reason = {"Code": code or "Client.UserInitiatedShutdown", "Message": f"{code}: {reason}"}
        self._enter(instance, state)

    def _enter(self, instance: Instance, state: str) -> None:
        before = instance.state
        if before == state or before == "terminated":
            return
        if before == "shutting-down" and state != "terminated":
            return
        if state == "running" and before not in ("pending", "stopped"):
            return
        if state == "stopped" and before not in ("stopping", "running", "pending"):
            return
        instance.state = state
        if state == "running":
            instance.running_since = time.time()
        if state == "terminated":
            instance.ended = time.time()
            self.schedule(instance, "forgotten", self.settings.terminated_listed_ms)
        self.mark(instance)
        for listener in self.on_state:
            listener(instance, before)
        if state == "shutting-down":
            self.schedule(instance, "terminated", self.settings.terminated_after_ms)
        elif state == "stopping":
            self.schedule(instance, "stopped", self.settings.stopped_after_ms)

    def _run(self) -> None:
        while True:
            with self.lock:
                now = time.time()
                while self._due and self._due[0][0] <= now:
                    _, _, instance_id, state = heapq.heappop(self._due)
                    instance = self.by_id.get(instance_id)
                    if instance is None:
                        continue
                    if state == "forgotten":
                        self.forget(instance)
                    else:
                        self._enter(instance, state)
                pause = self._due[0][0] - time.time() if self._due else 3600.0
                self.changed.wait(max(pause, 0.001))

    def changes_since(self, version: int) -> list[dict[str, Any]]:
        found = []
        for instance_id in reversed(self._order):
            if self._order[instance_id] <= version:
                break
            instance = self.by_id.get(instance_id)
            if instance:
                found.append(instance.summary())
            elif version:
                found.append({"id": instance_id, "version": self._order[instance_id], "state": "gone", "tags": {}})
        found.reverse()
        return found

    def wait_for_change(self, version: int, timeout: float) -> tuple[int, list[dict[str, Any]]]:
        deadline = time.monotonic() + timeout
        with self.lock:
            while self.version <= version:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self.changed.wait(left)
            return self.version, self.changes_since(version)
