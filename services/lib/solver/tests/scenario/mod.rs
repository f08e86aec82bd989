//! Scenarios for comparing and measuring: clusters and workloads described abstractly, made from a seed, and turned into the
//! solver's input here (and into manifests by the benchmark program, for the reference). The same seed gives the same
//! scenario on every machine.

#![allow(dead_code, unreachable_pub, reason = "included by several programs, each of which uses a part")]

pub mod catalogue;
pub mod generate;
pub mod hard;
pub mod random;
pub mod to_input;

use std::collections::BTreeMap;

pub type Labels = BTreeMap<String, String>;

pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub const ARCH: &str = "kubernetes.io/arch";

#[derive(Clone, Debug, Default)]
pub struct Scenario {
    pub name: String,
    pub kinds: Vec<catalogue::Kind>,
    pub pools: Vec<Pool>,
    pub nodes: Vec<RunningNode>,
    pub daemons: Vec<Workload>,
    pub workloads: Vec<Workload>,
}

#[derive(Clone, Debug, Default)]
pub struct Pool {
    pub name: String,
    pub weight: Option<i32>,
    pub requirements: Vec<Term>,
    pub labels: Labels,
    /// Key and value; effect NoSchedule.
    pub taints: Vec<(String, String)>,
    /// CPUs in all.
    pub cpu_limit: Option<i64>,
}

/// `key operator values`.
#[derive(Clone, Debug)]
pub struct Term {
    pub key: String,
    pub operator: &'static str,
    pub values: Vec<String>,
}

impl Term {
    pub fn within(key: &str, values: &[&str]) -> Self {
        Self { key: key.to_owned(), operator: "In", values: values.iter().map(|v| (*v).to_owned()).collect() }
    }
}

/// A node that exists, of a type of the catalogue.
#[derive(Clone, Debug)]
pub struct RunningNode {
    pub name: String,
    pub pool: String,
    pub kind: usize,
    pub zone: usize,
    pub spot: bool,
}

/// Pods of one template.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    pub name: String,
    pub replicas: usize,
    /// A single pod of its own name instead of a Deployment.
    pub bare: bool,
    pub labels: Labels,
    pub milli_cpu: i64,
    pub mib: i64,
    pub gpus: i64,
    pub selector: Labels,
    /// OR-ed terms of required node affinity.
    pub required: Vec<Vec<Term>>,
    /// Weight and term.
    pub preferred: Vec<(i32, Term)>,
    pub tolerations: Vec<(String, String)>,
    pub spread: Vec<Spread>,
    pub affinity: Vec<Together>,
    pub host_port: Option<u16>,
    /// Runs on this node already.
    pub on: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Spread {
    pub key: &'static str,
    pub skew: u32,
    pub hard: bool,
    pub labels: Labels,
}

/// Pod affinity or anti-affinity; with a weight it is a preference.
#[derive(Clone, Debug)]
pub struct Together {
    pub key: &'static str,
    pub labels: Labels,
    pub apart: bool,
    pub weight: Option<i32>,
}

pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

impl Workload {
    pub fn pod_names(&self) -> Vec<String> {
        if self.bare {
            return vec![self.name.clone()];
        }
        (0..self.replicas).map(|n| format!("{}-{n}", self.name)).collect()
    }
}

impl Scenario {
    pub fn pod_count(&self) -> usize {
        self.workloads.iter().filter(|w| w.on.is_none()).map(|w| if w.bare { 1 } else { w.replicas }).sum()
    }
}
