//! Builders, and tests by what they are about.

mod costs;
mod holding;
mod methods;
mod pods;

use model::catalog::LabelMap;
use model::do_not_disrupt::DoNotDisrupt;
use model::pod::LabelSelector;

use super::*;
use crate::consolidation::COST_UNIT;
use crate::drain::Pod;
use crate::drain::pdb::Pdb;
use crate::drain::pod::{Deletion, Owner, Phase, Size};
use crate::method::{Class, Method, Reason};

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn seconds_ago(seconds: i64) -> Timestamp {
    Timestamp::from_second(now().as_second() - seconds).unwrap()
}

/// A running pod of a Deployment, started an hour ago.
fn pod(name: &str) -> Resident {
    Resident {
        pod: Pod {
            namespace: Arc::from("default"),
            name: Arc::from(name),
            uid: Arc::from(name),
            labels: Arc::new(LabelMap::from([("app".to_owned(), name.to_owned())])),
            owner: Owner::Other,
            priority: 0,
            size: Size::default(),
            critical: false,
            phase: Phase::Running,
            unhealthy: false,
            deletion: None,
            grace_seconds: 30,
            started: Some(seconds_ago(3600)),
            do_not_disrupt: DoNotDisrupt::Absent,
            tolerates_disrupted: false,
            volume_claims: Vec::new(),
        },
        stateful: false,
        eviction_cost: COST_UNIT,
    }
}

impl Resident {
    fn owned(mut self, owner: Owner) -> Self {
        self.pod.owner = owner;
        self
    }

    fn of_stateful_set(self) -> Self {
        Self { stateful: true, ..self }
    }

    fn annotated(mut self, value: &str) -> Self {
        self.pod.do_not_disrupt = DoNotDisrupt::parse(Some(value));
        self
    }

    fn started(mut self, at: Option<Timestamp>) -> Self {
        self.pod.started = at;
        self
    }

    fn done(mut self) -> Self {
        self.pod.phase = Phase::Done;
        self
    }

    fn terminating(mut self) -> Self {
        self.pod.deletion = Some(Deletion { ends: now(), grace_seconds: 30 });
        self
    }

    fn unhealthy(mut self) -> Self {
        self.pod.unhealthy = true;
        self
    }

    fn costing(self, eviction_cost: i64) -> Self {
        Self { eviction_cost, ..self }
    }
}

fn pdb(name: &str, app: &str, allowed: i32) -> Arc<Pdb> {
    Arc::new(Pdb {
        namespace: Arc::from("default"),
        name: Arc::from(name),
        selector: Some(LabelSelector::of_labels([("app", app)])),
        unhealthy_always: false,
        allowed,
        healthy: 2,
        desired: 2 - allowed,
        expected: 2,
    })
}

fn pdbs(list: &[Arc<Pdb>]) -> Pdbs {
    list.iter().cloned().collect()
}

fn no_pdbs() -> Pdbs {
    Pdbs::default()
}

fn pool() -> Pool {
    Pool {
        name: Arc::from("default"),
        fixed_size: false,
        consolidate_after: "0s".parse().unwrap(),
        policy: Policy::WhenEmptyOrUnderutilized,
        types_unknown: None,
    }
}

/// An initialised node of ours that is Consolidatable and has these pods.
fn node(pods: Vec<Resident>) -> Subject {
    Subject {
        node: Some(Arc::from("node-a")),
        claim: Some(Claim {
            name: Arc::from("claim-a"),
            created: seconds_ago(7200),
            expire_after: NillableDuration::Never,
            termination_grace_period: None,
            consolidatable: Consolidatable::Yes,
            drifted: None,
        }),
        conflicting_claims: Vec::new(),
        command: None,
        initialized: true,
        leaving: None,
        nominated_until: None,
        do_not_disrupt: false,
        foreign_taint: None,
        pool: PoolOf::Known(Arc::new(pool())),
        offering: Offering {
            instance_type: Some(Arc::from("m5.large")),
            type_known: true,
            capacity_type: Some(Arc::from("on-demand")),
            zone: Some(Arc::from("us-east-1a")),
            price: Some(MicroDollars::new(96_000)),
        },
        pods: pods.into_iter().map(Arc::new).collect(),
        buffer_pods: 0,
    }
}

impl Subject {
    fn in_pool(self, pool: Pool) -> Self {
        Self { pool: PoolOf::Known(Arc::new(pool)), ..self }
    }

    fn with_claim(mut self, change: impl FnMut(&mut Claim)) -> Self {
        self.claim.as_mut().into_iter().for_each(change);
        self
    }

    fn drifted(self) -> Self {
        self.with_claim(|claim| {
            claim.drifted = Some(Drifted { reason: "AMIDrift".to_owned(), since: seconds_ago(60) });
        })
    }

    fn with_grace_period(self) -> Self {
        self.with_claim(|claim| claim.termination_grace_period = Some("1h".parse().unwrap()))
    }
}
