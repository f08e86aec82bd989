//! Workloads that use every rule now and then.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use model::pod::{
    HostPort, LabelSelector, NodeInclusionPolicy, Pod, PodAffinityTerm, PodSpec, Protocol, TopologySpread,
};
use model::requirement::Operator;
use model::requirements::Requirements;
use model::taint::Effect;

use crate::fixture::{CAPACITY_TYPE, HOST, PodBuilder, ZONE, ZONES, is, labels, pod, requires, spread, term};
use crate::scenario::random::Random;

const APPS: [&str; 3] = ["a", "b", "c"];
const NAMESPACES: [&str; 2] = ["default", "other"];
/// Keys that topology is about; the last one only some pools and nodes have.
const KEYS: [&str; 6] = [ZONE, ZONE, HOST, HOST, CAPACITY_TYPE, "rack"];

/// The pending pods of one workload.
pub(crate) fn workload(n: usize, random: &mut Random) -> Vec<Pod> {
    let replicas = random.between(1, 6);
    let mut pods = shape(&format!("work-{n}"), random).times(replicas);
    if random.one_in(8) {
        for (index, pod) in pods.iter_mut().enumerate() {
            pod.volumes = volumes(n, index, random);
        }
    }
    if random.one_in(20) {
        let port = bound_port(random);
        change_spec(&mut pods, |spec| spec.host_ports.push(port));
    }
    if random.one_in(20) {
        change_spec(&mut pods, |spec| spec.uses_resource_claims = true);
    }
    if random.one_in(30) {
        pods[0].rejected = Some("it names a restricted label".to_owned());
    }
    if random.one_in(20) {
        pods.iter_mut().for_each(|pod| pod.buffer = true);
    }
    pods
}

fn change_spec(pods: &mut [Pod], change: impl FnOnce(&mut PodSpec)) {
    let mut spec = (*pods[0].spec).clone();
    change(&mut spec);
    let spec = Arc::new(spec);
    pods.iter_mut().for_each(|pod| pod.spec = Arc::clone(&spec));
}

/// A port of one address, or of another protocol.
pub(crate) fn bound_port(random: &mut Random) -> HostPort {
    let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, random.pick(&[1, 2])));
    if random.one_in(3) {
        return HostPort::new(None, 8080, Protocol::Udp);
    }
    HostPort::new(Some(address), 8080, Protocol::Tcp)
}

/// A pod of any shape, pending.
pub(crate) fn shape(name: &str, random: &mut Random) -> PodBuilder {
    let app = random.pick(&APPS);
    let mut out = pod(name)
        .app(app)
        .cpu(random.pick(&["0", "100m", "250m", "500m", "900m", "1500m", "3"]))
        .memory(random.pick(&["64Mi", "256Mi", "512Mi", "1Gi", "2Gi"]));
    if random.one_in(4) {
        out = out.namespace("other");
    }
    if random.one_in(4) {
        out = out.label("version", random.pick(&["1", "2"]));
    }
    if random.one_in(12) {
        out = out.request("fake.com/gpu", "1");
    }
    out = selection(out, random);
    if random.one_in(3) {
        out = out.tolerates("dedicated");
    }
    if random.one_in(8) {
        out = out.tolerates_value("soft", "yes", Effect::PreferNoSchedule);
    }
    for _ in 0..usize::from(random.one_in(3)) + usize::from(random.one_in(12)) {
        let constraint = constraint(app, random);
        out = if random.one_in(4) { out.spread_anyway(constraint) } else { out.spread(constraint) };
    }
    for _ in 0..usize::from(random.one_in(6)) + usize::from(random.one_in(12)) {
        out = out.with(affinity(app, random));
    }
    for _ in 0..usize::from(random.one_in(5)) + usize::from(random.one_in(12)) {
        out = out.apart_from(affinity(app, random));
    }
    if random.one_in(12) {
        out = out.rather_with(10, affinity(app, random));
    }
    if random.one_in(12) {
        out = out.rather_apart_from(20, affinity(app, random));
    }
    if random.one_in(10) {
        out = out.host_port(random.pick(&[8080, 9090]));
    }
    if random.one_in(6) {
        out = out.priority(random.pick(&[-10, 1000]));
    }
    out
}

fn selection(mut out: PodBuilder, random: &mut Random) -> PodBuilder {
    if random.one_in(5) {
        let (key, value) = random.pick(&[
            ("kubernetes.io/arch", "arm64"),
            (ZONE, ZONES[0]),
            (ZONE, ZONES[2]),
            (CAPACITY_TYPE, "on-demand"),
            ("team", "red"),
            ("failure-domain.beta.kubernetes.io/zone", ZONES[1]),
        ]);
        out = out.select(key, value);
    }
    if random.one_in(5) {
        for _ in 0..random.between(1, 3) {
            out = out.or_requires(node_term(random));
        }
    }
    if random.one_in(8) {
        out = out.prefers(10, node_term(random)).prefers(20, node_term(random));
    }
    out
}

pub(crate) fn node_term(random: &mut Random) -> Requirements {
    match random.below(8) {
        0 => is(ZONE, &[ZONES[0], ZONES[1]]),
        1 => requires(ZONE, Operator::NotIn, &[ZONES[1]]),
        2 => is("size", &["large"]),
        3 => requires("integer", Operator::Gt, &["1"]),
        4 => requires("special", Operator::DoesNotExist, &[]),
        5 => requires("team", Operator::NotIn, &["red"]),
        6 => is("rack", &["r1"]),
        _ => is(CAPACITY_TYPE, &["spot", "reserved"]),
    }
}

fn constraint(app: &str, random: &mut Random) -> TopologySpread {
    let policy = |honor: bool| if honor { NodeInclusionPolicy::Honor } else { NodeInclusionPolicy::Ignore };
    let skew = random.pick(&[1, 1, 2, 3]);
    let mut out = spread(random.pick(&KEYS), skew, &[("app", app)]);
    if random.one_in(8) {
        out.selector = Some(LabelSelector::of_labels([("app", random.pick(&APPS))]));
    }
    if random.one_in(6) && out.topology_key != HOST {
        out.min_domains = Some(random.pick(&[1, 2, 3, 4]));
    }
    if random.one_in(6) {
        out.match_label_keys = vec!["version".to_owned()];
    }
    out.node_affinity_policy = policy(!random.one_in(5));
    out.node_taints_policy = policy(random.one_in(5));
    out
}

fn affinity(app: &str, random: &mut Random) -> PodAffinityTerm {
    let on = if random.one_in(3) { random.pick(&APPS) } else { app };
    let mut out = term(random.pick(&KEYS), &[("app", on)]);
    match random.below(10) {
        0 => out.namespaces = vec![random.pick(&NAMESPACES).to_owned()],
        1 => out.namespace_selector = Some(LabelSelector::default()),
        2 => out.namespace_selector = Some(LabelSelector::of_labels([("kind", "busy")])),
        3 => out.match_label_keys = vec!["version".to_owned()],
        4 => out.mismatch_label_keys = vec!["version".to_owned()],
        _ => {}
    }
    out
}

pub(crate) fn volumes(workload: usize, index: usize, random: &mut Random) -> Vec<model::pod::Volume> {
    let shared = random.one_in(4);
    let claim =
        if shared { format!("default/shared-{workload}") } else { format!("default/v-{workload}-{index}") };
    let alternatives = match random.below(4) {
        0 => Vec::new(),
        1 => vec![is(ZONE, &[random.pick(&ZONES)])],
        2 => vec![is(ZONE, &[ZONES[0]]), is(ZONE, &[ZONES[1]])],
        _ => vec![requires(ZONE, Operator::NotIn, &[ZONES[0]])],
    };
    let built = pod("x").volume(&claim, Some("ebs.csi.aws.com"), alternatives).build();
    built.volumes
}

/// Labels of the namespaces.
pub(crate) fn namespaces() -> Vec<(String, model::catalog::LabelMap)> {
    vec![("other".to_owned(), labels(&[("kind", "busy")]))]
}
