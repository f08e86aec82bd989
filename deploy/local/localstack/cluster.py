"""Starting, resuming and stopping one instance."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from . import api, build, certificates, files, manifests, node, ports, process, services, settings, tokens
from .components import NEEDED
from .failure import Failure
from .paths import Instance
from .processes import Cluster, Process

# Only for things that neither get ready nor end; a busy machine needs seconds, not minutes.
READY_SECONDS = 300
# The API server drains watches and Jaeger its connections for long after SIGTERM; neither holds what outlives it.
BRIEF_GRACE_SECONDS = 2
BRIEF = ("kube-apiserver", "jaeger")
GRACE_SECONDS = 10

OWN_PORTS = {
    "etcd": ("etcd", "etcd-peer"), "aws": ("aws", "aws-control"),
    "jaeger": ("jaeger", "jaeger-grpc", "otlp-grpc", "otlp-http"),
} | {name: (name,) for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")}

# Everything that `--fresh` forgets. Named one by one: `--dir` may point anywhere.
STATE = ("etcd", "aws", "kwok", "pki", "sa", "state", "config", "log", "pid", "kubeconfig", "env", "trust.pem")


def silent(_: str) -> None:
    pass


@dataclass
class Start:
    """One `up`: what it started, so that a failure can be undone, and how long each part took."""

    cluster: Cluster
    say: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)
    started: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def ensure(self, each: Process) -> None:
        """Start it unless it runs, and return when it is ready."""
        self.begin(each)
        self.finish(each)

    def begin(self, each: Process) -> None:
        if process.find(self.cluster.instance, each.name):
            return
        process.start(self.cluster.instance, each.name, each.command, each.environment)
        self.started.append(each.name)

    def finish(self, each: Process) -> None:
        began = time.monotonic()
        fresh = each.name in self.started
        # What already ran proved itself once; the joiner's line, for one, is not printed again.
        if fresh and not self._settles(each):
            log = self.cluster.instance.log(each.name)
            ended = process.find(self.cluster.instance, each.name) is None
            state = "ended" if ended else f"is not ready after {READY_SECONDS} s"
            raise Failure(f"{each.name} {state}; {log} ends with:\n{files.tail(log)}")
        self.seconds[each.name] = time.monotonic() - began
        if fresh:
            self.say(f"{each.name} is ready ({time.monotonic() - self.began:.1f} s)")

    def _settles(self, each: Process) -> bool:
        ready = False

        def settled() -> bool:
            nonlocal ready
            alive = process.find(self.cluster.instance, each.name) is not None
            ready = alive and each.ready()
            return ready or not alive

        files.until(settled, READY_SECONDS)
        return ready


def up(
    instance: Instance, fresh: bool, wanted: list[str], joiner: bool, bin_dir: str | None, cluster_name: str,
    say: Callable[[str], None],
) -> Start:
    build.build(NEEDED, say, exact=False)
    for service in wanted:
        services.binary(service, bin_dir)
    instance.dir.mkdir(parents=True, exist_ok=True)
    with files.locked(instance.dir / "lock", lambda: say("another command works on this instance: waiting for it")):
        if fresh:
            _stop_all(instance, silent)
            _wipe(instance)
        instance.create()
        cluster = Cluster(instance, _usable_ports(instance, say), cluster_name)
        files.replace(instance.state / "cluster.json", json.dumps({"name": cluster_name}) + "\n")
        certificates.ensure(instance)
        cluster.write_configuration()
        start = Start(cluster, say)
        try:
            _start_cluster(start, joiner)
            _start_services(start, wanted, bin_dir)
        except BaseException:
            if start.started:
                say(f"stopping what was started: {', '.join(start.started)}")
                _stop_named(instance, start.started, silent)
            raise
        return start


def _start_cluster(start: Start, joiner: bool) -> None:
    cluster, say = start.cluster, start.say
    client = api.Api(cluster.instance, cluster.ports["kube-apiserver"])
    aws, jaeger = cluster.aws(), cluster.jaeger()
    with ThreadPoolExecutor(4) as pool:
        start.begin(jaeger)
        seeded = None
        if aws:
            start.begin(aws)
            seeded = pool.submit(_seed, start, aws)
        else:
            say("no AWS: deploy/local/aws/server.py is missing")
        start.ensure(cluster.etcd())
        start.ensure(cluster.apiserver())
        controllers = [cluster.controller_manager(), cluster.scheduler(), cluster.kwok()]
        for each in controllers:
            start.begin(each)
        manifests.apply(client, say)
        tokens.ensure_operator(cluster.instance, client)
        for each in (*controllers, jaeger):
            start.finish(each)
        # The first sign that the controllers work, and without it the first pods are refused.
        if not files.until(lambda: client.find("/api/v1/namespaces/default/serviceaccounts/default") is not None, READY_SECONDS):
            raise Failure("kube-controller-manager makes no service accounts; see its log")
        if seeded:
            seeded.result()
        if joiner and aws:
            if play := cluster.joiner():
                start.ensure(play)
            else:
                say("no nodes will join: deploy/local/joiner/joiner.py is missing")
    services.refresh(cluster, client)


def _seed(start: Start, aws: Process) -> None:
    start.finish(aws)
    command = start.cluster.seed_command()
    if not command or "aws" not in start.started:
        return
    log = start.cluster.instance.log("aws-seed")
    with open(log, "w") as out:
        done = subprocess.run(
            command, stdout=out, stderr=subprocess.STDOUT, env=start.cluster.aws_environment(),
            cwd=start.cluster.instance.dir,
        )
    if done.returncode:
        raise Failure(f"seeding AWS ended with {done.returncode}; {log} ends with:\n{files.tail(log)}")
    start.say(f"aws is seeded ({time.monotonic() - start.began:.1f} s)")


def _start_services(start: Start, wanted: list[str], bin_dir: str | None) -> None:
    cluster = start.cluster
    client = api.Api(cluster.instance, cluster.ports["kube-apiserver"])
    begun = []
    for service in wanted:
        if not process.find(cluster.instance, services.process_name(service, 0)):
            replica = services.start(cluster, client, service, 0, [], {}, bin_dir)
            start.started.append(replica.name)
            begun.append(replica)
    for replica in begun:
        services.wait(cluster, replica)
        start.say(f"{replica.name} is SERVING ({time.monotonic() - start.began:.1f} s)")
    services.refresh(cluster, client)


def _usable_ports(instance: Instance, say: Callable[[str], None]) -> dict[str, int]:
    """The instance's ports; new ones when a stranger took one while its owner was down."""
    chosen = ports.of_cluster(instance)
    dead = [name for name in OWN_PORTS if not process.find(instance, name)]
    taken = [port for name in dead for port in OWN_PORTS[name] if not ports.is_free(chosen[port])]
    if not taken:
        return chosen
    say(f"ports of {', '.join(taken)} are in use by others: moving the instance to new ports")
    _stop_all(instance, silent)
    ports.forget(instance)
    return ports.of_cluster(instance)


def down(instance: Instance, say: Callable[[str], None]) -> None:
    if not instance.dir.exists():
        say(f"nothing runs in {instance.dir}")
        return
    with files.locked(instance.dir / "lock", lambda: say("another command works on this instance: waiting for it")):
        stopped = _stop_all(instance, say)
        instance.environment.unlink(missing_ok=True)
        instance.trust.unlink(missing_ok=True)
    say(f"stopped {len(stopped)} processes" if stopped else f"nothing runs in {instance.dir}")


def _stop_all(instance: Instance, say: Callable[[str], None]) -> list[str]:
    if node.exists(instance):
        from . import kubelet

        kubelet.down(instance, say)
    names = [path.stem for path in instance.state.glob("*.process")]
    return _stop_named(instance, names, say)


def _stop_named(instance: Instance, names: list[str], say: Callable[[str], None]) -> list[str]:
    """Those that use the cluster first, while it still answers them; then the cluster."""
    of_services = [name for name in names if name.rpartition("-")[0] in settings.SERVICES]
    others = [name for name in names if name not in (*BRIEF, "etcd", *of_services)]
    waves = [
        (of_services, services.GRACE_SECONDS),
        (others, GRACE_SECONDS),
        ([name for name in names if name in BRIEF], BRIEF_GRACE_SECONDS),
        ([name for name in names if name == "etcd"], GRACE_SECONDS),
    ]
    stopped = []
    for wave, grace in waves:
        if wave and (ended := process.stop(instance, wave, grace)):
            say(f"stopped {', '.join(ended)}")
            stopped += ended
    return stopped


def _wipe(instance: Instance) -> None:
    for name in STATE:
        path = instance.dir / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
