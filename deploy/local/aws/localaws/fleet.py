"""CreateFleet of type `instant`: chooses among overrides as EC2 documents its strategies.

Simplifications, on purpose: `price-capacity-optimized` takes the cheapest pool that has capacity, unless a
test sets `spotByCapacity`, and `capacity-optimized` the deepest, which is a fixed figure of each pool.
Pools are tried one after another, and every pool that failed before the target was met is reported
in Errors, so an answer may hold instances and errors at once, as EC2's does.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from .actions import Call, ec2
from .errors import AwsError, dry_run, missing
from .faults import explain
from .filters import tags_for
from .instances import Instance
from .launch import Spec, launch, resolve
from .prices import dollars

UNKNOWN_PRICE = 1 << 60
# SDKs send a token with every request, so they must not pile up.
TOKENS_KEPT = 5000


@dataclass
class Pool:
    """One override that may be tried. `problem` is why it cannot launch, known beforehand."""

    override: dict[str, Any]
    template: dict[str, Any]
    data: dict[str, Any]
    order: int
    spec: Spec | None = None
    problem: AwsError | None = None
    price: int = UNKNOWN_PRICE

    @property
    def priority(self) -> float:
        return self.override.get("Priority", math.inf)

    @property
    def weight(self) -> float:
        return self.override.get("WeightedCapacity") or 1.0


@ec2("CreateFleet", checks_first=True)
def create_fleet(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    world = call.world
    check(params)
    token = params.get("ClientToken")
    digest = fingerprint(params)
    if token and token in world.fleet_tokens:
        before, answer = world.fleet_tokens[token]
        if before != digest:
            raise AwsError(
                "IdempotentParameterMismatch",
                "The client token you have provided is associated with a fleet that has different parameters.",
            )
        return answer
    templates = resolve_templates(call, params["LaunchTemplateConfigs"])
    if params.get("DryRun"):
        raise dry_run()
    fleet_id = world.new_fleet_id()
    instances: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    for lifecycle, wanted, options in targets(params):
        got, failed = fill(world, params, templates, fleet_id, lifecycle, wanted, options)
        instances += got
        errors += failed
    answer = {"FleetId": fleet_id, "Instances": instances, "Errors": errors}
    if token:
        world.fleet_tokens[token] = (digest, answer)
        while len(world.fleet_tokens) > TOKENS_KEPT:
            del world.fleet_tokens[next(iter(world.fleet_tokens))]
    return answer


def fingerprint(params: dict[str, Any]) -> str:
    """Equal for requests that differ in nothing but the token."""
    rest = {k: v for k, v in params.items() if k != "ClientToken"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def check(params: dict[str, Any]) -> None:
    if not params.get("LaunchTemplateConfigs"):
        raise missing("LaunchTemplateConfigs")
    if "TargetCapacitySpecification" not in params:
        raise missing("TargetCapacitySpecification")
    if params.get("Type") != "instant":
        raise AwsError(
            "InvalidParameterValue", f"Fleets of type {params.get('Type', 'maintain')} are not served here; use instant."
        )
    if params["TargetCapacitySpecification"].get("TotalTargetCapacity") is None:
        raise missing("TargetCapacitySpecification.TotalTargetCapacity")
    for kind in ("fleet", "instance", "volume", "launch-template"):
        for key in tags_for(params.get("TagSpecifications"), kind):
            if key.lower().startswith("aws:"):
                raise AwsError("InvalidParameterValue", f"Tag keys starting with 'aws:' are reserved for internal use: {key}")
    overrides = sum(len(c.get("Overrides") or []) for c in params["LaunchTemplateConfigs"])
    if overrides > 300:
        raise AwsError("InvalidParameterValue", f"A fleet may have at most 300 overrides, got {overrides}.")


def resolve_templates(call: Call, configs: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    world, found = call.world, []
    for config in configs:
        given = config.get("LaunchTemplateSpecification") or {}
        template = world.templates.find(given.get("LaunchTemplateId"), given.get("LaunchTemplateName"))
        if not world.is_visible(template.id, template.created, call.access_key):
            raise AwsError(
                "InvalidLaunchTemplateName.NotFoundException",
                f"The specified launch template, with template name {template.name}, does not exist.",
            )
        number = template.number(given.get("Version"))
        found.append(({"LaunchTemplateId": template.id, "Version": str(number)}, template.versions[number][2]))
    return found


def targets(params: dict[str, Any]) -> list[tuple[str, int, dict[str, Any]]]:
    """(lifecycle, count, options) for each kind of capacity that the request asks for."""
    target = params["TargetCapacitySpecification"]
    total = target["TotalTargetCapacity"]
    on_demand, spot = target.get("OnDemandTargetCapacity", 0), target.get("SpotTargetCapacity", 0)
    rest = total - on_demand - spot
    default = target.get("DefaultTargetCapacityType", "on-demand")
    out = []
    if default in ("capacity-block", "reserved-capacity"):
        kind = "capacity-block" if default == "capacity-block" else "interruptible-capacity-reservation"
        out.append((kind, rest, params.get("ReservedCapacityOptions") or {}))
    elif default == "spot":
        spot += rest
    else:
        on_demand += rest
    if on_demand:
        out.append(("on-demand", on_demand, params.get("OnDemandOptions") or {}))
    if spot:
        out.append(("spot", spot, params.get("SpotOptions") or {}))
    return out


def fill(world, params, templates, fleet_id, lifecycle, wanted, options):
    pools = ranked(world, candidates(world, params, templates, lifecycle), lifecycle, options)
    got: dict[int, tuple[Pool, list[Instance]]] = {}
    errors: list[dict[str, Any]] = []
    left = float(wanted)
    most = int(world.settings.fleet_at_most) or math.inf
    diversify = options.get("AllocationStrategy") == "diversified"
    for position, pool in enumerate(pools):
        if left <= 0:
            break
        count = math.ceil(left / pool.weight)
        if diversify:
            count = math.ceil(count / (len(pools) - position))
        launched, problem = try_pool(world, pool, params, fleet_id, min(count, most))
        most -= len(launched)
        if most <= 0 and len(launched) < count:
            problem = AwsError("InsufficientInstanceCapacity", explain("InsufficientInstanceCapacity", pool.spec.pool, world.network.zone_ids()))
            pools[position + 1 :] = []
        if launched:
            left -= len(launched) * pool.weight
            got[position] = (pool, launched)
            chosen = pool.spec
            if options.get("SingleInstanceType"):
                pools[position + 1 :] = [p for p in pools[position + 1 :] if p.spec and p.spec.instance_type == chosen.instance_type]
            if options.get("SingleAvailabilityZone"):
                pools[position + 1 :] = [p for p in pools[position + 1 :] if p.spec and p.spec.zone == chosen.zone]
        if problem:
            errors.append(error_entry(pool, lifecycle, problem))
    minimum = options.get("MinTargetCapacity")
    if minimum and wanted - left < minimum:
        for _, launched in got.values():
            for instance in launched:
                world.instances.set_state(instance, "shutting-down", "the fleet's minimum was not reached", "Client.FleetMinimum")
        got = {}
    return [instance_entry(pool, lifecycle, launched) for pool, launched in got.values()], errors


def candidates(world: Any, params: dict[str, Any], templates: list[Any], lifecycle: str) -> list[Pool]:
    pools = []
    for config, (template, data) in zip(params["LaunchTemplateConfigs"], templates):
        for override in config.get("Overrides") or [{}]:
            pool = Pool(override, template, data, len(pools))
            try:
                pool.spec = resolve(world, data, override, lifecycle)
                pool.price = price(world, pool.spec, override)
            except AwsError as problem:
                pool.problem = problem
            pools.append(pool)
    return pools


def price(world: Any, spec: Spec, override: dict[str, Any]) -> int:
    if spec.lifecycle != "spot":
        found = world.prices.on_demand(world.region, spec.instance_type)
        return UNKNOWN_PRICE if found is None else found
    found = world.prices.spot(world.region, spec.instance_type, spec.zone)
    if found is None:
        return UNKNOWN_PRICE
    limit = override.get("MaxPrice")
    if limit and int(float(limit) * 1_000_000) < found:
        raise AwsError(
            "SpotMaxPriceTooLow",
            f"Your Spot request price of {limit} is lower than the minimum required Spot request fulfillment price of {dollars(found)}.",
        )
    return found


def ranked(world: Any, pools: list[Pool], lifecycle: str, options: dict[str, Any]) -> list[Pool]:
    strategy = options.get("AllocationStrategy") or "lowest-price"
    if strategy in ("prioritized", "capacity-optimized-prioritized"):
        key = lambda p: (p.priority, p.price, p.order)  # noqa: E731
    elif strategy == "capacity-optimized" or (strategy == "price-capacity-optimized" and world.settings.spot_by_capacity):
        key = lambda p: (-world.faults.depth(p.spec.pool) if p.spec else 0, p.price, p.order)  # noqa: E731
    else:
        key = lambda p: (p.price, p.order)  # noqa: E731
    pools = sorted(pools, key=key)
    usage = (options.get("CapacityReservationOptions") or {}).get("UsageStrategy")
    if lifecycle == "on-demand" and usage == "use-capacity-reservations-first":
        pools.sort(key=lambda p: not (p.spec and world.reservations.open_match(p.spec.instance_type, p.spec.zone, "default")))
    return pools


def check_quota(world: Any, spec: Spec) -> None:
    """vCPUs of an account by kind of capacity, over all of its instances."""
    spot = spec.lifecycle == "spot"
    quota = world.settings.spot_vcpu_quota if spot else world.settings.on_demand_vcpu_quota
    if not quota:
        return
    vcpus = lambda name: world.types.types[name]["VCpuInfo"]["DefaultVCpus"]  # noqa: E731
    used = sum(vcpus(i.type) for i in world.instances.all() if i.alive and (i.lifecycle == "spot") == spot)
    if used + vcpus(spec.instance_type) <= quota:
        return
    if spot:
        raise AwsError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    raise AwsError(
        "VcpuLimitExceeded",
        f"You have requested more vCPU capacity than your current vCPU limit of {quota:.0f} allows for the instance bucket "
        "that the specified instance type belongs to.",
    )


def try_pool(world, pool: Pool, params, fleet_id: str, count: int) -> tuple[list[Instance], AwsError | None]:
    if pool.spec is None:
        return [], pool.problem
    spec = pool.spec
    spec.tags = params.get("TagSpecifications") or []
    spec.system_tags = {
        "aws:ec2:fleet-id": fleet_id,
        "aws:ec2launchtemplate:id": pool.template["LaunchTemplateId"],
        "aws:ec2launchtemplate:version": pool.template["Version"],
    }
    launched: list[Instance] = []
    try:
        for _ in range(count):
            check_quota(world, spec)
            if not reserved(spec):
                world.faults.take_capacity(spec.pool, world.network.zone_ids())
            launched.append(launch(world, spec))
    except AwsError as problem:
        return launched, problem
    return launched, None


def reserved(spec: Spec) -> bool:
    """A launch into a targeted reservation does not meet the pool's shortage: that is its point."""
    given = spec.data.get("CapacityReservationSpecification") or {}
    return given.get("CapacityReservationPreference") == "capacity-reservations-only" or bool(
        given.get("CapacityReservationTarget")
    )


def described(pool: Pool) -> dict[str, Any]:
    override = dict(pool.override)
    if pool.spec:
        override.setdefault("InstanceType", pool.spec.instance_type)
        override.setdefault("AvailabilityZone", pool.spec.zone)
    return {"LaunchTemplateSpecification": pool.template, "Overrides": override}


def instance_entry(pool: Pool, lifecycle: str, launched: list[Instance]) -> dict[str, Any]:
    return {
        "LaunchTemplateAndOverrides": described(pool),
        "Lifecycle": lifecycle,
        "InstanceIds": [i.id for i in launched],
        "InstanceType": pool.spec.instance_type if pool.spec else None,
        "Platform": "Windows" if pool.spec and pool.spec.image.platform else None,
    }


def error_entry(pool: Pool, lifecycle: str, problem: AwsError) -> dict[str, Any]:
    return {
        "LaunchTemplateAndOverrides": described(pool),
        "Lifecycle": lifecycle,
        "ErrorCode": problem.code,
        "ErrorMessage": problem.message,
    }
