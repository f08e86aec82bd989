"""DescribeInstanceStatus: checks that a test can fail, and scheduled events that it can add."""

from __future__ import annotations

import time
from typing import Any

from .actions import Call, ec2
from .describe import find
from .filters import Matcher
from .instances import Instance
from .wire import when


def check(instance: Instance, kind: str) -> dict[str, Any]:
    """`kind` is instance, system or attached-ebs."""
    if instance.state != "running":
        return {"Status": "not-applicable", "Details": []}
    since = instance.impaired.get(kind)
    detail: dict[str, Any] = {"Name": "reachability", "Status": "passed"}
    if since is None:
        return {"Status": "ok", "Details": [detail]}
    return {"Status": "impaired", "Details": [{**detail, "Status": "failed", "ImpairedSince": when(since)}]}


FIELDS = {
    "availability-zone": lambda i: i.zone,
    "instance-state-name": lambda i: i.state,
    "instance-status.status": lambda i: check(i, "instance")["Status"],
    "instance-status.reachability": lambda i: [d["Status"] for d in check(i, "instance")["Details"]],
    "system-status.status": lambda i: check(i, "system")["Status"],
    "system-status.reachability": lambda i: [d["Status"] for d in check(i, "system")["Details"]],
    "attached-ebs-status.status": lambda i: check(i, "attached-ebs")["Status"],
    "event.code": lambda i: [e["Code"] for e in i.events],
    "event.instance-event-id": lambda i: [e["InstanceEventId"] for e in i.events],
    "event.description": lambda i: [e["Description"] for e in i.events],
}


@ec2("DescribeInstanceStatus")
def describe_instance_status(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    world, ids = call.world, params.get("InstanceIds")
    instances = sorted(find(call, ids), key=lambda i: i.key) if ids else world.instances.by_id.values()
    everything = params.get("IncludeAllInstances")
    matches = Matcher(params.get("Filters"), FIELDS, lambda i: i.tags)
    chosen = [i for i in instances if (everything or i.state == "running") and matches(i)]
    page, token = world.pager.page(call.action, chosen, lambda i: i.key, params, 5, 1000)
    return {"InstanceStatuses": [describe(i) for i in page], "NextToken": token}


def describe(instance: Instance) -> dict[str, Any]:
    return {
        "InstanceId": instance.id,
        "AvailabilityZone": instance.zone,
        "AvailabilityZoneId": instance.record["Placement"]["AvailabilityZoneId"],
        "InstanceState": instance.state_dict(),
        "InstanceStatus": check(instance, "instance"),
        "SystemStatus": check(instance, "system"),
        "AttachedEbsStatus": check(instance, "attached-ebs"),
        "Events": [{**e, "NotBefore": when(e["NotBefore"]), "NotAfter": when(e["NotAfter"])} for e in instance.events],
    }


def set_event(world: Any, instance: Instance, body: dict[str, Any]) -> dict[str, Any]:
    """What the control path may do to an instance's status: fail or heal a check, add or end an event."""
    if "impaired" in body:
        kinds = body["impaired"] or []
        since = time.time() - float(body.get("sinceSeconds", 0))
        instance.impaired = {kind: since for kind in kinds}
    if body.get("code"):
        start = time.time() + float(body.get("notBeforeSeconds", 3600))
        instance.events.append(
            {
                "InstanceEventId": body.get("eventId") or world.new_id("instance-event"),
                "Code": body["code"],
                "Description": body.get("description", "The instance is running on degraded hardware"),
                "NotBefore": start,
                "NotAfter": start + 7200,
            }
        )
    # EC2 keeps listing an ended event for days, with this prefix.
    if body.get("complete"):
        for event in instance.events:
            if not event["Description"].startswith("["):
                event["Description"] = "[Completed] " + event["Description"]
    if body.get("clear"):
        instance.events, instance.impaired = [], {}
    return {"id": instance.id, "impaired": list(instance.impaired), "events": [e["Code"] for e in instance.events]}
