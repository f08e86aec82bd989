"""The command line."""

import argparse
import json
import signal
import sys
import time

from . import settings
from .failure import Failure
from .paths import Instance

# The other modules are loaded by the command that needs them: tests start services often, and imports take time.


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    # SIGTERM and a closed terminal undo what Ctrl-C undoes.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return options.run(options, Instance.at(getattr(options, "dir", None))) or 0
    except Failure as failure:
        print(f"stack: {failure}", file=sys.stderr)
        return failure.code
    except KeyboardInterrupt:
        print("stack: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--dir", default=argparse.SUPPRESS, help="directory of the instance (default: .local of the checkout)")
    machine = argparse.ArgumentParser(add_help=False)
    machine.add_argument("-o", "--output", choices=("text", "json"), default="text")

    parser = argparse.ArgumentParser(prog="stack", description="A real cluster, AWS and Jaeger on this machine.", parents=[shared])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    build = commands.add_parser("build", parents=[shared], help="build the programs that are missing")
    build.add_argument("component", nargs="*")
    build.add_argument("--all", action="store_true", help="also helm, kubectl and the real kubelet's programs")
    build.add_argument("--promtool", action="store_true", help="only promtool, from the package prometheus")
    build.set_defaults(run=_build)

    up = commands.add_parser("up", parents=[shared, machine], help="start in the background; returns when all is ready")
    _up_options(up)
    up.set_defaults(run=_up)

    down = commands.add_parser("down", parents=[shared], help="stop everything")
    down.set_defaults(run=_down)

    run = commands.add_parser("run", parents=[shared], help="in the foreground with a demo and a live view, until Ctrl-C")
    _up_options(run)
    run.set_defaults(run=_run)

    status = commands.add_parser("status", parents=[shared, machine], help="what runs")
    status.set_defaults(run=_status)

    service = commands.add_parser("service", help="start and stop our services one by one")
    actions = service.add_subparsers(required=True, metavar="ACTION")
    start = actions.add_parser("start", parents=[shared, machine], help="start a replica; returns when it is ready")
    start.add_argument("name")
    start.add_argument("--replica", type=int, default=0)
    start.add_argument("--arg", action="append", default=[], help="argument of the service (use --arg=--flag)")
    start.add_argument("--env", action="append", default=[], metavar="K=V")
    start.add_argument("--bin-dir", help="directory of the services' binaries")
    start.add_argument("--no-wait", action="store_true", help="return as soon as the process exists")
    start.set_defaults(run=_service_start)
    stop = actions.add_parser("stop", parents=[shared, machine])
    stop.add_argument("name")
    stop.add_argument("--replica", type=int, default=0)
    stop.add_argument("--kill", action="store_true", help="SIGKILL, without a chance to finish")
    stop.set_defaults(run=_service_stop)
    listing = actions.add_parser("list", parents=[shared, machine])
    listing.set_defaults(run=_service_list)

    kubelet = commands.add_parser("kubelet", help="a real node with containerd beside the played ones")
    actions = kubelet.add_subparsers(required=True, metavar="ACTION")
    actions.add_parser("up", parents=[shared], help="join it; returns when it is Ready").set_defaults(run=_kubelet_up)
    actions.add_parser("down", parents=[shared], help="remove it and all that it left").set_defaults(run=_kubelet_down)
    image = actions.add_parser("image", parents=[shared], help="give it an image made of a program and what that links")
    image.add_argument("name", help="such as localhost/app:1; use it with imagePullPolicy: Never")
    image.add_argument("program", help="becomes the entry point /<name of the file>")
    image.add_argument("file", nargs="*", help="more files, as SOURCE or SOURCE=/path/in/image")
    image.set_defaults(run=_kubelet_image)
    loaded = actions.add_parser("import", parents=[shared], help="give it images that exist as OCI tar files")
    loaded.add_argument("archive", nargs="+")
    loaded.set_defaults(run=_kubelet_import)
    return parser


def _up_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fresh", action="store_true", help="forget the state of a former start")
    parser.add_argument("--services", default="all", help="all, none, or names with commas")
    parser.add_argument("--no-joiner", action="store_true", help="instances of the local AWS do not become nodes")
    parser.add_argument("--bin-dir", help="directory of the services' binaries")
    parser.add_argument("--cluster-name", default=settings.CLUSTER_NAME)


def _say(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        # Nobody reads any more, which must not keep `down` from its work.
        pass


def _build(options: argparse.Namespace, _: Instance) -> None:
    from . import build, packages
    from .components import EVERYTHING, NEEDED

    if options.promtool:
        return packages.promtool(_say)
    build.build(options.component or (EVERYTHING if options.all else NEEDED), _say)


def _wanted(text: str) -> list[str]:
    from . import services

    if text in ("all", "none"):
        return list(settings.SERVICES) if text == "all" else []
    return [services.known(name) for name in text.split(",")]


def _up(options: argparse.Namespace, instance: Instance) -> None:
    from . import cluster, report

    began = time.monotonic()
    cluster.up(
        instance, options.fresh, _wanted(options.services), not options.no_joiner, options.bin_dir,
        options.cluster_name, _say,
    )
    rows = report.rows(instance)
    if options.output == "json":
        print(json.dumps({"seconds": round(time.monotonic() - began, 2), "env": str(instance.environment), "processes": rows}))
    else:
        print(report.table(rows))
        print(f"ready in {time.monotonic() - began:.1f} s; use it with: source {instance.environment}")


def _down(_: argparse.Namespace, instance: Instance) -> None:
    from . import cluster

    cluster.down(instance, _say)


def _run(options: argparse.Namespace, instance: Instance) -> None:
    from . import cluster, demo, page
    from .processes import Cluster

    try:
        _up(argparse.Namespace(**{**vars(options), "output": "text"}), instance)
        existing = Cluster.existing(instance)
        print(f"the live page: {page.start(existing, options.bin_dir)}", flush=True)
        demo.play(existing)
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    finally:
        # A second Ctrl-C must not leave processes behind.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        cluster.down(instance, _say)


def _status(options: argparse.Namespace, instance: Instance) -> int:
    from . import report

    rows = report.rows(instance)
    print(json.dumps(rows) if options.output == "json" else report.table(rows) if rows else f"nothing runs in {instance.dir}")
    return 0 if rows else 3


def _service_start(options: argparse.Namespace, instance: Instance) -> None:
    from . import api, services
    from .processes import Cluster

    service = services.known(options.name)
    extra = {}
    for pair in options.env:
        name, equals, value = pair.partition("=")
        if not equals:
            raise Failure(f"--env {pair}: NAME=VALUE is needed", 64)
        extra[name] = value
    existing = Cluster.existing(instance)
    client = api.Api(instance, existing.ports["kube-apiserver"])
    replica = services.start(existing, client, service, options.replica, options.arg, extra, options.bin_dir)
    if not options.no_wait:
        services.wait(existing, replica)
    services.refresh(existing, client)
    described = services.describe(replica)
    print(json.dumps(described) if options.output == "json" else " ".join(f"{k}={v}" for k, v in described.items()))


def _service_stop(options: argparse.Namespace, instance: Instance) -> None:
    from . import services
    from .processes import Cluster

    existing = Cluster.existing(instance, serving=False)
    name = services.process_name(services.known(options.name), options.replica)
    stopped = services.stop(existing, [name], options.kill)
    if options.output == "json":
        print(json.dumps({"name": options.name, "replica": options.replica, "stopped": bool(stopped)}))
    else:
        print(f"stopped {name}" if stopped else f"{name} did not run")


def _service_list(options: argparse.Namespace, instance: Instance) -> None:
    from . import services

    listed = [services.describe(each) for each in services.running(instance)]
    if options.output == "json":
        print(json.dumps(listed))
    else:
        for each in listed:
            print(" ".join(f"{key}={value}" for key, value in each.items()))


def _kubelet_up(_: argparse.Namespace, instance: Instance) -> None:
    from . import kubelet
    from .processes import Cluster

    kubelet.up(Cluster.existing(instance), _say)


def _kubelet_down(_: argparse.Namespace, instance: Instance) -> None:
    from . import kubelet

    kubelet.down(instance, _say)


def _kubelet_image(options: argparse.Namespace, instance: Instance) -> None:
    from . import kubelet

    kubelet.load_image(instance, options.name, options.program, options.file)


def _kubelet_import(options: argparse.Namespace, instance: Instance) -> None:
    from . import kubelet

    kubelet.import_images(instance, options.archive)
