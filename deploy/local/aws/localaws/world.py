"""All of our state in one region, and the settings that every region shares."""

from __future__ import annotations

import secrets
import threading
import time
import uuid
import zlib
from dataclasses import dataclass
from typing import Any

from . import ACCOUNT
from .events import Events
from .faults import SPARED, Faults
from .filters import Pager
from .images import ImageCatalogue
from .instance_types import TypeCatalogue
from .instances import Instance, Instances
from .network import Network
from .placement import Groups
from .prices import PriceBook
from .reservations import Reservations
from .ssm import Parameters
from .templates import Templates
from .wire import Ec2Wire


@dataclass
class Settings:
    """How quickly things happen, in milliseconds, and what an account may have."""

    running_after_ms: float = 0
    terminated_after_ms: float = 300
    stopped_after_ms: float = 300
    terminated_listed_ms: float = 600_000
    state_change_events: bool = True
    # A new instance or launch template is unknown to other calls for up to this long, each for a time of its own.
    visible_after_ms: float = 0
    # A new instance profile is refused by launches for this long.
    profile_usable_after_ms: float = 0
    # price-capacity-optimized takes the pool with the most capacity instead of the cheapest.
    spot_by_capacity: bool = False
    # CreateFleet launches at most so many instances of those asked for; 0 is all.
    fleet_at_most: float = 0
    # Share of the rate at which EC2 refills the buckets of its default request limits; 0 is no limit.
    request_rates: float = 0
    # vCPUs of running instances; 0 is no limit.
    on_demand_vcpu_quota: float = 0
    spot_vcpu_quota: float = 0

    def reset(self) -> None:
        self.__init__()  # type: ignore[misc]


@dataclass
class Shared:
    """What does not depend on the region."""

    wire: Ec2Wire
    types: TypeCatalogue
    prices: PriceBook
    faults: Faults
    settings: Settings
    pager: Pager


class World:
    def __init__(self, region: str, shared: Shared):
        self.region, self.account = region, ACCOUNT
        self.wire, self.types, self.prices = shared.wire, shared.types, shared.prices
        self.faults, self.settings, self.pager = shared.faults, shared.settings, shared.pager
        self.lock = threading.RLock()
        self.network = Network(region)
        self.images = ImageCatalogue(region)
        self.parameters = Parameters(self.images, region)
        self.templates = Templates()
        self.reservations = Reservations()
        self.groups = Groups()
        self.instances = Instances(self.lock, shared.settings)
        self.events = Events(region, shared.settings)
        self.instances.on_state += [self._release, self.events.state_changed]
        self.fleet_tokens: dict[str, tuple[str, dict[str, Any]]] = {}

    def reset(self) -> None:
        with self.lock:
            self.network.reset()
            self.images.reset()
            self.templates.reset()
            self.reservations.reset()
            self.groups.reset()
            self.instances.reset()
            self.fleet_tokens.clear()

    def is_visible(self, resource: str, created: float, access_key: str) -> bool:
        """Whether a call of this key sees the resource yet. The node joiner plays machines, which know themselves."""
        share = (zlib.crc32(resource.encode()) % 1000 + 1) / 1000
        return access_key in SPARED or time.time() >= created + share * self.settings.visible_after_ms / 1000

    def new_id(self, prefix: str) -> str:
        return f"{prefix}-{secrets.token_hex(9)[:17]}"

    def new_fleet_id(self) -> str:
        return f"fleet-{uuid.uuid4()}"

    def _release(self, instance: Instance, before: str) -> None:
        """What an ending instance gives back. Its capacity returns when it begins to end."""
        if instance.state == "shutting-down" or (instance.state == "terminated" and before != "shutting-down"):
            if instance.reservation_id:
                self.reservations.give_back(instance.reservation_id)
        if instance.state == "terminated":
            subnet_id = instance.record.get("SubnetId")
            if subnet_id:
                self.network.give_back(subnet_id, instance.addresses, instance.extra_addresses)


class Worlds:
    """One world a region, made when the region is first used."""

    def __init__(self, shared: Shared):
        self.shared = shared
        self._worlds: dict[str, World] = {}
        self._lock = threading.Lock()

    def get(self, region: str) -> World:
        with self._lock:
            if region not in self._worlds:
                self._worlds[region] = World(region, self.shared)
            return self._worlds[region]

    def all(self) -> list[World]:
        with self._lock:
            return list(self._worlds.values())
