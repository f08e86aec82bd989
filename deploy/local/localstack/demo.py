"""The demo of `stack run`: a Deployment that grows and shrinks, and a live view of what follows."""

import string
import sys
import time

from . import api, live, paths
from .processes import Cluster

# Replicas, and how long they stay (seconds): small, large, smaller (consolidation), none.
STEPS = ((5, 40), (60, 60), (20, 60), (0, 45))
# On a terminal the view is redrawn this often; elsewhere one line is printed.
REDRAW_SECONDS = 1
LINE_SECONDS = 5


def play(cluster: Cluster) -> None:
    client = api.Api(cluster.instance, cluster.ports["kube-apiserver"])
    _apply(cluster, client)
    prices = live.Prices(cluster)
    terminal = sys.stdout.isatty()
    if terminal:
        sys.stdout.write("\x1b[2J")
    round_number = 0
    while True:
        replicas, seconds = STEPS[round_number % len(STEPS)]
        round_number += 1
        _scale(client, replicas)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            picture = live.observe(client, prices, replicas)
            if terminal:
                # Home, draw, clear the rest: no flicker.
                sys.stdout.write("\x1b[H" + live.draw(cluster, picture).replace("\n", "\x1b[K\n") + "\x1b[J")
            else:
                sys.stdout.write(live.line(picture) + "\n")
            sys.stdout.flush()
            time.sleep(REDRAW_SECONDS if terminal else LINE_SECONDS)


def _apply(cluster: Cluster, client: api.Api) -> None:
    text = (paths.LOCAL / "manifests" / "demo" / "inflate.yaml").read_text()
    for document in api.documents(string.Template(text).substitute(CLUSTER_NAME=cluster.cluster_name)):
        try:
            client.apply(document)
        except api.ApiError as error:
            # Without our CRDs the pods stay pending, and the view shows just that.
            if error.status != 404:
                raise
            print(f"no {document.kind}: {error}", file=sys.stderr)


def _scale(client: api.Api, replicas: int) -> None:
    client.call(
        "PATCH", "/apis/apps/v1/namespaces/default/deployments/inflate/scale", {"spec": {"replicas": replicas}},
        "application/merge-patch+json",
    )
