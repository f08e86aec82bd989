"""Plays the instances of the local AWS that boot: each running instance reads its real user data and
registers a Node, which kwok then keeps alive; a stopped one goes silent, a terminated one's Node is
deleted.

    python joiner.py --kubeconfig FILE --aws-endpoint http://127.0.0.1:5555 --region us-west-2 --cluster-name demo

Prints `joiner ready` when it has caught up with what exists.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from joining.cloud import Cloud  # noqa: E402
from joining.joiner import Joiner  # noqa: E402
from joining.kube import Kube  # noqa: E402
from joining.source import Feed, Poll, control_url  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--aws-endpoint", required=True, help="URL of the local AWS")
    parser.add_argument("--control-url", default=os.environ.get("AWS_CONTROL_URL"), help="its control path; found by itself")
    parser.add_argument("--region", required=True)
    parser.add_argument("--cluster-name", required=True, help="instances that would join another cluster do not join")
    parser.add_argument("--workers", type=int, default=8, help="instances handled at the same time")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))

    cloud = Cloud(args.aws_endpoint, args.region)
    url = args.control_url or control_url(args.aws_endpoint)
    source = Feed(url, args.region) if url else Poll(cloud)
    joiner = Joiner(Kube(args.kubeconfig), cloud, args.region, args.cluster_name, args.workers)
    joiner.adopt()
    how = "the change feed" if url else "DescribeInstances"
    try:
        joiner.follow(source, lambda: print(f"joiner ready, following {how}", flush=True))
    except KeyboardInterrupt:
        os._exit(0)


if __name__ == "__main__":
    main()
