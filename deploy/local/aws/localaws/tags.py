"""CreateTags, DeleteTags and DescribeTags over our resources and moto's alike."""

from __future__ import annotations

from typing import Any

from .actions import Call, ec2
from .errors import AwsError, missing
from .filters import Matcher, at, tag_dict

KINDS = {
    "i": "instance",
    "lt": "launch-template",
    "ami": "image",
    "cr": "capacity-reservation",
    "pg": "placement-group",
    "vol": "volume",
    "eni": "network-interface",
    "sir": "spot-instances-request",
}


def ours(world: Any) -> dict[str, tuple[str, dict[str, str]]]:
    """Everything of ours that has tags: id to (kind, tags)."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    found.update((i.id, ("instance", i.tags)) for i in world.instances.all())
    found.update((t.id, ("launch-template", t.tags)) for t in world.templates.by_id.values())
    found.update((i.id, ("image", i.tags)) for i in world.images.images.values() if i.tags)
    found.update((r.id, ("capacity-reservation", r.tags)) for r in world.reservations.by_id.values())
    found.update((g.id, ("placement-group", g.tags)) for g in world.groups.by_name.values())
    for instance in world.instances.all():
        found.update((eni, ("network-interface", tags)) for eni, tags in instance.interface_tags.items())
        if instance.lifecycle == "spot":
            found[instance.record["SpotInstanceRequestId"]] = ("spot-instances-request", instance.request_tags)
    return found


def holder(call: Call, resource: str) -> dict[str, str] | None:
    """The tags of one of our resources, to be changed; None when moto keeps the resource."""
    world, prefix = call.world, resource.split("-")[0]
    if prefix == "i":
        instance = world.instances.by_id.get(resource)
        if instance is None or not world.is_visible(resource, instance.launched, call.access_key):
            raise AwsError("InvalidInstanceID.NotFound", f"The instance ID '{resource}' does not exist")
        return instance.tags
    if prefix == "lt":
        return world.templates.find(resource, None).tags
    if prefix == "ami":
        return world.images.get(resource).tags
    if prefix == "cr":
        return world.reservations.get(resource).tags
    if prefix == "pg":
        return world.groups.find(resource, None).tags
    if prefix in ("eni", "sir") and (found := ours(world).get(resource)):
        return found[1]
    return None


def volume(world: Any, resource: str) -> dict[str, Any] | None:
    for instance in world.instances.all():
        for candidate in instance.volumes:
            if candidate["VolumeId"] == resource:
                return candidate
    return None


@ec2("CreateTags")
def create_tags(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    world, tags = call.world, tag_dict(params.get("Tags"))
    if not params.get("Resources"):
        raise missing("resourceId")
    if not tags:
        raise missing("Tag")
    for key in tags:
        if key.lower().startswith("aws:"):
            raise AwsError("InvalidParameterValue", f"Tag keys starting with 'aws:' are reserved for internal use: {key}")
    targets = [(r, holder(call, r)) for r in params["Resources"]]
    for resource, found in targets:
        if found is not None:
            if len(found | tags) > 50 + sum(k.startswith("aws:") for k in found):
                raise AwsError("TagLimitExceeded", f"{resource} would have more than 50 tags.")
            found.update(tags)
            touch(world, resource)
        elif resource.startswith("vol-") and (disk := volume(world, resource)):
            disk["Tags"] = [{"Key": k, "Value": v} for k, v in (tag_dict(disk["Tags"]) | tags).items()]
        else:
            world.network.backend.create_tags([resource], tags)
    return {}


@ec2("DeleteTags")
def delete_tags(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    world = call.world
    for resource in params.get("Resources") or []:
        found = holder(call, resource)
        if found is None:
            world.network.backend.delete_tags([resource], tag_dict(params.get("Tags")))
            continue
        for tag in params.get("Tags") or []:
            if tag.get("Value") in (None, found.get(tag["Key"])):
                found.pop(tag["Key"], None)
        touch(world, resource)
    return {}


def touch(world: Any, resource: str) -> None:
    instance = world.instances.by_id.get(resource)
    if instance:
        world.instances.mark(instance)


@ec2("DescribeTags")
def describe_tags(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    world = call.world
    rows = [
        {"ResourceId": resource, "ResourceType": kind, "Key": k, "Value": v}
        for resource, (kind, tags) in ours(world).items()
        for k, v in tags.items()
    ]
    for tag in world.network.backend.describe_tags():
        rows.append(
            {
                "ResourceId": tag["resource_id"],
                "ResourceType": tag["resource_type"],
                "Key": tag["key"],
                "Value": tag["value"],
            }
        )
    fields = {
        "resource-id": at("ResourceId"),
        "resource-type": at("ResourceType"),
        "key": at("Key"),
        "value": at("Value"),
    }
    matches = Matcher(params.get("Filters"), fields)
    rows = sorted((r for r in rows if matches(r)), key=tag_key)
    page, token = world.pager.page(call.action, rows, tag_key, params, 5, 1000)
    return {"Tags": page, "NextToken": token}


def tag_key(row: dict[str, str]) -> str:
    return f"{row['ResourceId']}/{row['Key']}"
