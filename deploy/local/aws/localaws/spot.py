"""DescribeSpotPriceHistory: the current price of every (type, zone) plus the steps before it.

With a StartTime of now EC2 answers one row a pool: the price in force. An earlier StartTime also
shows older rows; ours step every six hours by a few per cent around the current figure.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any

from .actions import Call, ec2
from .filters import Matcher, at
from .prices import dollars
from .wire import when

STEP = 6 * 3600
PRODUCTS = ("Linux/UNIX",)
FIELDS = {
    "availability-zone": at("AvailabilityZone"),
    "availability-zone-id": at("AvailabilityZoneId"),
    "instance-type": at("InstanceType"),
    "product-description": at("ProductDescription"),
    "spot-price": at("SpotPrice"),
}


@ec2("DescribeSpotPriceHistory")
def describe_spot_price_history(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    world = call.world
    wanted = params.get("ProductDescriptions")
    if wanted and not set(wanted) & {"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}:
        return {"SpotPriceHistory": []}
    now = time.time()
    start = params.get("StartTime", now - 90 * 24 * 3600)
    end = params.get("EndTime", now)
    types = set(params.get("InstanceTypes") or ()) or None
    zone = params.get("AvailabilityZone")
    ids = world.network.zone_ids()
    matches = Matcher(params.get("Filters"), FIELDS)
    rows = []
    for instance_type, where in world.types.zones(call.region):
        if (types and instance_type not in types) or (zone and where != zone) or where not in ids:
            continue
        if "spot" not in world.types.types.get(instance_type, {}).get("SupportedUsageClasses", ()):
            continue
        price = world.prices.spot(call.region, instance_type, where)
        if price is None:
            continue
        for changed, figure in history(instance_type, where, price, start, min(end, now)):
            row = {
                "AvailabilityZone": where,
                "AvailabilityZoneId": ids[where],
                "InstanceType": instance_type,
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": dollars(figure),
                "Timestamp": when(changed),
            }
            if matches(row):
                rows.append(row)
    rows.sort(key=spot_key)
    page, token = world.pager.page(call.action, rows, spot_key, params, 1, 10000, default=1000)
    return {"SpotPriceHistory": page, "NextToken": token or ""}


def history(instance_type: str, zone: str, price: int, start: float, end: float) -> list[tuple[float, int]]:
    """Rows (time of change, price): the one in force at `start` and each change up to `end`, but no
    more than 30, newest first. The newest is always the current price."""
    offset = int.from_bytes(hashlib.sha256(f"{zone}{instance_type}".encode()).digest()[:2]) % STEP
    newest = (int(end) - offset) // STEP * STEP + offset
    rows = [(float(newest), price)]
    moment = newest
    while moment > start and len(rows) < 30:
        moment -= STEP
        wobble = 960 + int.from_bytes(hashlib.sha256(f"{instance_type}{zone}{moment}".encode()).digest()[:2]) % 81
        rows.append((float(moment), price * wobble // 1000))
    return rows


def spot_key(row: dict[str, Any]) -> str:
    # Newest first within a pool, as EC2 orders.
    return f"{row['InstanceType']}/{row['AvailabilityZone']}/{9_999_999_999 - int(row['Timestamp'].timestamp()):011d}"
