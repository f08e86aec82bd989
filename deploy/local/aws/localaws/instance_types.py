"""DescribeInstanceTypes and DescribeInstanceTypeOfferings from moto's real figures, but filtered
and paged as EC2 does and quick: each type's XML is rendered once."""

from __future__ import annotations

import threading
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES, InstanceType

from .actions import Call, ec2
from .errors import AwsError
from .filters import Matcher, at
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
                rows = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
                self._zones[region] = {(o["InstanceType"], o["Location"]) for o in rows}
                self._regional[region] = {o["InstanceType"] for o in rows}
            return self._zones[region]

    def in_region(self, region: str) -> set[str]:
        self.zones(region)
        return self._regional[region]


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
    matches = Matcher(params.get("Filters"), FIELDS)
    names = [n for n in names if matches(catalogue.types[n])]
    page, token = call.world.pager.page(call.action, names, lambda n: n, params, 5, 100, default=100)
    return {"InstanceTypes": [catalogue.xml(n) for n in page], "NextToken": token}


@ec2("DescribeInstanceTypeOfferings")
def describe_instance_type_offerings(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    location_type = params.get("LocationType", "region")
    table = INSTANCE_TYPE_OFFERINGS.get(location_type)
    if table is None:
        raise AwsError("InvalidParameterValue", f"Value ({location_type}) for parameter LocationType is invalid.")
    matches = Matcher(params.get("Filters"), {"location": at("Location"), "instance-type": at("InstanceType")})
    rows = [
        {"InstanceType": o["InstanceType"], "LocationType": location_type, "Location": o["Location"]}
        for o in table.get(call.region, [])
        if matches(o)
    ]
    rows.sort(key=offering_key)
    page, token = call.world.pager.page(call.action, rows, offering_key, params, 5, 1000, default=1000)
    return {"InstanceTypeOfferings": page, "NextToken": token}


def offering_key(offering: dict[str, str]) -> str:
    return f"{offering['InstanceType']}/{offering['Location']}"
