//! Which DaemonSets run a pod on a node.

use model::labels;
use model::pod::PodSpec;
use model::pool::DaemonSet;
use model::quantity::Quantity;
use model::requirement::Requirement;
use model::requirements::Requirements;
use model::resources::{PODS, Resources};
use model::taint::Taint;

use super::labels::{Labels, selects};
use super::taints::bears_hard;

/// Daemons whose pods will run on the node in this outcome. Soft taints do not keep them away, and a new node will be
/// registered and initialised one day.
pub(super) fn on<'a>(daemons: &'a [DaemonSet], labels: &Labels<'_>, taints: &[&Taint]) -> Vec<&'a PodSpec> {
    let comes =
        |pod: &&PodSpec| bears_hard(pod, taints.iter().copied()) && selects(pod, |asked| runs(labels, asked));
    let overhead = daemons.iter().filter(|daemon| daemon.is_overhead());
    overhead.map(|daemon| &*daemon.pod).filter(comes).collect()
}

fn runs(on: &Labels<'_>, term: &Requirements) -> bool {
    match on {
        Labels::Node(_) => on.satisfy(term),
        Labels::Outcome(_) => {
            let is_state = |key: &str| key == labels::REGISTERED || key == labels::INITIALIZED;
            let (state, other): (Vec<&Requirement>, Vec<&Requirement>) =
                term.iter().partition(|r| is_state(r.key()));
            let other: Requirements = other.into_iter().cloned().collect();
            on.may_satisfy(&other) && state.iter().all(|r| r.contains(labels::TRUE))
        }
    }
}

/// Requests of pods, each of which also counts as one of `pods`.
pub(super) fn sum<'a>(pods: impl Iterator<Item = &'a PodSpec>) -> Resources {
    let mut total = Resources::new();
    for pod in pods {
        total.add(&pod.requests);
        total.insert(PODS, total.get(PODS) + Quantity::from_units(1));
    }
    total
}
