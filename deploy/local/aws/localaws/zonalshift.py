"""ARC zonal shift: one managed resource, the local cluster, with shifts started and cancelled by the
real API or by the control path."""

from __future__ import annotations

import time
import uuid
from typing import Any
from urllib.parse import unquote

from .eks import Cluster
from .errors import AwsError


class ZonalShifts:
    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        self.shifts: dict[str, dict[str, Any]] = {}

    def reset(self) -> None:
        self.shifts.clear()

    def handle(self, region: str, zones: list[str], method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        parts = [unquote(p) for p in path.strip("/").split("/", 1)]
        if method == "GET" and parts[0] == "managedresources":
            if len(parts) == 1:
                return {"items": [{"arn": self.cluster.arn(region), "name": self.cluster.name, "availabilityZones": zones}]}
            if parts[1] != self.cluster.arn(region):
                raise AwsError("ResourceNotFoundException", f"{parts[1]} is not a managed resource.", 404)
            active = [s for s in self.shifts.values() if s["expiryTime"] > time.time()]
            away = {s["awayFrom"] for s in active}
            return {
                "arn": self.cluster.arn(region),
                "name": self.cluster.name,
                "appliedWeights": {z: 0.0 if z in away else 1.0 for z in zones},
                "zonalShifts": [{k: v for k, v in s.items() if k != "status"} | {"appliedStatus": "APPLIED"} for s in active],
                "autoshifts": [],
                "zonalAutoshiftStatus": "DISABLED",
            }
        if parts[0] == "zonalshifts":
            if method == "GET":
                return {"items": list(self.shifts.values())}
            if method == "POST":
                return self.start(region, body["awayFrom"], minutes(body.get("expiresIn", "1h")), body.get("comment", ""))
            if method == "DELETE" and len(parts) == 2:
                shift = self.shifts.pop(parts[1], None)
                if shift is None:
                    raise AwsError("ResourceNotFoundException", f"There is no zonal shift {parts[1]}.", 404)
                return {**shift, "status": "CANCELED"}
        raise AwsError("ResourceNotFoundException", f"{method} {path} is not served here.", 404)

    def start(self, region: str, zone_id: str, lasts_minutes: float, comment: str = "") -> dict[str, Any]:
        now = time.time()
        shift = {
            "zonalShiftId": str(uuid.uuid4()),
            "resourceIdentifier": self.cluster.arn(region),
            "awayFrom": zone_id,
            "startTime": now,
            "expiryTime": now + lasts_minutes * 60,
            "status": "ACTIVE",
            "comment": comment,
        }
        self.shifts[shift["zonalShiftId"]] = shift
        return shift


def minutes(text: str) -> float:
    value, unit = float(text[:-1]), text[-1]
    return value * 60 if unit == "h" else value
