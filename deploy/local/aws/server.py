"""Runs the local AWS: the API on one port, the control path on another, both on loopback only.

    python server.py --port 5555 --control-port 5556 --state DIR --cluster-name demo \
        --cluster-endpoint https://127.0.0.1:6443 --cluster-ca ca.crt

When both listen, the ports are written to DIR/ports.json. All state is in memory.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import pathlib
import signal
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to listen on")
    parser.add_argument("--port", type=int, required=True, help="port of the AWS API (0: any)")
    parser.add_argument("--control-port", type=int, required=True, help="port of the control path (0: any)")
    parser.add_argument("--state", default="", help="directory for ports.json")
    parser.add_argument("--region", default=os.environ.get("AWS_REGION", "us-west-2"), help="region the control path means")
    parser.add_argument("--cluster-name", default="", help="EKS cluster that DescribeCluster knows")
    parser.add_argument("--cluster-endpoint", default="", help="its API server URL")
    parser.add_argument("--cluster-ca", default="", help="file with its CA certificate (PEM)")
    parser.add_argument("--cluster-version", default="1.35", help="its Kubernetes version")
    parser.add_argument("--service-cidr", default="10.96.0.0/16", help="its service address range")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    logging.getLogger().setLevel(logging.ERROR)
    # moto warns in prose about what it does not check; these are the values of its documentation.
    os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    os.environ["MOTO_PORT"] = str(args.port)

    from localaws import events, iam, network
    from localaws.control import Control
    from localaws.eks import Cluster
    from localaws.faults import Faults
    from localaws.filters import Pager
    from localaws.gateway import Gateway
    from localaws.httpd import Server
    from localaws.instance_types import TypeCatalogue
    from localaws.prices import PriceBook
    from localaws.requestlog import RequestLog
    from localaws.wire import Ec2Wire
    from localaws.world import Settings, Shared, Worlds

    network.install()
    events.install()
    wire, faults = Ec2Wire(), Faults()
    types = TypeCatalogue(wire)
    shared = Shared(wire, types, PriceBook(), faults, Settings(), Pager(faults.page_limit))
    iam.install(shared.pager)
    cluster = Cluster(args.cluster_name, args.cluster_endpoint, args.cluster_ca, args.cluster_version, args.service_cidr)
    gateway = Gateway(Worlds(shared), RequestLog(), cluster)
    api = Server(args.host, args.port, gateway).start()
    control = Server(args.host, args.control_port, Control(gateway, args.region)).start()
    gateway.control_url = f"http://{args.host}:{control.server_address[1]}"
    threading.Thread(target=gateway.warm, args=(args.region,), name="warm", daemon=True).start()
    ports = {"api": api.server_address[1], "control": control.server_address[1], "pid": os.getpid()}
    if args.state:
        directory = pathlib.Path(args.state)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "ports.json").write_text(json.dumps(ports) + "\n")
    print(f"aws: API http://{args.host}:{ports['api']} control http://{args.host}:{ports['control']}", flush=True)
    stop = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stop.set())
    stop.wait()


if __name__ == "__main__":
    main()
