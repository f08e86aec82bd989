//! Volumes can be attached where their pod is, and no node attaches more of them than its CSI drivers can.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::pod::Pod;

use super::labels::Labels;
use super::sites::Cluster;
use super::violation::Violation;

pub(super) fn check(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    for site in &cluster.sites {
        for pod in &site.new {
            for volume in pod.volumes.iter().filter(|volume| !volume.alternatives.is_empty()) {
                let reaches = |labels: &Labels<'_>| {
                    volume.alternatives.iter().any(|alternative| labels.satisfy(alternative))
                };
                if let Some(labels) = site.outcomes.all.iter().find(|labels| !reaches(labels)) {
                    found.push(Violation::VolumeOutOfReach {
                        pod: pod.key(),
                        claim: volume.claim.clone(),
                        at: site.place.clone(),
                        outcome: labels.to_string(),
                    });
                }
            }
        }
    }
    for (site, _, _) in cluster.new_nodes() {
        for (driver, claims) in attached(site.new.iter().copied()) {
            let limit = |labels: &Labels<'_>| match labels {
                Labels::Outcome(outcome) => outcome.instance.attach_limits.get(driver).copied(),
                Labels::Node(_) => None,
            };
            let Some(most) = site.outcomes.all.iter().filter_map(limit).min() else { continue };
            if claims.len() > most as usize {
                found.push(Violation::TooManyVolumes {
                    at: site.place.clone(),
                    driver: driver.clone(),
                    attached: claims.len(),
                    most,
                });
            }
        }
    }
    for (site, node) in cluster.nodes() {
        let before = attached(site.bound.iter().copied());
        let after = attached(site.bound.iter().chain(&site.new).copied());
        for (driver, claims) in after {
            let grew = before.get(driver).is_none_or(|before| before.len() < claims.len());
            let Some(most) = node.csi_limits.get(driver).filter(|_| grew) else { continue };
            if claims.len() > *most as usize {
                found.push(Violation::TooManyVolumes {
                    at: site.place.clone(),
                    driver: driver.clone(),
                    attached: claims.len(),
                    most: *most,
                });
            }
        }
    }
}

/// Claims by driver; pods that share a claim use one attachment.
fn attached<'a>(pods: impl Iterator<Item = &'a Pod>) -> BTreeMap<&'a Arc<str>, BTreeSet<&'a str>> {
    let mut out: BTreeMap<&Arc<str>, BTreeSet<&str>> = BTreeMap::new();
    for volume in pods.flat_map(|pod| &pod.volumes) {
        if let Some(driver) = &volume.driver {
            out.entry(driver).or_default().insert(&volume.claim);
        }
    }
    out
}
