"""The calls about existing instances: describe, attributes, terminate, stop, start, volumes."""

from __future__ import annotations

import re
import time
from typing import Any

from .actions import Call, ec2
from .errors import AwsError, missing
from .filters import Matcher, at
from .instances import CODES, Instance
from .wire import format_time

ID = re.compile(r"i-[0-9a-f]{8,17}")


def from_record(*path: str) -> Any:
    read = at(*path)
    return lambda i: read(i.record)


FIELDS = {
    "instance-id": lambda i: i.id,
    "instance-state-name": lambda i: i.state,
    "instance-state-code": lambda i: CODES[i.state],
    "instance-type": lambda i: i.type,
    "instance-lifecycle": lambda i: None if i.lifecycle == "on-demand" else i.lifecycle,
    "spot-instance-request-id": from_record("SpotInstanceRequestId"),
    "availability-zone": lambda i: i.zone,
    "availability-zone-id": from_record("Placement", "AvailabilityZoneId"),
    "placement-group-name": from_record("Placement", "GroupName"),
    "placement-partition-number": from_record("Placement", "PartitionNumber"),
    "tenancy": from_record("Placement", "Tenancy"),
    "image-id": from_record("ImageId"),
    "architecture": from_record("Architecture"),
    "subnet-id": from_record("SubnetId"),
    "vpc-id": from_record("VpcId"),
    "private-dns-name": from_record("PrivateDnsName"),
    "private-ip-address": from_record("PrivateIpAddress"),
    "iam-instance-profile.arn": from_record("IamInstanceProfile", "Arn"),
    "iam-instance-profile.id": from_record("IamInstanceProfile", "Id"),
    "instance.group-id": from_record("SecurityGroups", "GroupId"),
    "instance.group-name": from_record("SecurityGroups", "GroupName"),
    "network-interface.network-interface-id": from_record("NetworkInterfaces", "NetworkInterfaceId"),
    "capacity-reservation-id": lambda i: i.reservation_id,
    "launch-time": lambda i: format_time(i.launched),
    "platform": from_record("Platform"),
    "root-device-type": lambda i: "ebs",
    "owner-id": lambda i: None,
}


def is_visible(call: Call, instance: Instance) -> bool:
    return call.world.is_visible(instance.id, instance.launched, call.access_key)


def find(call: Call, ids: list[str]) -> list[Instance]:
    """All of the instances or none: one unknown id fails the whole call, as EC2 does."""
    world = call.world
    unknown = []
    for instance_id in ids:
        if not ID.fullmatch(instance_id):
            raise AwsError("InvalidInstanceID.Malformed", f'Invalid id: "{instance_id}"')
        instance = world.instances.by_id.get(instance_id)
        if instance is None or not is_visible(call, instance):
            unknown.append(instance_id)
    if len(unknown) == 1:
        raise AwsError("InvalidInstanceID.NotFound", f"The instance ID '{unknown[0]}' does not exist")
    if unknown:
        raise AwsError("InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(unknown)}' do not exist")
    return [world.instances.by_id[i] for i in dict.fromkeys(ids)]


@ec2("DescribeInstances")
def describe_instances(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    world = call.world
    ids = params.get("InstanceIds")
    if ids and params.get("MaxResults"):
        raise AwsError(
            "InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults"
        )
    matches = Matcher(params.get("Filters"), FIELDS, lambda i: i.tags)
    pool = find(call, ids) if ids else [i for i in world.instances.all() if is_visible(call, i)]
    chosen = [i for i in pool if matches(i)]
    if ids:
        chosen.sort(key=lambda i: i.key)
    page, token = world.pager.page(call.action, chosen, lambda i: i.key, params, 5, 1000)
    return {"Reservations": [i.xml(world.wire, world.account) for i in page], "NextToken": token}


@ec2("TerminateInstances")
def terminate_instances(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    world = call.world
    if not params.get("InstanceIds"):
        raise missing("InstanceId")
    instances = find(call, params["InstanceIds"])
    for instance in instances:
        if instance.protected and instance.alive:
            raise AwsError(
                "OperationNotPermitted",
                f"The instance '{instance.id}' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.",
            )
    changes = []
    for instance in instances:
        before = instance.state
        after = before if before == "terminated" else "shutting-down"
        world.instances.set_state(instance, "shutting-down", user_initiated(), "Client.UserInitiatedShutdown")
        changes.append(change(instance, before, after))
    return {"TerminatingInstances": changes}


@ec2("StopInstances")
def stop_instances(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    world, changes = call.world, []
    for instance in (found := find(call, params.get("InstanceIds") or [])):
        if instance.lifecycle == "spot":
            raise AwsError(
                "UnsupportedOperation",
                f"You can't stop the Spot Instance '{instance.id}' because it is associated with a one-time Spot Instance request.",
            )
        if not instance.alive:
            raise AwsError(
                "IncorrectInstanceState", f"The instance '{instance.id}' is not in a state from which it can be stopped."
            )
    for instance in found:
        before = instance.state
        if before not in ("stopping", "stopped"):
            world.instances.set_state(instance, "stopping", user_initiated(), "Client.UserInitiatedShutdown")
        changes.append(change(instance, before, instance.state))
    return {"StoppingInstances": changes}


@ec2("StartInstances")
def start_instances(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    world, changes = call.world, []
    for instance in find(call, params.get("InstanceIds") or []):
        before = instance.state
        if before not in ("stopped", "running", "pending"):
            raise AwsError(
                "IncorrectInstanceState", f"The instance '{instance.id}' is not in a state from which it can be started."
            )
        if before == "stopped":
            world.instances.set_state(instance, "pending")
            world.instances.schedule(instance, "running", world.settings.running_after_ms)
        changes.append(change(instance, before, instance.state))
    return {"StartingInstances": changes}


@ec2("RebootInstances")
def reboot_instances(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    find(call, params.get("InstanceIds") or [])
    return {}


def user_initiated() -> str:
    return f"User initiated ({time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} GMT)"


def change(instance: Instance, before: str, after: str) -> dict[str, Any]:
    return {
        "InstanceId": instance.id,
        "PreviousState": instance.state_dict(before),
        "CurrentState": instance.state_dict(after),
    }


@ec2("DescribeInstanceAttribute")
def describe_instance_attribute(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    (instance,) = find(call, [params.get("InstanceId", "")])
    answers = {
        "userData": {"UserData": {"Value": instance.user_data} if instance.user_data else {}},
        "disableApiTermination": {"DisableApiTermination": {"Value": instance.protected}},
        "instanceType": {"InstanceType": {"Value": instance.type}},
        "groupSet": {"Groups": instance.record["SecurityGroups"]},
        "rootDeviceName": {"RootDeviceName": {"Value": instance.record["RootDeviceName"]}},
    }
    attribute = params.get("Attribute")
    if attribute not in answers:
        raise AwsError("InvalidParameterValue", f"Value ({attribute}) for parameter attribute is invalid. Unknown attribute.")
    return {"InstanceId": instance.id, **answers[attribute]}


@ec2("ModifyInstanceAttribute")
def modify_instance_attribute(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    world = call.world
    (instance,) = find(call, [params.get("InstanceId", "")])
    if "DisableApiTermination" in params:
        instance.protected = bool(params["DisableApiTermination"].get("Value"))
    if params.get("Groups"):
        record = instance.record
        groups = world.network.security_groups(params["Groups"], record["VpcId"], record["SubnetId"])
        record["SecurityGroups"] = groups
        for interface in record["NetworkInterfaces"]:
            interface["Groups"] = groups
    world.instances.mark(instance)
    return {}


@ec2("DescribeVolumes")
def describe_volumes(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    world = call.world
    volumes = [v for i in world.instances.all() if i.alive for v in i.volumes]
    wanted = params.get("VolumeIds")
    if wanted:
        known = {v["VolumeId"] for v in volumes}
        for volume_id in wanted:
            if volume_id not in known:
                raise AwsError("InvalidVolume.NotFound", f"The volume '{volume_id}' does not exist.")
        volumes = [v for v in volumes if v["VolumeId"] in set(wanted)]
    fields = {
        "attachment.instance-id": at("Attachments", "InstanceId"),
        "attachment.device": at("Attachments", "Device"),
        "volume-id": at("VolumeId"),
        "volume-type": at("VolumeType"),
        "status": at("State"),
        "encrypted": at("Encrypted"),
        "size": at("Size"),
        "availability-zone": at("AvailabilityZone"),
    }
    matches = Matcher(params.get("Filters"), fields, lambda v: {t["Key"]: t["Value"] for t in v["Tags"]})
    volumes = sorted((v for v in volumes if matches(v)), key=lambda v: v["VolumeId"])
    page, token = world.pager.page(call.action, volumes, lambda v: v["VolumeId"], params, 5, 1000)
    return {"Volumes": page, "NextToken": token}
