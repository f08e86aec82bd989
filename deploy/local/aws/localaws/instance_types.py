"""DescribeInstanceTypes and DescribeInstanceTypeOfferings from moto's real figures, but filtered
and paged as EC2 does and quick: each type's XML is rendered once."""

from __future__ import annotations

import threading
from typing import Any

from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES, InstanceType

from .actions import Call, ec2
from .errors import AwsError
from .filters import Listings, Matcher, at
from .wire import Ec2Wire, Raw

FIELDS = {name: at(*path) for name, path in InstanceType._filter_attributes.items()}
FIELDS["processor-info.supported-features"] = at("ProcessorInfo", "SupportedFeatures")
FIELDS["nitro-enclaves-support"] = at("NitroEnclavesSupport")


class TypeCatalogue:
    """All instance types, and which of them each zone offers."""

    def __init__(self, wire: Ec2Wire):
        self.wire = wire
        self.types: dict[str, dict[str, Any]] = dict(sorted(INSTANCE_TYPES.items()))
        self._xml: dict[str, Raw] = {}
        self._lock = threading.Lock()
        self._zones: dict[str, set[tuple[str, str]]] = {}
        self._regional: dict[str, set[str]] = {}
        self.listings = Listings()

    def warm(self) -> None:
        """Renders everything once; called from a thread at start so that no caller waits for it."""
        for name in self.types:
            self.xml(name)

    def xml(self, name: str) -> Raw:
        found = self._xml.get(name)
        if found is None:
            found = self.wire.fragment("InstanceTypeInfo", self.types[name])
            self._xml[name] = found
        return found

    def offered(self, region: str, instance_type: str, zone: str) -> bool:
        return (instance_type, zone) in self.zones(region)

    def zones(self, region: str) -> set[tuple[str, str]]:
        with self._lock:
            if region not in self._zones:
                rows = offerings("availability-zone", region)
                self._zones[region] = {(o["InstanceType"], o["Location"]) for o in rows}
                self._regional[region] = {o["InstanceType"] for o in rows}
            return self._zones[region]

    def in_region(self, region: str) -> set[str]:
        self.zones(region)
        return self._regional[region]


def offerings(location_type: str, region: str) -> list[dict[str, str]]:
    """What moto lists. Of the partitions of China and of the US government it lists nothing: there everything is sold that
    us-west-2a sells."""
    rows = INSTANCE_TYPE_OFFERINGS[location_type].get(region, [])
    if rows or location_type != "availability-zone":
        return rows
    zones = [zone.name for zone in RegionsAndZonesBackend.zones.get(region, [])]
    sold = [o["InstanceType"] for o in INSTANCE_TYPE_OFFERINGS[location_type]["us-west-2"] if o["Location"] == "us-west-2a"]
    return [{"InstanceType": name, "Location": zone} for name in sold for zone in zones]


@ec2("DescribeInstanceTypes")
def describe_instance_types(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    catalogue = call.world.types
    wanted = params.get("InstanceTypes")
    if wanted:
        unknown = [t for t in wanted if t not in catalogue.types]
        if unknown:
            raise AwsError(
                "InvalidInstanceType", f"The following supplied instance types do not exist: [{', '.join(unknown)}]"
            )
        names = sorted(set(wanted))
    else:
        regional = catalogue.in_region(call.region)
        names = [t for t in catalogue.types if t in regional]
    filters = params.get("Filters")

    def matching() -> list[str]:
        matches = Matcher(filters, FIELDS)
        return [n for n in names if matches(catalogue.types[n])]

    names = catalogue.listings.get((call.region, tuple(wanted or ()), repr(filters)), matching)
    page, token = call.world.pager.page(call.action, names, lambda n: n, params, 5, 100, default=100)
    return {"InstanceTypes": [catalogue.xml(n) for n in page], "NextToken": token}


@ec2("DescribeInstanceTypeOfferings")
def describe_instance_type_offerings(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    location_type = params.get("LocationType", "region")
    if location_type not in INSTANCE_TYPE_OFFERINGS:
        raise AwsError("InvalidParameterValue", f"Value ({location_type}) for parameter LocationType is invalid.")
    filters = params.get("Filters")

    def matching() -> list[tuple[str, Raw]]:
        matches = Matcher(filters, {"location": at("Location"), "instance-type": at("InstanceType")})
        found = []
        for o in offerings(location_type, call.region):
            if matches(o):
                name, where = o["InstanceType"], o["Location"]
                xml = f"<instanceType>{name}</instanceType><locationType>{location_type}</locationType><location>{where}</location>"
                found.append((f"{name}/{where}", Raw(xml)))
        return sorted(found)

    listings = call.world.types.listings
    rows = listings.get(("offerings", call.region, location_type, repr(filters)), matching)
    page, token = call.world.pager.page(call.action, rows, lambda row: row[0], params, 5, 1000, default=1000)
    return {"InstanceTypeOfferings": [xml for _, xml in page], "NextToken": token}
