"""What capacity costs, in whole micro-dollars per hour: on-demand by type, spot by type and zone.

Spot prices are the family's typical discount, moved up or down by up to 18 % by a hash of type
and zone, so that zones differ as they do in life and every run sees the same figures. A test can
set any of them, also to texts that are no price at all.
"""

from __future__ import annotations

import csv
import hashlib
import pathlib
import threading

TABLE = pathlib.Path(__file__).parent.parent / "data" / "prices.csv"


class PriceBook:
    def __init__(self) -> None:
        self._base: dict[str, int] = {}
        self._spot: dict[str, int] = {}
        self._region: dict[str, int] = {}
        with TABLE.open() as file:
            tables = {"type": self._base, "spot": self._spot, "region": self._region}
            for kind, name, value in csv.reader(file):
                tables[kind][name] = int(value)
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self._on_demand_set: dict[tuple[str, str], int] = {}
            self._spot_set: dict[tuple[str, str], int] = {}
            self.odd_spot: dict[tuple[str, str], str] = {}  # (type, zone or *): text in place of a price
            self.odd_on_demand: dict[tuple[str, str], dict[str, str]] = {}  # (region, type): texts by currency
            self.version = getattr(self, "version", 0) + 1

    def types(self) -> list[str]:
        return list(self._base)

    def on_demand(self, region: str, instance_type: str) -> int | None:
        fixed = self._on_demand_set.get((region, instance_type))
        if fixed is not None:
            return fixed
        base = self._base.get(instance_type)
        return None if base is None else base * self._region.get(region, 1000) // 1000

    def spot(self, region: str, instance_type: str, zone: str) -> int | None:
        for key in ((instance_type, zone), (instance_type, "*")):
            if key in self._spot_set:
                return self._spot_set[key]
        base = self._base.get(instance_type)
        ratio = self._spot.get(instance_type.split(".")[0])
        if base is None or ratio is None:
            return None
        on_demand = base * self._region.get(region, 1000) // 1000
        jitter = 820 + int.from_bytes(hashlib.sha256(f"{instance_type}/{zone}".encode()).digest()[:4]) % 361
        return max(100, min(on_demand * ratio * jitter // 1_000_000, on_demand))

    def set_spot(self, instance_type: str, zone: str, micro: int) -> None:
        with self._lock:
            self._spot_set[(instance_type, zone)] = micro
            self.version += 1

    def set_on_demand(self, region: str, instance_type: str, micro: int) -> None:
        with self._lock:
            self._on_demand_set[(region, instance_type)] = micro
            self.version += 1


    def write_odd_spot(self, instance_type: str, zone: str, text: str) -> None:
        with self._lock:
            self.odd_spot[(instance_type, zone)] = text
            self.version += 1

    def write_odd_on_demand(self, region: str, instance_type: str, texts: dict[str, str]) -> None:
        with self._lock:
            self.odd_on_demand[(region, instance_type)] = texts
            self.version += 1


def dollars(micro: int, places: int = 6) -> str:
    """Micro-dollars as AWS prints money: a decimal with a fixed number of places."""
    return f"{micro // 1_000_000}.{micro % 1_000_000:06d}" + "0" * (places - 6)
