//! What can be wrong with a plan, in words.

use std::fmt;
use std::sync::Arc;

use model::price::MicroDollars;
use model::quantity::Quantity;

/// Where a pod was put.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A node to be made; `index` is its position in the plan.
    New {
        index: usize,
        pool: Arc<str>,
    },
    Existing(Arc<str>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New { index, pool } => write!(f, "new node {index} of pool {pool}"),
            Self::Existing(name) => write!(f, "node {name}"),
        }
    }
}

/// One broken rule. Pods are named `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    // Every pod once.
    PodForgotten {
        pod: String,
    },
    PodTwice {
        pod: String,
    },
    PodNotAsked {
        pod: String,
    },
    RefusedPodPlaced {
        pod: String,
        why: String,
    },

    // What a new node may be.
    UnknownPool {
        at: Place,
    },
    FixedSizePool {
        at: Place,
    },
    NodeWithoutPods {
        at: Place,
    },
    NoTypes {
        at: Place,
    },
    UnknownType {
        at: Place,
        instance_type: Arc<str>,
    },
    TypeTwice {
        at: Place,
        instance_type: Arc<str>,
    },
    TooManyTypes {
        at: Place,
        listed: usize,
        most: usize,
    },
    TypeCannotLaunch {
        at: Place,
        instance_type: Arc<str>,
    },
    WiderThanPool {
        at: Place,
        requirement: String,
    },
    WrongRequests {
        at: Place,
        stated: String,
        pods: String,
        most: String,
    },

    // What a node that exists may take.
    UnknownNode {
        at: Place,
    },
    NodeGoesAway {
        at: Place,
    },
    NodeSettles {
        pod: String,
        at: Place,
    },
    NodeNotInitialized {
        pod: String,
        at: Place,
    },

    // What a pod asks of its node.
    DoesNotFit {
        at: Place,
        outcome: String,
        resource: String,
        wanted: Quantity,
        available: Quantity,
    },
    NotSelected {
        pod: String,
        at: Place,
        outcome: String,
    },
    Untolerated {
        pod: String,
        at: Place,
        taint: String,
    },
    PortConflict {
        pod: String,
        other: String,
        at: Place,
        port: u16,
    },
    VolumeOutOfReach {
        pod: String,
        claim: Arc<str>,
        at: Place,
        outcome: String,
    },
    TooManyVolumes {
        at: Place,
        driver: Arc<str>,
        attached: usize,
        most: u32,
    },

    // Topology.
    SpreadUndecided {
        pod: String,
        at: Place,
        key: String,
    },
    SpreadSkewed {
        pod: String,
        at: Place,
        key: String,
        domain: String,
        count: usize,
        least: usize,
        max_skew: u32,
    },
    AffinityUnmet {
        pod: String,
        at: Place,
        key: String,
    },
    AntiAffinityBroken {
        pod: String,
        at: Place,
        other: String,
        other_at: Place,
        key: String,
    },

    // What a pool and a reservation allow.
    LimitExceeded {
        pool: Arc<str>,
        resource: String,
        used: Quantity,
        limit: Quantity,
    },
    TooFewValues {
        at: Place,
        key: String,
        found: usize,
        least: u32,
    },
    RelaxationNotStated {
        at: Place,
        key: String,
    },
    ReservationOvercommitted {
        reservation: Arc<str>,
        nodes: usize,
        capacity: u32,
    },

    // Prices.
    TypesNotByPrice {
        at: Place,
        first: Arc<str>,
        second: Arc<str>,
    },
    LaunchNotOffered {
        at: Place,
        launch: String,
    },
    LaunchNotPreferred {
        at: Place,
        launch: String,
        better: String,
    },
    WrongPrice {
        at: Place,
        stated: MicroDollars,
        actual: MicroDollars,
    },
    WrongCost {
        stated: MicroDollars,
        actual: MicroDollars,
    },
    BoundAboveCost {
        bound: MicroDollars,
        cost: MicroDollars,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodForgotten { pod } => {
                write!(f, "pod {pod} needs a place and is neither placed nor reported as left over")
            }
            Self::PodTwice { pod } => write!(f, "pod {pod} appears more than once in the plan"),
            Self::PodNotAsked { pod } => write!(f, "pod {pod} is in the plan, but needs no place"),
            Self::RefusedPodPlaced { pod, why } => {
                write!(f, "pod {pod} is placed, though it must not be scheduled: {why}")
            }
            Self::UnknownPool { at } => write!(f, "{at}: there is no such pool"),
            Self::FixedSizePool { at } => {
                write!(f, "{at}: the pool has a fixed number of nodes, pods must not cause more")
            }
            Self::NodeWithoutPods { at } => write!(f, "{at} has no pods"),
            Self::NoTypes { at } => write!(f, "{at} lists no instance type"),
            Self::UnknownType { at, instance_type } => {
                write!(f, "{at} lists {instance_type}, which the pool does not offer")
            }
            Self::TypeTwice { at, instance_type } => write!(f, "{at} lists {instance_type} twice"),
            Self::TooManyTypes { at, listed, most } => {
                write!(f, "{at} lists {listed} instance types, more than {most}")
            }
            Self::TypeCannotLaunch { at, instance_type } => write!(
                f,
                "{at} lists {instance_type}, which has no available offering within the node's requirements"
            ),
            Self::WiderThanPool { at, requirement } => {
                write!(f, "{at} allows more than the pool's requirement {requirement}")
            }
            Self::WrongRequests { at, stated, pods, most } => {
                write!(f, "{at} states requests of {stated}; its pods want {pods}, with all daemons {most}")
            }
            Self::UnknownNode { at } => write!(f, "{at} gets pods, but does not exist"),
            Self::NodeGoesAway { at } => write!(f, "{at} gets pods, but is being removed"),
            Self::NodeSettles { pod, at } => {
                write!(f, "pod {pod} is moved onto {at}, which is still settling")
            }
            Self::NodeNotInitialized { pod, at } => {
                write!(f, "pod {pod} is moved onto {at}, which is not initialised yet")
            }
            Self::DoesNotFit { at, outcome, resource, wanted, available } => {
                write!(f, "{at}{}: {wanted} {resource} wanted, {available} available", As(outcome))
            }
            Self::NotSelected { pod, at, outcome } => write!(
                f,
                "{at}{} does not satisfy the node selector or required node affinity of pod {pod}",
                As(outcome)
            ),
            Self::Untolerated { pod, at, taint } => {
                write!(f, "pod {pod} does not tolerate taint {taint} of {at}")
            }
            Self::PortConflict { pod, other, at, port } => {
                write!(f, "pod {pod} and {other} both want host port {port} of {at}")
            }
            Self::VolumeOutOfReach { pod, claim, at, outcome } => {
                write!(f, "volume {claim} of pod {pod} cannot be attached to {at}{}", As(outcome))
            }
            Self::TooManyVolumes { at, driver, attached, most } => {
                write!(f, "{at} would attach {attached} volumes of {driver}, more than {most}")
            }
            Self::SpreadUndecided { pod, at, key } => write!(
                f,
                "pod {pod} must be spread over {key}, and it is open which value (if any) {at} will have"
            ),
            Self::SpreadSkewed { pod, at, key, domain, count, least, max_skew } => write!(
                f,
                "pod {pod} on {at}: {count} pods in {key}={domain} against {least} in the emptiest domain, \
                 a skew of more than {max_skew}"
            ),
            Self::AffinityUnmet { pod, at, key } => write!(
                f,
                "pod {pod} wants to share {key} with other pods, and none is sure to be in that of {at}"
            ),
            Self::AntiAffinityBroken { pod, at, other, other_at, key } => write!(
                f,
                "pod {pod} on {at} must not share {key} with pod {other}, which is or may be there ({other_at})"
            ),
            Self::LimitExceeded { pool, resource, used, limit } => {
                write!(f, "pool {pool} could grow to {used} {resource}, beyond its limit of {limit}")
            }
            Self::TooFewValues { at, key, found, least } => {
                write!(f, "{at} keeps {found} values of {key} possible, minValues asks for {least}")
            }
            Self::RelaxationNotStated { at, key } => {
                write!(f, "{at} falls short of minValues of {key} without saying so")
            }
            Self::ReservationOvercommitted { reservation, nodes, capacity } => {
                write!(
                    f,
                    "{nodes} new nodes may use reservation {reservation}, which has {capacity} instances left"
                )
            }
            Self::TypesNotByPrice { at, first, second } => {
                write!(f, "{at} lists {first} before the cheaper {second}")
            }
            Self::LaunchNotOffered { at, launch } => {
                write!(f, "{at} is priced as {launch}, which is not among what it may become")
            }
            Self::LaunchNotPreferred { at, launch, better } => {
                write!(f, "{at} is priced as {launch}, but would be launched as {better}")
            }
            Self::WrongPrice { at, stated, actual } => {
                write!(f, "{at} is priced at {stated} an hour, the offering costs {actual}")
            }
            Self::WrongCost { stated, actual } => {
                write!(f, "the plan states a cost of {stated} an hour, its nodes sum up to {actual}")
            }
            Self::BoundAboveCost { bound, cost } => {
                write!(f, "the lower bound {bound} is above the cost {cost}")
            }
        }
    }
}

/// ` as m5.large in us-east-1a`, or nothing for a node that exists.
struct As<'a>(&'a str);

impl fmt::Display for As<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " as {}", self.0) }
    }
}
