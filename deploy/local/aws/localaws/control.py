"""The control path: JSON over HTTP on its own port, by which a test changes how AWS behaves and looks
at what it did. See the README for every route with an example."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from . import images, placement, reservations, status
from .actions import Call
from .errors import AwsError
from .faults import ODD, CallRule, Shortage
from .gateway import Gateway
from .httpd import Request, Response
from .instances import CODES
from .world import World

Route = Callable[["Control", dict[str, Any]], Any]
ROUTES: dict[tuple[str, str], Route] = {}


def route(method: str, path: str) -> Callable[[Route], Route]:
    def register(handler: Route) -> Route:
        ROUTES[(method, path)] = handler
        return handler

    return register


class Control:
    def __init__(self, gateway: Gateway, region: str):
        self.gateway, self.region = gateway, region
        self.faults, self.log, self.worlds = gateway.faults, gateway.log, gateway.worlds
        self.boot: list[dict[str, Any]] = []  # for the node joiner, which reads them with the changes

    def world(self, body: dict[str, Any]) -> World:
        return self.worlds.get(body.get("region") or self.region)

    def instance(self, body: dict[str, Any]) -> Any:
        found = self.world(body).instances.by_id.get(need(body, "id"))
        if found is None:
            raise AwsError("NotFound", f"there is no instance {body['id']}", 404)
        return found

    def __call__(self, request: Request) -> Response:
        try:
            body = json.loads(request.body) if request.body.strip() else {}
            if not isinstance(body, dict):
                raise AwsError("BadRequest", "the body must be a JSON object")
            body = {**{k: v[-1] for k, v in parse_qs(request.query).items()}, **body}
            handler = ROUTES.get((request.method, request.path.rstrip("/") or "/"))
            if handler is None:
                known = ", ".join(sorted(f"{m} {p}" for m, p in ROUTES))
                raise AwsError("NotFound", f"no {request.method} {request.path}; there are: {known}", 404)
            answer = handler(self, body)
            return reply(200, answer if answer is not None else {"ok": True})
        except AwsError as error:
            return reply(error.status, {"error": error.code, "message": error.message})
        except (ValueError, TypeError, KeyError, re.error) as error:
            return reply(400, {"error": "BadRequest", "message": f"{type(error).__name__}: {error}"})


def reply(code: int, answer: Any) -> Response:
    return Response(code, [("Content-Type", "application/json")], json.dumps(answer).encode() + b"\n")


def need(body: dict[str, Any], name: str) -> Any:
    if body.get(name) in (None, ""):
        raise AwsError("BadRequest", f"the body must have {name!r}")
    return body[name]


@route("GET", "/healthz")
def healthz(control: Control, body: dict[str, Any]) -> Any:
    return {"ok": True, "region": control.region, "instances": len(control.world(body).instances.by_id)}


@route("PUT", "/reset")
@route("POST", "/reset")
def reset(control: Control, body: dict[str, Any]) -> Any:
    """Back to the start: faults, prices, settings, log; with `instances` also all EC2 state of ours."""
    control.faults.reset()
    control.worlds.shared.prices.reset()
    control.worlds.shared.settings.reset()
    control.gateway.shifts.reset()
    control.log.clear()
    control.boot = []
    if body.get("instances"):
        for world in control.worlds.all():
            world.reset()


# ---- faults


def shortage_key(body: dict[str, Any]) -> tuple[str, str, str]:
    return (body.get("capacityType", "*"), body.get("instanceType", "*"), body.get("zone", "*"))


@route("PUT", "/ice")
def put_ice(control: Control, body: dict[str, Any]) -> Any:
    for pool in body.get("pools") or [body]:
        control.faults.add_shortage(
            Shortage(
                *shortage_key(pool),
                code=pool.get("code", "InsufficientInstanceCapacity"),
                message=pool.get("message", ""),
                remaining=int(pool.get("remaining", 0)),
            )
        )
    return get_ice(control, body)


@route("GET", "/ice")
def get_ice(control: Control, body: dict[str, Any]) -> Any:
    return {"pools": [s.describe() for s in control.faults.shortages]}


@route("DELETE", "/ice")
def delete_ice(control: Control, body: dict[str, Any]) -> Any:
    named = any(k in body for k in ("capacityType", "instanceType", "zone"))
    control.faults.remove_shortage(shortage_key(body) if named else None)
    return get_ice(control, body)


def call_rules(path: str, name: str, make: Callable[[dict[str, Any]], CallRule]) -> None:
    def put(control: Control, body: dict[str, Any]) -> Any:
        rule = make(body)
        kept = [r for r in getattr(control.faults, name) if (r.action, r.access_key) != (rule.action, rule.access_key)]
        setattr(control.faults, name, [*kept, rule])
        return get(control, body)

    def delete(control: Control, body: dict[str, Any]) -> Any:
        rules = getattr(control.faults, name)
        setattr(control.faults, name, [r for r in rules if body.get("action") and r.action != body["action"]])
        return get(control, body)

    def get(control: Control, body: dict[str, Any]) -> Any:
        return {"rules": [vars(r) for r in getattr(control.faults, name)]}

    ROUTES[("PUT", path)], ROUTES[("DELETE", path)], ROUTES[("GET", path)] = put, delete, get


call_rules(
    "/latency",
    "latency",
    lambda b: CallRule(need(b, "action"), b.get("accessKey", "*"), ms=float(need(b, "ms"))),
)
call_rules(
    "/throttle",
    "throttle",
    lambda b: CallRule(
        need(b, "action"),
        b.get("accessKey", "*"),
        rate=float(b.get("rate", 0)),
        burst=float(b.get("burst", max(1.0, float(b.get("rate", 0))))),
        tokens=float(b.get("burst", max(1.0, float(b.get("rate", 0))))) if float(b.get("rate", 0)) else 0.0,
        code=b.get("code", ""),
    ),
)
call_rules(
    "/errors",
    "errors",
    lambda b: CallRule(
        need(b, "action"),
        b.get("accessKey", "*"),
        code=need(b, "code"),
        message=b.get("message", ""),
        status=b.get("status"),
        count=b.get("count"),
        percent=float(b.get("percent", 100)),
    ),
)


@route("PUT", "/partial-pages")
def put_pages(control: Control, body: dict[str, Any]) -> Any:
    control.faults.pages[need(body, "action")] = int(body.get("size", 1))
    return {"pages": control.faults.pages}


@route("DELETE", "/partial-pages")
def delete_pages(control: Control, body: dict[str, Any]) -> Any:
    if body.get("action"):
        control.faults.pages.pop(body["action"], None)
    else:
        control.faults.pages.clear()


@route("PUT", "/odd-answers")
def put_odd_answers(control: Control, body: dict[str, Any]) -> Any:
    kind = need(body, "kind")
    if kind not in ODD:
        raise AwsError("BadRequest", f"kind is one of {', '.join(ODD)}")
    control.faults.odd[need(body, "action")] = kind
    return {"odd": control.faults.odd}


@route("DELETE", "/odd-answers")
def delete_odd_answers(control: Control, body: dict[str, Any]) -> Any:
    if body.get("action"):
        control.faults.odd.pop(body["action"], None)
    else:
        control.faults.odd.clear()


@route("PUT", "/permissions")
def put_permissions(control: Control, body: dict[str, Any]) -> Any:
    control.faults.allowed[need(body, "accessKey")] = list(need(body, "actions"))
    return control.faults.allowed


@route("DELETE", "/permissions")
def delete_permissions(control: Control, body: dict[str, Any]) -> Any:
    if body.get("accessKey"):
        control.faults.allowed.pop(body["accessKey"], None)
    else:
        control.faults.allowed.clear()


@route("PUT", "/settings")
def put_settings(control: Control, body: dict[str, Any]) -> Any:
    settings = control.worlds.shared.settings
    names = {
        "runningAfterMs": "running_after_ms",
        "terminatedAfterMs": "terminated_after_ms",
        "stoppedAfterMs": "stopped_after_ms",
        "terminatedListedMs": "terminated_listed_ms",
        "stateChangeEvents": "state_change_events",
        "visibleAfterMs": "visible_after_ms",
        "profileUsableAfterMs": "profile_usable_after_ms",
        "spotByCapacity": "spot_by_capacity",
        "fleetAtMost": "fleet_at_most",
        "requestRates": "request_rates",
        "onDemandVcpuQuota": "on_demand_vcpu_quota",
        "spotVcpuQuota": "spot_vcpu_quota",
    }
    for key, value in body.items():
        if key not in names:
            raise AwsError("BadRequest", f"unknown setting {key!r}; there are: {', '.join(names)}")
        setattr(settings, names[key], value if isinstance(value, bool) else float(value))
    return {key: getattr(settings, attribute) for key, attribute in names.items()}


@route("GET", "/settings")
def get_settings(control: Control, body: dict[str, Any]) -> Any:
    return put_settings(control, {})


# ---- prices


@route("PUT", "/spot-price")
def put_spot_price(control: Control, body: dict[str, Any]) -> Any:
    if "text" in body:
        prices = control.worlds.shared.prices
        return prices.write_odd_spot(need(body, "instanceType"), body.get("zone", "*"), str(body["text"]))
    control.worlds.shared.prices.set_spot(
        need(body, "instanceType"), body.get("zone", "*"), round(float(need(body, "price")) * 1_000_000)
    )


@route("DELETE", "/spot-price")
def delete_spot_price(control: Control, body: dict[str, Any]) -> Any:
    control.worlds.shared.prices.reset()


@route("PUT", "/on-demand-price")
def put_on_demand_price(control: Control, body: dict[str, Any]) -> Any:
    if "texts" in body:
        prices, region = control.worlds.shared.prices, body.get("region") or control.region
        return prices.write_odd_on_demand(region, need(body, "instanceType"), dict(body["texts"]))
    control.worlds.shared.prices.set_on_demand(
        body.get("region") or control.region, need(body, "instanceType"), round(float(need(body, "price")) * 1_000_000)
    )


# ---- instances


@route("GET", "/instances")
def get_instances(control: Control, body: dict[str, Any]) -> Any:
    """All instances, or with `since` only those changed after that version, waiting for a change."""
    store = control.world(body).instances
    since = int(body.get("since", 0))
    wait = min(float(body.get("waitMs", 0)), 30_000) / 1000
    version, found = store.wait_for_change(since, wait)
    if body.get("state"):
        found = [i for i in found if i["state"] == body["state"]]
    return {"version": version, "instances": found, "boot": control.boot}


@route("PUT", "/instance")
def put_instance(control: Control, body: dict[str, Any]) -> Any:
    world = control.world(body)
    with world.lock:
        instance = control.instance(body)
        if "state" in body:
            if body["state"] not in CODES:
                raise AwsError("BadRequest", f"unknown state {body['state']!r}; there are: {', '.join(CODES)}")
            world.instances.set_state(instance, body["state"], body.get("reason", ""), body.get("code", ""))
        if "tags" in body:
            instance.tags.update(body["tags"])
            world.instances.mark(instance)
        return instance.summary()


@route("DELETE", "/instance")
def delete_instance(control: Control, body: dict[str, Any]) -> Any:
    """The instance vanishes at once, without trace, as if it had been terminated long ago."""
    world = control.world(body)
    with world.lock:
        instance = control.instance(body)
        world.instances.set_state(instance, "terminated")
        world.instances.forget(instance)


@route("PUT", "/boot")
def put_boot(control: Control, body: dict[str, Any]) -> Any:
    """How instances boot, for the node joiner. A rule with the same `match` replaces the one before."""
    kept = [r for r in control.boot if r.get("match") != body.get("match")]
    control.boot = [*kept, body]
    return {"rules": control.boot}


@route("DELETE", "/boot")
def delete_boot(control: Control, body: dict[str, Any]) -> Any:
    control.boot = [r for r in control.boot if "match" in body and r.get("match") != body["match"]]


@route("PUT", "/status-event")
def put_status_event(control: Control, body: dict[str, Any]) -> Any:
    world = control.world(body)
    with world.lock:
        return status.set_event(world, control.instance(body), body)


@route("DELETE", "/status-event")
def delete_status_event(control: Control, body: dict[str, Any]) -> Any:
    return put_status_event(control, {**body, "clear": True})


@route("POST", "/interrupt")
@route("PUT", "/interrupt")
def interrupt(control: Control, body: dict[str, Any]) -> Any:
    """Sends the event of the given kind for each instance; spot ones end after `graceMs`."""
    world = control.world(body)
    kind = body.get("kind", "spot")
    ids = body.get("ids") or [need(body, "id")]
    with world.lock:
        found = [control.instance({**body, "id": i}) for i in ids]
        for instance in found:
            world.events.notify(kind, instance, body)
            if kind == "spot":
                instance.spot_status = "marked-for-termination"
            ends = body.get("terminate", kind in ("spot", "capacity-reservation"))
            if ends:
                instance.state_reason = {
                    "Code": "Server.SpotInstanceTermination",
                    "Message": "Server.SpotInstanceTermination: Instance termination due to spot interruption",
                }
                world.instances.schedule(instance, "shutting-down", float(body.get("graceMs", 120_000)))
    return {"sent": len(found), "kind": kind}


# ---- images, reservations, zonal shift


@route("PUT", "/ami")
def put_ami(control: Control, body: dict[str, Any]) -> Any:
    world = control.world(body)
    with world.lock:
        if body.get("family"):
            made = world.images.publish(body["family"], need(body, "version"), body.get("kubernetes"))
        elif body.get("id") and body.get("id") in world.images.images:
            image = world.images.get(body["id"])
            if body.get("deprecate"):
                image.deprecated_at = time.time()
            image.state = body.get("state", image.state)
            image.tags.update(body.get("tags", {}))
            made = [image]
        else:
            need(body, "name")
            made = [images.custom_image(world, body)]
        return {"images": [{"id": i.id, "name": i.name, "architecture": i.architecture} for i in made]}


@route("DELETE", "/ami")
def delete_ami(control: Control, body: dict[str, Any]) -> Any:
    world = control.world(body)
    with world.lock:
        world.images.get(need(body, "id"))
        del world.images.images[body["id"]]


@route("PUT", "/capacity-reservation")
def put_reservation(control: Control, body: dict[str, Any]) -> Any:
    world = control.world(body)
    with world.lock:
        existing = world.reservations.by_id.get(body.get("id", ""))
        if existing and "instanceType" not in body:
            for field in ("total", "available", "state"):
                if field in body:
                    setattr(existing, field, body[field])
            if existing.state in ("cancelled", "expired"):
                reservations.end(world, existing, existing.state)
            if "endsInSeconds" in body:
                existing.ends = time.time() + float(body["endsInSeconds"])
            made = existing
        else:
            need(body, "instanceType")
            need(body, "zone")
            made = reservations.create(world, body)
        return {"id": made.id, "available": made.available, "total": made.total, "state": made.state}


@route("DELETE", "/capacity-reservation")
def delete_reservation(control: Control, body: dict[str, Any]) -> Any:
    world = control.world(body)
    with world.lock:
        world.reservations.get(need(body, "id"))
        del world.reservations.by_id[body["id"]]


@route("PUT", "/placement-group")
def put_placement_group(control: Control, body: dict[str, Any]) -> Any:
    """One group, unless it exists already."""
    world, name = control.world(body), need(body, "name")
    with world.lock:
        if name not in world.groups.by_name:
            asked = {"GroupName": name, "Strategy": body.get("strategy", "cluster"), "PartitionCount": int(body.get("partitions", 2))}
            placement.create_placement_group(Call(world, world.region, "control", "CreatePlacementGroup"), asked)
        group = world.groups.by_name[name]
        return {"id": group.id, "name": group.name, "strategy": group.strategy}


@route("PUT", "/zonal-shift")
def put_zonal_shift(control: Control, body: dict[str, Any]) -> Any:
    return control.gateway.shifts.start(control.region, need(body, "zoneId"), float(body.get("minutes", 60)))


@route("DELETE", "/zonal-shift")
def delete_zonal_shift(control: Control, body: dict[str, Any]) -> Any:
    shifts = control.gateway.shifts.shifts
    for key in [k for k, s in shifts.items() if body.get("zoneId") in (None, s["awayFrom"])]:
        del shifts[key]


# ---- what was called


@route("GET", "/calls")
def get_calls(control: Control, body: dict[str, Any]) -> Any:
    return control.log.describe(
        body.get("action"), body.get("accessKey"), int(body.get("since", 0)), int(body.get("limit", 100))
    )


@route("DELETE", "/calls")
def delete_calls(control: Control, body: dict[str, Any]) -> Any:
    control.log.clear()
