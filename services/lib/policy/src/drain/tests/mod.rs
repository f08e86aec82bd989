//! The behaviour of draining, from the reference's catalogue and beyond, and the exploration of every interleaving.

mod budgets;
mod claim_world;
mod claims;
mod explore;
mod garbage;
mod nodes;
mod pods;
mod world;

use std::sync::Arc;

use jiff::Timestamp;
use model::catalog::LabelMap;
use model::do_not_disrupt::DoNotDisrupt;

use super::pod::{Deletion, Owner, Phase, Pod, Size};

/// Seconds of the tests' clock, which starts at an arbitrary moment.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

/// A running pod of a Deployment in namespace `shop` with the usual grace of 30 s.
fn pod(name: &str) -> Pod {
    Pod {
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        labels: Arc::new(LabelMap::from([("app".into(), name.into())])),
        owner: Owner::Other,
        priority: 0,
        size: Size::default(),
        critical: false,
        phase: Phase::Running,
        unhealthy: false,
        deletion: None,
        grace_seconds: 30,
        started: Some(at(-1000)),
        do_not_disrupt: DoNotDisrupt::Absent,
        tolerates_disrupted: false,
        volume_claims: Vec::new(),
    }
}

impl Pod {
    fn daemon(mut self) -> Self {
        self.owner = Owner::Daemon;
        self
    }

    fn critical(mut self) -> Self {
        self.critical = true;
        self
    }

    fn protected(mut self, annotation: &str) -> Self {
        self.do_not_disrupt = DoNotDisrupt::parse(Some(annotation));
        self
    }

    fn grace(mut self, seconds: i64) -> Self {
        self.grace_seconds = seconds;
        self
    }

    /// Deleted at `from` with its own grace period.
    fn deleted(mut self, from: i64) -> Self {
        self.deletion =
            Some(Deletion { ends: at(from + self.grace_seconds), grace_seconds: self.grace_seconds });
        self
    }
}

fn arcs(pods: impl IntoIterator<Item = Pod>) -> Vec<Arc<Pod>> {
    pods.into_iter().map(Arc::new).collect()
}
