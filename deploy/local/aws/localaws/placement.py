"""Placement groups: create, describe, delete, and the limits that launches into them meet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import ACCOUNT
from .actions import Call, ec2
from .errors import AwsError, missing
from .filters import Matcher, tag_list, tags_for

SPREAD_LIMIT = 7  # running instances per zone and spread group


@dataclass
class Group:
    id: str
    name: str
    strategy: str
    partitions: int
    spread_level: str
    state: str = "available"
    tags: dict[str, str] = field(default_factory=dict)

    def describe(self, region: str) -> dict[str, Any]:
        return {
            "GroupId": self.id,
            "GroupName": self.name,
            "GroupArn": f"arn:aws:ec2:{region}:{ACCOUNT}:placement-group/{self.name}",
            "State": self.state,
            "Strategy": self.strategy,
            "PartitionCount": self.partitions if self.strategy == "partition" else None,
            "SpreadLevel": self.spread_level if self.strategy == "spread" else None,
            "Tags": tag_list(self.tags),
        }


class Groups:
    def __init__(self) -> None:
        self.by_name: dict[str, Group] = {}

    def reset(self) -> None:
        self.by_name.clear()

    def find(self, group_id: str | None, name: str | None) -> Group:
        for group in self.by_name.values():
            if (group_id and group.id == group_id) or (name and group.name == name):
                return group
        code = "InvalidPlacementGroup.Unknown" if name else "InvalidPlacementGroupId.Unknown"
        raise AwsError(code, f"The Placement Group '{name or group_id}' is unknown.")


FIELDS = {
    "group-name": lambda g: g.name,
    "group-arn": lambda g: g.name,
    "state": lambda g: g.state,
    "strategy": lambda g: g.strategy,
    "spread-level": lambda g: g.spread_level,
}


@ec2("CreatePlacementGroup")
def create_placement_group(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    name = params.get("GroupName")
    if not name:
        raise missing("GroupName")
    groups = call.world.groups
    if name in groups.by_name:
        raise AwsError("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
    group = Group(
        call.world.new_id("pg"),
        name,
        params.get("Strategy", "cluster"),
        params.get("PartitionCount", 2),
        params.get("SpreadLevel", "rack"),
        tags=tags_for(params.get("TagSpecifications"), "placement-group"),
    )
    groups.by_name[name] = group
    return {"PlacementGroup": group.describe(call.region)}


@ec2("DeletePlacementGroup")
def delete_placement_group(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    group = call.world.groups.find(None, params.get("GroupName"))
    if any(i.group_id == group.id and i.alive for i in call.world.instances.all()):
        raise AwsError(
            "InvalidPlacementGroup.InUse", f"The placement group {group.name} is in use and may not be deleted."
        )
    del call.world.groups.by_name[group.name]
    return {}


@ec2("DescribePlacementGroups")
def describe_placement_groups(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    groups = call.world.groups
    ids, names = params.get("GroupIds"), params.get("GroupNames")
    if ids or names:
        chosen = [groups.find(i, None) for i in ids or []] + [groups.find(None, n) for n in names or []]
    else:
        chosen = list(groups.by_name.values())
    matches = Matcher(params.get("Filters"), FIELDS, lambda g: g.tags)
    return {"PlacementGroups": [g.describe(call.region) for g in chosen if matches(g)]}


def place(world: Any, group: Group, zone: str, partition: int | None) -> int | None:
    """Checks the group's limits for one more instance in the zone; gives its partition, if any."""
    members = [i for i in world.instances.all() if i.group_id == group.id and i.alive]
    if group.strategy == "spread" and sum(i.zone == zone for i in members) >= SPREAD_LIMIT:
        raise AwsError(
            "InsufficientInstanceCapacity",
            "You have exceeded the limit of instances in this spread placement group for this Availability Zone.",
        )
    if group.strategy == "cluster" and any(i.zone != zone for i in members):
        raise AwsError(
            "InvalidParameterCombination",
            f"The placement group {group.name} has instances in another Availability Zone than {zone}.",
        )
    if group.strategy != "partition":
        return None
    if partition is not None and not 1 <= partition <= group.partitions:
        raise AwsError("InvalidParameterValue", f"The partition number {partition} does not exist in {group.name}.")
    if partition is None:
        load = {n: 0 for n in range(1, group.partitions + 1)}
        for instance in members:
            load[instance.partition or 1] += 1
        partition = min(load, key=lambda n: (load[n], n))
    return partition
