"""Where changes of instances come from: the local AWS's change feed where it has one (told at once, and
only what changed), else DescribeInstances every 250 ms, compared with the last look."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import requests

from .cloud import Cloud

Change = dict[str, Any]


def control_url(endpoint: str) -> str | None:
    """The local AWS tells where its control path is; a server that does not know answers something else."""
    try:
        answer = requests.get(f"{endpoint.rstrip('/')}/_local/control", timeout=5)
        return answer.json()["url"] if answer.ok else None
    except (requests.RequestException, ValueError, KeyError):
        return None


class Feed:
    """Batches of changes with the boot rules in force, from the control path's long poll."""

    def __init__(self, url: str, region: str):
        self.url, self.region = url.rstrip("/"), region

    def __iter__(self) -> Iterator[tuple[list[Change], list[dict[str, Any]]]]:
        session, version = requests.Session(), 0
        session.trust_env = False
        while True:
            try:
                answer = session.get(
                    f"{self.url}/instances",
                    params={"since": version, "waitMs": 20_000 if version else 0, "region": self.region},
                    timeout=40,
                ).json()
            except (requests.RequestException, ValueError) as error:
                print(f"joiner: the local AWS does not answer: {error}", flush=True)
                time.sleep(1)
                continue
            if answer["version"] < version:
                # The server was restarted: what it had is gone.
                version = 0
                continue
            version = max(1, answer["version"])
            yield answer["instances"], answer.get("boot", [])


class Poll:
    def __init__(self, cloud: Cloud, pause: float = 0.25):
        self.cloud, self.pause = cloud, pause

    def __iter__(self) -> Iterator[tuple[list[Change], list[dict[str, Any]]]]:
        known: dict[str, tuple[Any, ...]] = {}
        while True:
            started = time.monotonic()
            try:
                seen = {i["id"]: i for i in self.cloud.instances()}
            except Exception as error:  # the server may be restarting; the next look will tell
                print(f"joiner: cannot list instances: {error}", flush=True)
                time.sleep(1)
                continue
            changes = [i for i in seen.values() if known.get(i["id"]) != signature(i)]
            changes += [{"id": i, "state": "gone"} for i in known if i not in seen]
            known = {i["id"]: signature(i) for i in seen.values()}
            yield changes, []
            # Looking may take at most a third of the time.
            time.sleep(max(self.pause, 2 * (time.monotonic() - started)))


def signature(instance: Change) -> tuple[Any, ...]:
    return (instance["state"], tuple(sorted(instance["tags"].items())))
