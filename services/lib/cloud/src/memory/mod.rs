//! A cloud in memory, for tests of the services: it implements every trait, launches at once, and fails on command.
//! Deterministic: ids count up, time stands still until a test moves it. It is no model of EC2's limits; the AWS adapter
//! is tested against a real server instead.

mod catalog;
mod fleet;
mod instances;
mod nodeclass;
mod queue;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use jiff::Timestamp;
use model::price::MicroDollars;
use tokio::sync::Notify;

use crate::catalog::ZonalShift;
use crate::error::{CloudError, Fault};
use crate::facts::{TypeFacts, Zone};
use crate::instance::Instance;
use crate::launch::{FleetAnswer, FleetRequest};
use crate::nodeclass::{Cluster, Image, InstanceProfile, PlacementGroup, SecurityGroup, Subnet};
use crate::queue::{InstanceHealth, Rule};
use crate::reservation::Reservation;
use crate::template::LaunchTemplate;
use crate::{Answer, Tags, limits, prices};

/// Real types, a sample of every kind, as EC2 describes them.
pub fn types() -> Vec<TypeFacts> {
    let mut types: Vec<TypeFacts> = serde_json::from_str(include_str!("types.json"))
        .expect("the file is part of this crate and well-formed");
    for facts in &mut types {
        facts.branch_interfaces = limits::branch_interfaces(&facts.name).unwrap_or(0);
    }
    types
}

/// Share it as `Arc<MemoryCloud>`; a test keeps one handle to look and to break things.
pub struct MemoryCloud {
    region: String,
    state: Mutex<State>,
    /// Told when a message arrives or comes back.
    arrivals: Notify,
}

/// Everything the cloud knows; tests read and write it through [`MemoryCloud::state`].
pub struct State {
    pub now: Timestamp,
    pub types: Vec<TypeFacts>,
    pub zones: Vec<Zone>,
    /// Type to zone names.
    pub offered: BTreeMap<String, BTreeSet<String>>,
    pub on_demand: BTreeMap<String, MicroDollars>,
    /// By type and zone name.
    pub spot: BTreeMap<(String, String), MicroDollars>,
    pub reservations: Vec<Reservation>,
    pub shifts: Vec<ZonalShift>,
    pub subnets: Vec<Subnet>,
    pub security_groups: Vec<SecurityGroup>,
    pub images: Vec<Image>,
    pub parameters: BTreeMap<String, String>,
    pub roles: BTreeSet<String>,
    pub profiles: BTreeMap<String, InstanceProfile>,
    pub clusters: BTreeMap<String, Cluster>,
    pub placement_groups: Vec<PlacementGroup>,
    /// By template id.
    pub templates: BTreeMap<String, LaunchTemplate>,
    pub instances: BTreeMap<String, Instance>,
    /// Fleets with a client token: what was asked, and the answer.
    pub tokens: BTreeMap<String, (FleetRequest, FleetAnswer)>,
    /// How many listings by tags do not show a new instance yet.
    pub lag: u32,
    /// Listings that an instance is still missing from.
    unseen: BTreeMap<String, u32>,
    /// Pools without capacity: is it spot, type, zone name.
    pub exhausted: BTreeSet<(bool, String, String)>,
    /// How many more instances a pool gives, where that is not any number.
    pub room: BTreeMap<(bool, String, String), u32>,
    pub queues: BTreeMap<String, queue::MemoryQueue>,
    pub rules: BTreeMap<String, Rule>,
    pub health: Vec<InstanceHealth>,
    /// Instances that `ending` does not confirm; it confirms all others.
    pub alive: BTreeSet<String>,
    faults: BTreeMap<&'static str, VecDeque<CloudError>>,
    calls: BTreeMap<&'static str, u64>,
    next_id: u64,
}

impl MemoryCloud {
    /// A region with three zones, a subnet in each, one security group, the sample types at built-in prices, and nothing
    /// running.
    pub fn new(region: &str) -> Self {
        let types = types();
        let letters = ["a", "b", "c"];
        let zones: Vec<Zone> = letters
            .iter()
            .enumerate()
            .map(|(n, letter)| Zone {
                name: format!("{region}{letter}"),
                id: format!("{region}-az{}", n + 1),
                kind: "availability-zone".into(),
                shifted: false,
            })
            .collect();
        let names: BTreeSet<String> = zones.iter().map(|z| z.name.clone()).collect();
        let spot = types.iter().filter_map(|t| prices::spot(t, region).map(|p| (t.name.clone(), p)));
        let spot = spot.flat_map(|(t, p)| names.iter().map(move |z| ((t.clone(), z.clone()), p))).collect();
        let subnet = |(zone, letter): (&Zone, &str)| Subnet {
            id: format!("subnet-{letter}"),
            zone: zone.name.clone(),
            zone_id: zone.id.clone(),
            vpc_id: "vpc-1".into(),
            free_addresses: 4000,
            tags: Tags::from([("karpenter.sh/discovery".into(), "test".into())]),
        };
        let subnets = zones.iter().zip(letters).map(subnet).collect();
        let state = State {
            now: Timestamp::from_second(1_790_000_000).expect("within the range of timestamps"),
            zones,
            offered: types.iter().map(|t| (t.name.clone(), names.clone())).collect(),
            on_demand: types
                .iter()
                .filter_map(|t| prices::on_demand(t, region).map(|p| (t.name.clone(), p)))
                .collect(),
            spot,
            types,
            reservations: Vec::new(),
            shifts: Vec::new(),
            subnets,
            security_groups: vec![SecurityGroup {
                id: "sg-1".into(),
                name: "nodes".into(),
                vpc_id: Some("vpc-1".into()),
                tags: Tags::from([("karpenter.sh/discovery".into(), "test".into())]),
            }],
            images: Vec::new(),
            parameters: BTreeMap::new(),
            roles: BTreeSet::new(),
            profiles: BTreeMap::new(),
            clusters: BTreeMap::new(),
            placement_groups: Vec::new(),
            templates: BTreeMap::new(),
            instances: BTreeMap::new(),
            tokens: BTreeMap::new(),
            lag: 0,
            unseen: BTreeMap::new(),
            exhausted: BTreeSet::new(),
            room: BTreeMap::new(),
            queues: BTreeMap::new(),
            rules: BTreeMap::new(),
            health: Vec::new(),
            alive: BTreeSet::new(),
            faults: BTreeMap::new(),
            calls: BTreeMap::new(),
            next_id: 0,
        };
        Self { region: region.to_owned(), state: Mutex::new(state), arrivals: Notify::new() }
    }

    /// Held only for as long as a test looks or changes something.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next call of `operation` (AWS's name, such as `CreateFleet`) fails so; several add up in order.
    pub fn fail(&self, operation: &'static str, code: &str, message: &str) {
        let fault = if code.is_empty() { Fault::None } else { Fault::Client };
        let error = CloudError::new(operation, code, message, fault);
        self.state().faults.entry(operation).or_default().push_back(error);
    }

    /// As [`MemoryCloud::fail`], for the next `times` calls.
    pub fn fail_times(&self, operation: &'static str, code: &str, message: &str, times: usize) {
        for _ in 0..times {
            self.fail(operation, code, message);
        }
    }

    /// Takes all capacity out of a pool.
    pub fn exhaust(&self, spot: bool, instance_type: &str, zone: &str) {
        self.state().exhausted.insert((spot, instance_type.to_owned(), zone.to_owned()));
    }

    /// How often `operation` was called, failed calls included.
    pub fn calls(&self, operation: &'static str) -> u64 {
        self.state().calls.get(operation).copied().unwrap_or(0)
    }

    /// Counts the call, then either fails as told or runs `work` on the state.
    fn answer<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut State) -> Result<T, CloudError>,
    ) -> Answer<'_, T> {
        let result = {
            let mut state = self.state();
            state.begin(operation).and_then(|()| work(&mut state))
        };
        async move { result }.boxed()
    }
}

impl State {
    fn begin(&mut self, operation: &'static str) -> Result<(), CloudError> {
        *self.calls.entry(operation).or_default() += 1;
        match self.faults.get_mut(operation).and_then(VecDeque::pop_front) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn id(&mut self, prefix: &str) -> String {
        self.next_id += 1;
        format!("{prefix}-{:017x}", self.next_id)
    }

    pub fn zone_id(&self, name: &str) -> Option<String> {
        self.zones.iter().find(|z| z.name == name).map(|z| z.id.clone())
    }
}

fn client_error(operation: &'static str, code: &str, message: impl Into<String>) -> CloudError {
    CloudError::new(operation, code, &message.into(), Fault::Client)
}
