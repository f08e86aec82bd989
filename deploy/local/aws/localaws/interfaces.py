"""The network interfaces and spot requests that launches make, as calls of their own."""

from __future__ import annotations

from typing import Any

from . import ACCOUNT
from .actions import Call, ec2
from .errors import AwsError
from .filters import Matcher, at, tag_list
from .instances import Instance
from .wire import when

FIELDS = {
    "attachment.instance-id": at("Attachment", "InstanceId"),
    "attachment.status": at("Attachment", "Status"),
    "availability-zone": at("AvailabilityZone"),
    "group-id": at("Groups", "GroupId"),
    "interface-type": at("InterfaceType"),
    "network-interface-id": at("NetworkInterfaceId"),
    "private-ip-address": at("PrivateIpAddress"),
    "status": at("Status"),
    "subnet-id": at("SubnetId"),
    "vpc-id": at("VpcId"),
}


def interfaces(instance: Instance) -> list[dict[str, Any]]:
    return [
        {
            **given,
            "AvailabilityZone": instance.zone,
            "RequesterManaged": False,
            "Attachment": {**given["Attachment"], "InstanceId": instance.id, "InstanceOwnerId": ACCOUNT},
            "TagSet": tag_list(instance.interface_tags[given["NetworkInterfaceId"]]),
        }
        for given in instance.record["NetworkInterfaces"]
    ]


@ec2("DescribeNetworkInterfaces")
def describe_network_interfaces(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    """Interfaces end with their instance. Those that moto would keep are nobody's here."""
    world = call.world
    found = [i for instance in world.instances.all() if instance.alive for i in interfaces(instance)]
    wanted = params.get("NetworkInterfaceIds")
    if wanted:
        known = {i["NetworkInterfaceId"] for i in found}
        for unknown in [w for w in wanted if w not in known]:
            raise AwsError("InvalidNetworkInterfaceID.NotFound", f"The networkInterface ID '{unknown}' does not exist")
        found = [i for i in found if i["NetworkInterfaceId"] in set(wanted)]
    matches = Matcher(params.get("Filters"), FIELDS, lambda i: {t["Key"]: t["Value"] for t in i["TagSet"]})
    found = sorted((i for i in found if matches(i)), key=lambda i: i["NetworkInterfaceId"])
    page, token = world.pager.page(call.action, found, lambda i: i["NetworkInterfaceId"], params, 5, 1000)
    return {"NetworkInterfaces": page, "NextToken": token}


def status_of(instance: Instance) -> str:
    """An interruption marks the request for termination before the instance ends."""
    ended = not instance.alive and instance.spot_status == "fulfilled"
    return "instance-terminated-by-user" if ended else instance.spot_status


def spot_request(instance: Instance) -> dict[str, Any]:
    return {
        "SpotInstanceRequestId": instance.record.get("SpotInstanceRequestId", "sir-" + instance.id[-8:]),
        "InstanceId": instance.id,
        "State": "active" if instance.alive else "closed",
        "Status": {"Code": status_of(instance)},
        "Type": "one-time",
        "CreateTime": when(instance.launched),
        "LaunchedAvailabilityZone": instance.zone,
        "ProductDescription": "Linux/UNIX",
        "InstanceInterruptionBehavior": "terminate",
        "Tags": tag_list(instance.request_tags),
    }


@ec2("DescribeSpotInstanceRequests")
def describe_spot_instance_requests(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    world = call.world
    # Interruptions can be provoked for any instance, also for one that was not bought as spot.
    spot = [i for i in world.instances.all() if i.lifecycle == "spot" or i.spot_status != "fulfilled"]
    found = [spot_request(i) for i in spot]
    wanted = params.get("SpotInstanceRequestIds")
    if wanted:
        known = {r["SpotInstanceRequestId"] for r in found}
        for unknown in [w for w in wanted if w not in known]:
            raise AwsError(
                "InvalidSpotInstanceRequestID.NotFound", f"The spot instance request ID '{unknown}' does not exist"
            )
        found = [r for r in found if r["SpotInstanceRequestId"] in set(wanted)]
    fields = {
        "instance-id": at("InstanceId"),
        "spot-instance-request-id": at("SpotInstanceRequestId"),
        "state": at("State"),
        "status-code": at("Status", "Code"),
    }
    matches = Matcher(params.get("Filters"), fields, lambda r: {t["Key"]: t["Value"] for t in r["Tags"]})
    found = sorted((r for r in found if matches(r)), key=lambda r: r["SpotInstanceRequestId"])
    page, token = world.pager.page(call.action, found, lambda r: r["SpotInstanceRequestId"], params, 5, 1000)
    return {"SpotInstanceRequests": page, "NextToken": token}
