//! A node that exists takes pods only while it stays, and moved pods only once it is ready for them.

use super::sites::{Cluster, Kind, Origin};
use super::violation::Violation;
use crate::options::Options;

pub(super) fn check(cluster: &Cluster<'_>, options: &Options, found: &mut Vec<Violation>) {
    for site in cluster.sites.iter().filter(|site| !site.new.is_empty()) {
        let at = || site.place.clone();
        let node = match site.kind {
            Kind::New { .. } => continue,
            Kind::Unknown => {
                found.push(Violation::UnknownNode { at: at() });
                continue;
            }
            Kind::Existing { goes: true, .. } => {
                found.push(Violation::NodeGoesAway { at: at() });
                continue;
            }
            Kind::Existing { node, .. } => node,
        };
        for pod in &site.new {
            let origin = cluster.to_place.get(&pod.key()).map(|(_, origin)| *origin);
            let settles = node.managed() && node.initialized && node.settling;
            if options.protect_settling && settles && origin == Some(Origin::Moved) {
                found.push(Violation::NodeSettles { pod: pod.key(), at: at() });
            }
            let waits = node.managed() && !node.initialized;
            if options.distrust_uninitialized && waits && origin != Some(Origin::Deleting) {
                found.push(Violation::NodeNotInitialized { pod: pod.key(), at: at() });
            }
        }
    }
}
