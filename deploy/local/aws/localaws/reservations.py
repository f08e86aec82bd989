"""On-demand capacity reservations: created by the API or the control path, consumed by launches
that target them or match them openly, given back when the instance ends."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from . import ACCOUNT
from .actions import Call, ec2
from .errors import AwsError
from .filters import Matcher, tag_list, tags_for
from .wire import when


@dataclass
class Reservation:
    id: str
    instance_type: str
    zone: str
    zone_id: str
    total: int
    available: int
    owner: str = ACCOUNT
    criteria: str = "open"
    kind: str = "default"
    state: str = "active"
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    interruptible: bool = False
    created: float = field(default_factory=time.time)
    ends: float | None = None
    tags: dict[str, str] = field(default_factory=dict)

    def describe(self, region: str) -> dict[str, Any]:
        return {
            "CapacityReservationId": self.id,
            "CapacityReservationArn": f"arn:aws:ec2:{region}:{self.owner}:capacity-reservation/{self.id}",
            "OwnerId": self.owner,
            "InstanceType": self.instance_type,
            "InstancePlatform": self.platform,
            "AvailabilityZone": self.zone,
            "AvailabilityZoneId": self.zone_id,
            "Tenancy": self.tenancy,
            "TotalInstanceCount": self.total,
            "AvailableInstanceCount": self.available,
            "EbsOptimized": False,
            "EphemeralStorage": False,
            "State": self.state,
            "StartDate": when(self.created),
            "CreateDate": when(self.created),
            "EndDate": None if self.ends is None else when(self.ends),
            "EndDateType": "unlimited" if self.ends is None else "limited",
            "InstanceMatchCriteria": self.criteria,
            "ReservationType": self.kind,
            "Interruptible": self.interruptible,
            "Tags": tag_list(self.tags),
        }

    def fits(self, instance_type: str, zone: str) -> bool:
        return self.state == "active" and self.instance_type == instance_type and self.zone == zone


class Reservations:
    def __init__(self) -> None:
        self.by_id: dict[str, Reservation] = {}

    def reset(self) -> None:
        self.by_id.clear()

    def get(self, reservation_id: str) -> Reservation:
        found = self.by_id.get(reservation_id)
        if found is None:
            raise AwsError(
                "InvalidCapacityReservationId.NotFound", f"The capacity reservation '{reservation_id}' does not exist"
            )
        return found

    def open_match(self, instance_type: str, zone: str, tenancy: str) -> Reservation | None:
        """The open reservation that a launch without any preference falls into."""
        for reservation in self.by_id.values():
            if (
                reservation.criteria == "open"
                and reservation.kind == "default"
                and not reservation.interruptible
                and reservation.available > 0
                and reservation.tenancy == tenancy
                and reservation.fits(instance_type, zone)
            ):
                return reservation
        return None

    def targeted(self, reservation_id: str, instance_type: str, zone: str) -> Reservation:
        reservation = self.get(reservation_id)
        if not reservation.fits(instance_type, zone):
            raise AwsError(
                "InvalidParameterCombination",
                f"The attributes of the capacity reservation {reservation_id} do not match the instance's.",
            )
        if reservation.available <= 0:
            raise AwsError(
                "ReservationCapacityExceeded",
                f"The requested reservation {reservation_id} does not have sufficient compatible and available capacity for this request.",
            )
        return reservation

    def give_back(self, reservation_id: str) -> None:
        reservation = self.by_id.get(reservation_id)
        if reservation:
            reservation.available = min(reservation.total, reservation.available + 1)


FIELDS = {
    "instance-type": lambda r: r.instance_type,
    "owner-id": lambda r: r.owner,
    "state": lambda r: r.state,
    "availability-zone": lambda r: r.zone,
    "instance-match-criteria": lambda r: r.criteria,
    "tenancy": lambda r: r.tenancy,
    "instance-platform": lambda r: r.platform,
    "end-date-type": lambda r: "unlimited" if r.ends is None else "limited",
    "reservation-type": lambda r: r.kind,
}


@ec2("DescribeCapacityReservations")
def describe_capacity_reservations(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    reservations, now = call.world.reservations, time.time()
    for reservation in reservations.by_id.values():
        if reservation.ends is not None and reservation.ends <= now and reservation.state == "active":
            end(call.world, reservation, "expired")
    wanted = params.get("CapacityReservationIds")
    chosen = [reservations.get(i) for i in wanted] if wanted else list(reservations.by_id.values())
    matches = Matcher(params.get("Filters"), FIELDS, lambda r: r.tags)
    chosen = sorted((r for r in chosen if matches(r)), key=lambda r: r.id)
    page, token = call.world.pager.page(call.action, chosen, lambda r: r.id, params, 1, 1000)
    return {"CapacityReservations": [r.describe(call.region) for r in page], "NextToken": token}


@ec2("CreateCapacityReservation")
def create_capacity_reservation(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    body = {
        "instanceType": params["InstanceType"],
        "zone": params.get("AvailabilityZone"),
        "total": params["InstanceCount"],
        "criteria": params.get("InstanceMatchCriteria", "open"),
        "platform": params.get("InstancePlatform", "Linux/UNIX"),
        "tenancy": params.get("Tenancy", "default"),
        "ends": params.get("EndDate"),
        "tags": tags_for(params.get("TagSpecifications"), "capacity-reservation"),
    }
    return {"CapacityReservation": create(call.world, body).describe(call.region)}


@ec2("CancelCapacityReservation")
def cancel_capacity_reservation(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    end(call.world, call.world.reservations.get(params["CapacityReservationId"]), "cancelled")
    return {"Return": True}


def end(world: Any, reservation: Reservation, state: str) -> None:
    """Its instances keep running, on demand, and are no longer listed as using it."""
    reservation.state, reservation.available = state, 0
    for instance in world.instances.all():
        if instance.reservation_id == reservation.id:
            instance.reservation_id = None
            instance.record["CapacityReservationId"] = None
            world.instances.mark(instance)


def create(world: Any, body: dict[str, Any]) -> Reservation:
    """Creates or, when the id exists, replaces a reservation; `body` is the control path's form."""
    zones = world.network.zone_ids()
    zone = body.get("zone")
    if zone not in zones:
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{zone}]")
    if body["instanceType"] not in world.types.types:
        raise AwsError("InvalidParameterValue", f"Invalid value '{body['instanceType']}' for InstanceType.")
    total = int(body.get("total", 1))
    reservation = Reservation(
        id=body.get("id") or world.new_id("cr"),
        instance_type=body["instanceType"],
        zone=zone,
        zone_id=zones[zone],
        total=total,
        available=int(body.get("available", total)),
        owner=body.get("owner", ACCOUNT),
        criteria=body.get("criteria", "open"),
        kind=body.get("kind", "default"),
        platform=body.get("platform", "Linux/UNIX"),
        tenancy=body.get("tenancy", "default"),
        interruptible=bool(body.get("interruptible", False)),
        ends=body.get("ends") or (time.time() + body["endsInSeconds"] if "endsInSeconds" in body else None),
        tags=dict(body.get("tags", {})),
    )
    world.reservations.by_id[reservation.id] = reservation
    return reservation
