"""Events that EC2 itself sends to EventBridge, put on the default bus of moto, which delivers them to
the queues that rules name. Sent by one thread, in order, so that launches do not wait for it."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from typing import Any

from moto.backends import get_backend
from moto.events.utils import EventTemplateParser

from . import ACCOUNT
from .errors import AwsError
from .instances import Instance

KINDS = {
    "spot": "EC2 Spot Instance Interruption Warning",
    "rebalance": "EC2 Instance Rebalance Recommendation",
    "state-change": "EC2 Instance State-change Notification",
    "scheduled-change": "AWS Health Event",
    "capacity-reservation": "EC2 Capacity Reservation Instance Interruption Warning",
}


PARSE = EventTemplateParser.parse


def deliver_whole(input_template: str, input_paths_map: dict[str, Any], event: Any) -> Any:
    """What a target without an input transformer gets: the whole event. moto leaves the account out,
    and compiles eight JSON paths for each delivery."""
    if input_template:
        return PARSE(input_template, input_paths_map, event)
    return {k: v for k, v in event.items() if k not in ("ingestion-time", "replay-name")}


def install() -> None:
    EventTemplateParser.parse = staticmethod(deliver_whole)  # type: ignore[method-assign]


class Events:
    def __init__(self, region: str, settings: Any):
        self.region, self.settings = region, settings
        self.pending: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._run, name="events", daemon=True).start()

    def _run(self) -> None:
        while True:
            entry = self.pending.get()
            try:
                get_backend("events")[ACCOUNT][self.region].put_events([entry])
            except Exception as error:  # a broken rule must not end the delivery of later events
                with contextlib.suppress(OSError):  # nobody reads our output: no reason to end either
                    print(f"aws: event {entry['DetailType']} not delivered: {error}", flush=True)
            finally:
                self.pending.task_done()

    def wanted(self) -> bool:
        return bool(get_backend("events")[ACCOUNT][self.region].describe_event_bus("default").rules)

    def send(self, source: str, kind: str, detail: dict[str, Any], resources: list[str]) -> None:
        if not self.wanted():
            return
        self.pending.put(
            {"Source": source, "DetailType": kind, "Detail": json.dumps(detail), "Resources": resources, "Time": time.time()}
        )

    def state_changed(self, instance: Instance, before: str) -> None:
        if self.settings.state_change_events:
            self._instance("state-change", instance, {"state": instance.state})

    def _instance(self, kind: str, instance: Instance, detail: dict[str, Any]) -> None:
        arn = f"arn:aws:ec2:{self.region}:{ACCOUNT}:instance/{instance.id}"
        self.send("aws.ec2", KINDS[kind], {"instance-id": instance.id, **detail}, [arn])

    def notify(self, kind: str, instance: Instance, body: dict[str, Any]) -> None:
        """Sends the event that EC2 or AWS Health would send about the instance."""
        if kind in ("spot", "capacity-reservation"):
            self._instance(kind, instance, {"instance-action": body.get("action", "terminate")})
        elif kind == "rebalance":
            self._instance(kind, instance, {})
        elif kind == "state-change":
            self._instance(kind, instance, {"state": body.get("state", "stopping")})
        elif kind == "scheduled-change":
            detail = {
                "eventArn": f"arn:aws:health:{self.region}::event/EC2/{instance.id}",
                "service": "EC2",
                "eventTypeCode": body.get("code", "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED"),
                "eventTypeCategory": "scheduledChange",
                "startTime": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 3600)),
                "eventDescription": [{"language": "en_US", "latestDescription": "The instance is scheduled for retirement."}],
                "affectedEntities": [{"entityValue": instance.id}],
            }
            self.send("aws.health", KINDS[kind], detail, [instance.id])
        else:
            raise AwsError("InvalidParameterValue", f"unknown kind {kind}, use one of {', '.join(KINDS)}")
