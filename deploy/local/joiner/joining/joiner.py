"""The work itself: follows instances and makes, marks and removes their Nodes. Each instance is handled
by one worker at a time; what must wait is put on a timer, so that no worker sleeps."""

from __future__ import annotations

import base64
import binascii
import heapq
import itertools
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from . import capacity, node
from .cloud import Cloud
from .controls import Controls, controls
from .flags import Garbled
from .kube import Conflict, Kube
from .source import Change
from .userdata import Bootstrap, family_of_image, parse

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Timer:
    """Runs things later, on the workers."""

    def __init__(self, run: Callable[[Callable[[], None]], Any]):
        self.run, self._heap, self._ties = run, [], itertools.count()
        self._wake = threading.Condition()
        threading.Thread(target=self._loop, name="timer", daemon=True).start()

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        with self._wake:
            heapq.heappush(self._heap, (time.monotonic() + seconds, next(self._ties), what))
            self._wake.notify()

    def _loop(self) -> None:
        while True:
            with self._wake:
                while not self._heap or self._heap[0][0] > time.monotonic():
                    self._wake.wait(self._heap[0][0] - time.monotonic() if self._heap else None)
                _, _, what = heapq.heappop(self._heap)
            self.run(what)


class Life:
    """What the joiner knows of one instance."""

    def __init__(self, change: Change):
        self.view = change
        self.busy = False
        self.again = False
        self.node: str | None = None  # name of its Node, once registered
        self.uid = ""
        self.marked = False  # its Node carries the not-ready annotation from us
        self.hopeless = False  # it will never join, and the reason was logged


class Joiner:
    def __init__(self, kube: Kube, cloud: Cloud, region: str, cluster: str, workers: int = 8):
        self.kube, self.cloud, self.region, self.cluster = kube, cloud, region, cluster
        self.server_version = kube.version()
        self.rules: list[dict[str, Any]] = []
        self.lives: dict[str, Life] = {}
        self.lock = threading.Lock()
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix="boot")
        self.timer = Timer(self.pool.submit)

    def adopt(self) -> None:
        """Nodes that an earlier run of the joiner made; those whose instance is gone will be removed."""
        for existing in self.kube.nodes():
            provider = existing["spec"].get("providerID", "")
            if provider.startswith("aws:///") and existing["metadata"].get("annotations", {}).get("kwok.x-k8s.io/node"):
                instance_id = provider.rsplit("/", 1)[-1]
                life = self.lives[instance_id] = Life({"id": instance_id, "state": "unknown", "tags": {}})
                life.node, life.uid = existing["metadata"]["name"], existing["metadata"]["uid"]
                life.marked = existing["metadata"]["annotations"].get(node.NOT_READY) == "Unknown"

    def follow(self, source: Any, ready: Callable[[], None]) -> None:
        first = True
        for changes, rules in source:
            self.rules = rules
            seen = {c["id"] for c in changes}
            for change in changes:
                self.see(change)
            if first:
                # The first batch is everything there is.
                for instance_id in [i for i in self.lives if i not in seen]:
                    self.see({"id": instance_id, "state": "gone", "tags": {}})
                ready()
                first = False

    def see(self, change: Change) -> None:
        with self.lock:
            life = self.lives.get(change["id"])
            if life is None:
                if change["state"] in ("terminated", "gone"):
                    return
                life = self.lives[change["id"]] = Life(change)
            elif change["state"] == "gone":
                life.view = {**life.view, "state": "gone"}
            else:
                life.view = change
        self.wake(life)

    def wake(self, life: Life) -> None:
        with self.lock:
            if life.busy:
                life.again = True
                return
            life.busy = True
        self.pool.submit(self._work, life)

    def _work(self, life: Life) -> None:
        while True:
            try:
                self.advance(life)
            except Exception as error:
                print(f"joiner: {life.view['id']}: {type(error).__name__}: {error}; trying again", flush=True)
                if not isinstance(error, (OSError, RuntimeError)):
                    traceback.print_exc()
                self.timer.after(1, lambda: self.wake(life))
            with self.lock:
                if not life.again:
                    life.busy = False
                    return
                life.again = False

    # ---- one instance

    def advance(self, life: Life) -> None:
        state = life.view["state"]
        if state == "running":
            if life.node is None:
                self.boot(life)
            elif life.marked:
                life.marked = False
                self.kube.annotate(life.node, node.NOT_READY, None)
        elif state in ("stopping", "stopped", "shutting-down"):
            if life.node and not life.marked:
                life.marked = True
                self.kube.annotate(life.node, node.NOT_READY, "Unknown")
        elif state in ("terminated", "gone"):
            self.remove(life)

    def remove(self, life: Life) -> None:
        """As the cloud's node lifecycle controller: the instance does not exist, so the Node goes. Its
        finalizers still hold it."""
        if life.node:
            self.kube.delete_node(life.node, life.uid)
        with self.lock:
            self.lives.pop(life.view["id"], None)

    def boot(self, life: Life) -> None:
        view = life.view
        if life.hopeless:
            return
        wish = controls(view["tags"], self.rules)
        if wish.never_join:
            self.give_up(life, "a test asked that it never joins")
            return
        left = view["launched"] + wish.boot_delay_ms / 1000 - time.time()
        if wish.boot_delay_ms and left > 0:
            self.timer.after(left, lambda: self.wake(life))
            return
        machine = self.cloud.machine(view["id"], view["instanceType"], view["imageId"], view["tags"])
        try:
            boot = parse(machine.user_data, family_of_image(machine.image_name))
            self.check(boot)
            facts = node.Facts(
                id=view["id"],
                name=view["privateDnsName"],
                address=view["privateIp"],
                instance_type=view["instanceType"],
                zone=view["zone"],
                zone_id=view["zoneId"],
                region=self.region,
                architecture=view["architecture"],
                image_name=machine.image_name,
                kubelet_version=node.kubelet_version(machine.image_name, self.server_version),
            )
            facts.capacity, facts.allocatable = capacity.compute(
                machine.info, boot, machine.disk(boot.family), wish.memory_percent
            )
        except (Garbled, ValueError, ArithmeticError) as error:
            self.give_up(life, str(error))
            return
        devices = {k: str(v) for k, v in capacity.devices(machine.info, machine.efa).items()}
        if devices and not wish.gpu_delay_ms:
            facts.capacity.update(devices)
            facts.allocatable.update(devices)
        try:
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            not_ready, uninitialized = wish.never_ready or wish.ready_after_ms > 0, wish.uninitialized_ms > 0
            life.uid = self.kube.create_node(node.build(facts, boot, not_ready, now, uninitialized))
        except Conflict:
            if not self.conflict(life, facts):
                return
        life.node = facts.name
        self.later(life, wish, devices)

    def later(self, life: Life, wish: Controls, devices: dict[str, str]) -> None:
        """What plugins and agents on the node do after it registered."""
        name = life.node or ""
        if devices and wish.gpu_delay_ms:
            self.timer.after(wish.gpu_delay_ms / 1000, lambda: self.kube.add_resources(name, devices))
        if wish.agent_taints:
            self.timer.after(wish.agent_after_ms / 1000, lambda: self.kube.remove_taints(name, wish.agent_taints))
        if wish.uninitialized_ms:
            keys = [node.UNINITIALIZED["key"]]
            self.timer.after(wish.uninitialized_ms / 1000, lambda: self.kube.remove_taints(name, keys))
        if wish.ready_after_ms and not wish.never_ready:
            self.timer.after(wish.ready_after_ms / 1000, lambda: self.kube.annotate(name, node.NOT_READY, None))

    def conflict(self, life: Life, facts: node.Facts) -> bool:
        """True when the existing Node is this instance's. Else its name belonged to an instance before,
        whose Node must go first."""
        existing = self.kube.node(facts.name)
        if existing and existing["spec"].get("providerID") == node.provider_id(facts.zone, facts.id):
            life.uid = existing["metadata"]["uid"]
            return True
        self.timer.after(0.5, lambda: self.wake(life))
        return False

    def check(self, boot: Bootstrap) -> None:
        if boot.cluster != self.cluster:
            raise Garbled(f"it would join cluster {boot.cluster!r}, not {self.cluster!r}")
        if not same_endpoint(boot.endpoint, self.kube.server):
            raise Garbled(f"no API server answers at {boot.endpoint!r}")
        if not same_certificate(boot.ca, self.kube.ca):
            raise Garbled("its CA certificate is not the cluster's, so it does not trust the API server")
        refused = node.refused_labels(boot.kubelet.labels)
        if refused:
            raise Garbled(f"kubelet refuses to set the labels {', '.join(refused)} on itself")

    def give_up(self, life: Life, why: str) -> None:
        life.hopeless = True
        print(f"joiner: {life.view['id']} ({life.view['instanceType']}) never joins: {why}", flush=True)


def same_endpoint(given: str, server: str) -> bool:
    one, other = urlsplit(given), urlsplit(server)
    hosts = {one.hostname, other.hostname}
    same_host = len(hosts) == 1 or hosts <= set(LOOPBACK)
    return one.scheme == other.scheme and same_host and (one.port or 443) == (other.port or 443)


def same_certificate(encoded: str, expected: bytes) -> bool:
    try:
        return base64.b64decode(encoded, validate=True).split() == expected.split()
    except (binascii.Error, ValueError):
        return False
