"""DescribeSpotPriceHistory: the current price of every (type, zone) plus the steps before it.

With a StartTime of now EC2 answers one row a pool: the price in force. An earlier StartTime also
shows older rows; ours step every six hours by a few per cent around the current figure.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any
from xml.sax.saxutils import escape

from .actions import Call, ec2
from .filters import Matcher, at
from .prices import dollars
from .wire import Raw, format_time

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
    types = tuple(sorted(params.get("InstanceTypes") or ()))
    zone, filters, end = params.get("AvailabilityZone"), params.get("Filters"), params.get("EndTime")
    # The pages of one listing, and listings that all ask for what is in force now, are cut from one list.
    moment = int(now) // 600
    since = "now" if start >= now - 30 else start
    key = (call.region, world.prices.version, moment, since, end, types, zone, repr(filters))
    rows = world.types.listings.get(
        ("spot", *key), lambda: rows_of(call, types, zone, filters, start, min(end or now, now))
    )
    page, token = world.pager.page(call.action, rows, lambda row: row[0], params, 1, 10000, default=1000)
    return {"SpotPriceHistory": [xml for _, xml in page], "NextToken": token or ""}


def rows_of(
    call: Call, types: tuple[str, ...], zone: str | None, filters: Any, start: float, end: float
) -> list[tuple[str, Raw]]:
    world = call.world
    ids = world.network.zone_ids()
    matches = Matcher(filters, FIELDS)
    rows = []
    for instance_type, where in world.types.zones(call.region):
        if (types and instance_type not in types) or (zone and where != zone) or where not in ids:
            continue
        if "spot" not in world.types.types.get(instance_type, {}).get("SupportedUsageClasses", ()):
            continue
        price = world.prices.spot(call.region, instance_type, where)
        if price is None:
            continue
        odd = world.prices.odd_spot
        written = odd.get((instance_type, where), odd.get((instance_type, "*")))
        for changed, figure in history(instance_type, where, price, start, end):
            text = dollars(figure) if written is None else written
            row = {
                "AvailabilityZone": where,
                "AvailabilityZoneId": ids[where],
                "InstanceType": instance_type,
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": text,
            }
            if not filters or matches(row):
                # Newest first within a pool, as EC2 orders.
                order = f"{instance_type}/{where}/{9_999_999_999 - int(changed):011d}"
                xml = (
                    f"<availabilityZone>{where}</availabilityZone><availabilityZoneId>{ids[where]}</availabilityZoneId>"
                    f"<instanceType>{instance_type}</instanceType><productDescription>Linux/UNIX</productDescription>"
                    f"<spotPrice>{escape(text)}</spotPrice><timestamp>{format_time(changed)}</timestamp>"
                )
                rows.append((order, Raw(xml)))
    return sorted(rows)


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
