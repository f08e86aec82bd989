//! The things that hold a node, in words that people can act on.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use model::labels;

use crate::budget;
use crate::consolidation::Refusal;
use crate::method::Reason;

/// Why a node stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    // Of any method, in the order in which they are asked.
    InCommand(Arc<str>),
    NotOurs,
    ConflictingClaims(Vec<Arc<str>>),
    NoNode,
    NotInitialized,
    Leaving(Leaving),
    ForeignTaint(String),
    Nominated {
        until: Timestamp,
    },
    NodeAnnotation,
    NoPoolLabel,
    PoolMissing(Arc<str>),
    TypesUnknown {
        pool: Arc<str>,
        why: String,
    },
    PodAnnotation {
        pod: String,
        until: Option<Timestamp>,
    },
    Pdb {
        pod: String,
        block: PdbBlock,
    },
    // Of some methods.
    FixedSize {
        pool: Arc<str>,
    },
    NotFixedSize {
        pool: Arc<str>,
    },
    NotDrifted,
    TypeUnknown {
        instance_type: Option<Arc<str>>,
    },
    NoCapacityType,
    NoZone,
    NoPrice {
        instance_type: Arc<str>,
        zone: Arc<str>,
        capacity_type: Arc<str>,
    },
    ConsolidationOff {
        pool: Arc<str>,
    },
    BufferPods(u32),
    NotEmpty {
        pods: u32,
    },
    LeftToEmptiness,
    OnlyWhenEmpty {
        pool: Arc<str>,
        pods: u32,
    },
    NotConsolidatable {
        not_before: Option<Timestamp>,
    },
    // Found elsewhere.
    Budget(budget::State),
    CoolingDown {
        pool: Arc<str>,
        until: Timestamp,
        why: String,
    },
    NoSaving(Refusal),
    /// Pods of it would have no place (drift, which asks no price).
    Unplaceable(Vec<String>),
}

/// How it is leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    ClaimDeleted,
    NodeDeleted,
    InstanceTerminating,
}

/// What PodDisruptionBudgets say about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PdbBlock {
    Spent { budget: String, healthy: i32, desired: i32 },
    Several(Vec<String>),
}

/// The reference's event that such an obstacle is published as, on Node and NodeClaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventReason {
    DisruptionBlocked,
    Unconsolidatable,
}

impl EventReason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DisruptionBlocked => "DisruptionBlocked",
            Self::Unconsolidatable => "Unconsolidatable",
        }
    }
}

impl Blocked {
    /// Stable name of the rule, for programs.
    pub const fn rule(&self) -> &'static str {
        match self {
            Self::InCommand(_) => "in-command",
            Self::NotOurs => "not-ours",
            Self::ConflictingClaims(_) => "conflicting-claims",
            Self::NoNode => "no-node",
            Self::NotInitialized => "not-initialized",
            Self::Leaving(_) => "leaving",
            Self::ForeignTaint(_) => "foreign-taint",
            Self::Nominated { .. } => "nominated",
            Self::NodeAnnotation | Self::PodAnnotation { .. } => "do-not-disrupt",
            Self::NoPoolLabel | Self::PoolMissing(_) => "no-nodepool",
            Self::TypesUnknown { .. } => "instance-types-unknown",
            Self::Pdb { .. } => "pdb",
            Self::FixedSize { .. } => "fixed-size",
            Self::NotFixedSize { .. } => "not-fixed-size",
            Self::NotDrifted => "not-drifted",
            Self::TypeUnknown { .. } => "instance-type-unknown",
            Self::NoCapacityType => "no-capacity-type",
            Self::NoZone => "no-zone",
            Self::NoPrice { .. } => "no-price",
            Self::ConsolidationOff { .. } => "consolidation-off",
            Self::BufferPods(_) => "capacity-buffer",
            Self::NotEmpty { .. } => "not-empty",
            Self::LeftToEmptiness => "empty",
            Self::OnlyWhenEmpty { .. } => "only-when-empty",
            Self::NotConsolidatable { .. } => "consolidate-after",
            Self::Budget(_) => "budget",
            Self::CoolingDown { .. } => "cool-down",
            Self::NoSaving(_) => "no-saving",
            Self::Unplaceable(_) => "unplaceable",
        }
    }

    /// Which event tells of it; `None` for what nobody needs to hear.
    pub const fn event(&self) -> Option<EventReason> {
        match self {
            Self::NoNode
            | Self::ConflictingClaims(_)
            | Self::NotInitialized
            | Self::Leaving(_)
            | Self::ForeignTaint(_)
            | Self::Nominated { .. }
            | Self::NodeAnnotation
            | Self::NoPoolLabel
            | Self::PoolMissing(_)
            | Self::TypesUnknown { .. }
            | Self::PodAnnotation { .. }
            | Self::Pdb { .. }
            | Self::Unplaceable(_) => Some(EventReason::DisruptionBlocked),
            Self::TypeUnknown { .. }
            | Self::NoCapacityType
            | Self::NoZone
            | Self::NoPrice { .. }
            | Self::ConsolidationOff { .. }
            | Self::BufferPods(_)
            | Self::OnlyWhenEmpty { .. }
            | Self::NoSaving(_) => Some(EventReason::Unconsolidatable),
            Self::InCommand(_)
            | Self::NotOurs
            | Self::FixedSize { .. }
            | Self::NotFixedSize { .. }
            | Self::NotDrifted
            | Self::NotEmpty { .. }
            | Self::LeftToEmptiness
            | Self::NotConsolidatable { .. }
            | Self::Budget(_)
            | Self::CoolingDown { .. } => None,
        }
    }

    /// What would change it.
    pub fn remedy(&self) -> String {
        match self {
            Self::InCommand(id) => format!("nothing: command {id} decides"),
            Self::NotOurs => "nothing: only nodes with a NodeClaim are disrupted".to_owned(),
            Self::ConflictingClaims(_) => {
                "find out which NodeClaim owns the instance and delete the others".to_owned()
            }
            Self::NoNode => "the node joining the cluster".to_owned(),
            Self::NotInitialized => {
                "the node becoming ready, its startup taints removed and its resources registered".to_owned()
            }
            Self::Leaving(_) => "nothing: it is going already".to_owned(),
            Self::ForeignTaint(taint) => format!("whoever put taint {taint} removing it"),
            Self::Nominated { until } => format!("time: the promise ends at {until}"),
            Self::NodeAnnotation => {
                format!("removing annotation {} from the node", labels::DO_NOT_DISRUPT)
            }
            Self::PodAnnotation { pod, until: Some(until) } => {
                format!("time: the annotation of {pod} ends at {until}")
            }
            Self::PodAnnotation { pod, until: None } => {
                format!("removing annotation {} from pod {pod}, or its end", labels::DO_NOT_DISRUPT)
            }
            Self::NoPoolLabel => format!("label {} on the node", labels::NODEPOOL),
            Self::PoolMissing(pool) => format!("creating NodePool {pool}"),
            Self::TypesUnknown { pool, .. } => {
                format!("NodePool {pool} and its node class becoming ready, and pricing-cache answering")
            }
            Self::Pdb { block: PdbBlock::Spent { budget, healthy, desired }, .. } => format!(
                "PDB {budget} allowing a disruption: {} more healthy pods, or a lower bar",
                (desired - healthy).max(0).saturating_add(1)
            ),
            Self::Pdb { block: PdbBlock::Several(budgets), .. } => {
                format!("selectors that leave the pod with one of PDBs {}", budgets.join(", "))
            }
            Self::FixedSize { .. } => "drift, expiry, or fewer replicas".to_owned(),
            Self::NotFixedSize { .. } | Self::NotDrifted => {
                "a change of its NodePool or EC2NodeClass that it does not meet".to_owned()
            }
            Self::TypeUnknown { .. } => {
                "the node class offering its instance type again, or drift".to_owned()
            }
            Self::NoCapacityType => format!("label {} on the node", labels::CAPACITY_TYPE),
            Self::NoZone => format!("label {} on the node", labels::ZONE),
            Self::NoPrice { .. } => "a price from pricing-cache, or a NodeOverlay that sets one".to_owned(),
            Self::ConsolidationOff { pool } => {
                format!("spec.disruption.consolidateAfter of NodePool {pool} being a duration")
            }
            Self::BufferPods(_) => "a smaller CapacityBuffer".to_owned(),
            Self::NotEmpty { .. } => "its pods ending or moving".to_owned(),
            Self::LeftToEmptiness => "nothing: it is removed as empty".to_owned(),
            Self::OnlyWhenEmpty { pool, .. } => {
                format!("spec.disruption.consolidationPolicy of NodePool {pool}, or its pods leaving")
            }
            Self::NotConsolidatable { not_before: Some(at) } => {
                format!("time: quiet until {at}")
            }
            Self::NotConsolidatable { not_before: None } => {
                "no pod coming or going for consolidateAfter".to_owned()
            }
            Self::Budget(state) => match (&state.problem, &state.by) {
                (Some(_), _) => "a budget that can be read".to_owned(),
                (None, Some(by)) => match by.until {
                    Some(until) => format!("time: the budget's window ends at {until}"),
                    None if state.allowed == 0 => "a larger budget".to_owned(),
                    None => "nodes that are away coming back or ending, or a larger budget".to_owned(),
                },
                (None, None) => "nothing: no budget limits it".to_owned(),
            },
            Self::CoolingDown { until, .. } => format!("time: until {until}"),
            Self::NoSaving(refusal) => remedy_of(refusal),
            Self::Unplaceable(_) => "room for these pods, or looser demands of theirs".to_owned(),
        }
    }
}

fn remedy_of(refusal: &Refusal) -> String {
    match refusal {
        Refusal::LeftOver(_) => "room for these pods elsewhere, or looser demands of theirs",
        Refusal::Displaced(_) => "more room elsewhere, or smaller pods",
        Refusal::TooManyNew(_) => "fewer or smaller pods on it",
        Refusal::NotCheaper => "cheaper offerings, fewer pods on it, or wider requirements of its NodePool",
        Refusal::SpotToSpotDisabled => "feature gate SpotToSpotConsolidation",
        Refusal::TooFewSpotTypes { .. } => "a NodePool that allows more instance types",
        Refusal::MinValues { .. } => "a lower minValues in the NodePool",
        Refusal::NotWorthIt => "a larger saving, fewer pods on it, or another consolidationPolicy",
        Refusal::TooLittleSaved { .. } => "a larger saving, or a lower minimum in the NodePool's annotation",
        Refusal::PaysBackLate { .. } => "a larger saving, or a longer time in the NodePool's annotation",
        Refusal::CostsMore { .. } => {
            "a larger saving, fewer pods on it, or a lower cost in the NodePool's annotation"
        }
        Refusal::Setting(_) => "an annotation of the NodePool that can be read",
    }
    .to_owned()
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |list: &[Arc<str>]| list.iter().map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        match self {
            Self::InCommand(id) => write!(f, "it is part of disruption command {id}"),
            Self::NotOurs => f.write_str("it has no NodeClaim: it is not ours"),
            Self::ConflictingClaims(claims) => {
                write!(f, "several NodeClaims name its instance: {}", names(claims))
            }
            Self::NoNode => f.write_str("its node has not joined the cluster"),
            Self::NotInitialized => f.write_str("it is not initialized yet"),
            Self::Leaving(Leaving::ClaimDeleted) => f.write_str("its NodeClaim is being deleted"),
            Self::Leaving(Leaving::NodeDeleted) => f.write_str("its Node is being deleted"),
            Self::Leaving(Leaving::InstanceTerminating) => f.write_str("its instance is being terminated"),
            Self::ForeignTaint(taint) => write!(f, "somebody else has marked it with taint {taint}"),
            Self::Nominated { until } => write!(f, "pending pods were promised to it until {until}"),
            Self::NodeAnnotation => write!(f, "it has annotation {}: \"true\"", labels::DO_NOT_DISRUPT),
            Self::NoPoolLabel => write!(f, "it has no label {}", labels::NODEPOOL),
            Self::PoolMissing(pool) => write!(f, "NodePool {pool} does not exist"),
            Self::TypesUnknown { pool, why } => {
                write!(f, "the instance types of NodePool {pool} are not known: {why}")
            }
            Self::PodAnnotation { pod, until: None } => {
                write!(f, "pod {pod} has annotation {}", labels::DO_NOT_DISRUPT)
            }
            Self::PodAnnotation { pod, until: Some(until) } => {
                write!(f, "pod {pod} has annotation {}, in force until {until}", labels::DO_NOT_DISRUPT)
            }
            Self::Pdb { pod, block: PdbBlock::Spent { budget, healthy, desired } } => write!(
                f,
                "PDB {budget} allows no disruption of pod {pod}: {healthy} of {desired} needed pods are healthy"
            ),
            Self::Pdb { pod, block: PdbBlock::Several(budgets) } => write!(
                f,
                "pod {pod} is selected by {} PDBs ({}), and the eviction API refuses such pods",
                budgets.len(),
                budgets.join(", ")
            ),
            Self::FixedSize { pool } => {
                write!(f, "NodePool {pool} has a fixed number of replicas and is not consolidated")
            }
            Self::NotFixedSize { pool } => write!(f, "NodePool {pool} has no fixed number of replicas"),
            Self::NotDrifted => f.write_str("it has not drifted"),
            Self::TypeUnknown { instance_type: Some(name) } => {
                write!(f, "its node class does not offer instance type {name}")
            }
            Self::TypeUnknown { instance_type: None } => {
                write!(f, "it has no label {}", labels::INSTANCE_TYPE)
            }
            Self::NoCapacityType => write!(f, "it has no label {}", labels::CAPACITY_TYPE),
            Self::NoZone => write!(f, "it has no label {}", labels::ZONE),
            Self::NoPrice { instance_type, zone, capacity_type } => {
                write!(f, "there is no price for {instance_type} {capacity_type} in {zone}")
            }
            Self::ConsolidationOff { pool } => {
                write!(f, "NodePool {pool} has consolidation off: consolidateAfter is Never")
            }
            Self::BufferPods(count) => write!(f, "it keeps room for {count} pods of capacity buffers"),
            Self::NotEmpty { pods } => write!(f, "it runs {pods} pods that would have to move"),
            Self::LeftToEmptiness => f.write_str("nothing on it costs anything to move"),
            Self::OnlyWhenEmpty { pool, pods } => write!(
                f,
                "NodePool {pool} has consolidationPolicy WhenEmpty, and {pods} pods would have to move"
            ),
            Self::NotConsolidatable { not_before: Some(at) } => {
                write!(f, "pods came or went lately: consolidateAfter is over at {at}")
            }
            Self::NotConsolidatable { not_before: None } => {
                f.write_str("its NodeClaim is not Consolidatable: consolidateAfter is not over")
            }
            Self::Budget(state) => state.fmt(f),
            Self::CoolingDown { pool, until, why } => {
                write!(f, "NodePool {pool} is left alone until {until}: {why}")
            }
            Self::NoSaving(refusal) => refusal.fmt(f),
            Self::Unplaceable(pods) => Refusal::LeftOver(pods.clone()).fmt(f),
        }
    }
}

impl Blocked {
    /// Passes by itself, and nothing that drains a node evicts past it: a budget that allows nothing at the moment.
    pub const fn is_spent_pdb(&self) -> bool {
        matches!(self, Self::Pdb { block: PdbBlock::Spent { .. }, .. })
    }

    /// The reason for which it counts, where it does not count for all.
    pub fn about(&self) -> Option<Reason> {
        match self {
            Self::Budget(state) => Some(state.reason),
            Self::NotDrifted | Self::Unplaceable(_) => Some(Reason::Drifted),
            Self::NotEmpty { .. } | Self::BufferPods(_) => Some(Reason::Empty),
            Self::OnlyWhenEmpty { .. }
            | Self::NoSaving(_)
            | Self::TypeUnknown { .. }
            | Self::NoCapacityType
            | Self::NoZone
            | Self::NoPrice { .. }
            | Self::LeftToEmptiness => Some(Reason::Underutilized),
            _ => None,
        }
    }
}
