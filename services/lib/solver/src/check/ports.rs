//! No two pods of a node want the same host port; on a new node the pods of daemons count, too.

use model::pod::{HostPort, PodSpec};
use model::taint::Taint;

use super::daemons;
use super::sites::{Cluster, Kind, Site};
use super::violation::Violation;

pub(super) fn check(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    for site in cluster.sites.iter().filter(|site| site.new.iter().any(|p| !p.spec.host_ports.is_empty())) {
        let mut taken: Vec<(String, HostPort)> = Vec::new();
        let mut take = |name: &str, spec: &PodSpec| {
            taken.extend(spec.host_ports.iter().map(|port| (name.to_owned(), *port)));
        };
        for pod in &site.bound {
            take(&pod.key(), &pod.spec);
        }
        for daemon in daemons_of(cluster, site) {
            take("a daemon", daemon);
        }
        for pod in &site.new {
            for port in &pod.spec.host_ports {
                if let Some((other, _)) = taken.iter().find(|(_, other)| other.conflicts(port)) {
                    found.push(Violation::PortConflict {
                        pod: pod.key(),
                        other: other.clone(),
                        at: site.place.clone(),
                        port: port.port,
                    });
                }
            }
            taken.extend(pod.spec.host_ports.iter().map(|port| (pod.key(), *port)));
        }
    }
}

/// Those that any outcome of a new node brings. On a node that exists they are among its pods already.
fn daemons_of<'a>(cluster: &Cluster<'a>, site: &Site<'a>) -> Vec<&'a PodSpec> {
    let Kind::New { pool: Some(pool), .. } = site.kind else { return Vec::new() };
    let taints: Vec<&Taint> = pool.taints.iter().collect();
    let with_ports = cluster.input.daemon_sets.iter().filter(|daemon| !daemon.pod.host_ports.is_empty());
    let comes = |daemon: &&'a model::pool::DaemonSet| {
        let one = std::slice::from_ref(*daemon);
        site.outcomes.all.iter().any(|labels| !daemons::on(one, labels, &taints).is_empty())
    };
    with_ports.filter(comes).map(|daemon| &*daemon.pod).collect()
}
