"""Subnets, security groups and instance profiles as launches need them. moto keeps them; we look
them up in its backends and account for the addresses that our instances take."""

from __future__ import annotations

import ipaddress
import time
from datetime import timezone
from typing import Any

from moto.backends import get_backend
from moto.ec2.models.subnets import Subnet

from . import ACCOUNT
from .errors import AwsError

# Addresses in use by our instances, by subnet id. Read by the patched property below, which moto
# renders as AvailableIpAddressCount.
TAKEN: dict[str, int] = {}


def available_addresses(subnet: Subnet) -> int:
    return subnet._available_ip_addresses - TAKEN.get(subnet.id, 0)


def install() -> None:
    """moto recounts all network interfaces for every subnet it shows and knows none of ours."""
    Subnet.available_ip_address_count = property(available_addresses)  # type: ignore[method-assign]


class Network:
    def __init__(self, region: str):
        self.region = region
        self._cursor: dict[str, int] = {}
        self._used: dict[str, set[int]] = {}
        self._zone_ids: dict[str, str] | None = None
        self._public = 0

    @property
    def backend(self) -> Any:
        return get_backend("ec2")[ACCOUNT][self.region]

    def reset(self) -> None:
        for subnet_id in self._used:
            TAKEN.pop(subnet_id, None)
        self._cursor.clear()
        self._used.clear()

    def zone_ids(self) -> dict[str, str]:
        if self._zone_ids is None:
            self._zone_ids = {z.name: z.zone_id for z in self.backend.describe_availability_zones()}
        return self._zone_ids

    def subnet(self, subnet_id: str) -> Subnet:
        for by_zone in list(self.backend.subnets.values()):
            if subnet_id in by_zone:
                return by_zone[subnet_id]
        raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{subnet_id}' does not exist")

    def default_subnet(self, zone: str) -> Subnet:
        for subnet in self.backend.describe_subnets():
            if subnet.default_for_az and subnet.availability_zone == zone:
                return subnet
        raise AwsError("MissingInput", f"No default subnet for availability zone: '{zone}'.")

    def security_groups(self, group_ids: list[str], vpc_id: str, subnet_id: str) -> list[dict[str, str]]:
        groups = self.backend.groups
        found = []
        if not group_ids:
            return [
                {"GroupId": g.id, "GroupName": g.name} for g in groups[vpc_id].values() if g.name == "default"
            ]
        for group_id in group_ids:
            if group_id in groups.get(vpc_id, {}):
                group = groups[vpc_id][group_id]
                found.append({"GroupId": group.id, "GroupName": group.name})
            elif any(group_id in by_id for by_id in list(groups.values())):
                raise AwsError(
                    "InvalidParameter",
                    f"Security group {group_id} and subnet {subnet_id} belong to different networks.",
                )
            else:
                raise AwsError("InvalidGroup.NotFound", f"The security group '{group_id}' does not exist")
        return found

    def instance_profile(self, given: dict[str, str] | None, usable_after_ms: float) -> dict[str, str] | None:
        """EC2 refuses a profile that was made just now as if it did not exist."""
        if not given:
            return None
        profiles = get_backend("iam")[ACCOUNT]["aws"].instance_profiles.values()
        for profile in list(profiles):
            if profile.name == given.get("Name") or profile.arn == given.get("Arn"):
                if time.time() >= profile.create_date.replace(tzinfo=timezone.utc).timestamp() + usable_after_ms / 1000:
                    return {"Arn": profile.arn, "Id": profile.id}
        field, value = ("name", given["Name"]) if given.get("Name") else ("arn", given.get("Arn"))
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({value}) for parameter iamInstanceProfile.{field} is invalid. Invalid IAM Instance Profile {field}",
        )

    def public_address(self) -> str:
        """Never the same twice."""
        self._public += 1
        return str(ipaddress.IPv4Address("54.200.0.0") + self._public)

    def free(self, subnet: Subnet) -> int:
        return available_addresses(subnet)

    def take_address(self, subnet: Subnet) -> str:
        """The next address of the subnet. Freed ones come back only after the range was gone round
        once, because a node is named after its address and its old Node may still exist."""
        network = ipaddress.IPv4Network(subnet.cidr_block)
        used = self._used.setdefault(subnet.id, set())
        first, last = 4, network.num_addresses - 2
        if len(used) > last - first:
            raise no_addresses(subnet, 1)
        offset = self._cursor.get(subnet.id, first - 1)
        while True:
            offset = offset + 1 if offset < last else first
            if offset not in used:
                break
        self._cursor[subnet.id] = offset
        used.add(offset)
        TAKEN[subnet.id] = TAKEN.get(subnet.id, 0) + 1
        return str(network.network_address + offset)

    def give_back(self, subnet_id: str, addresses: list[str], extra: int) -> None:
        used = self._used.get(subnet_id, set())
        try:
            subnet = self.subnet(subnet_id)
        except AwsError:
            return
        base = int(ipaddress.IPv4Network(subnet.cidr_block).network_address)
        for address in addresses:
            used.discard(int(ipaddress.IPv4Address(address)) - base)
        TAKEN[subnet_id] = max(0, TAKEN.get(subnet_id, 0) - len(addresses) - extra)

    def take_extra(self, subnet_id: str, count: int) -> None:
        TAKEN[subnet_id] = TAKEN.get(subnet_id, 0) + count


def no_addresses(subnet: Subnet, wanted: int) -> AwsError:
    return AwsError(
        "InsufficientFreeAddressesInSubnet",
        f"There are not enough free addresses in subnet '{subnet.id}' to satisfy the requested number of instances ({wanted}).",
    )
