//! The first rule that keeps a pod out of a pool, asked in the order in which packing asks.

use std::sync::Arc;

use model::labels;
use model::requirements::Requirements;

use super::{Explainer, PoolMiss, Rule};
use crate::classes::{ClassData, Variant};
use crate::engine::demand::DemandId;
use crate::engine::existing::ports_conflict;
use crate::reach::Reach;
use crate::topology::group::Kind;

impl Explainer<'_, '_> {
    pub(crate) fn pool_miss(&self, demand: DemandId, pool: usize) -> PoolMiss {
        let (rule, miss) = self.first_failure(demand, pool);
        PoolMiss { pool: Arc::clone(&self.state.world.pools[pool].name), rule, miss }
    }

    fn first_failure(&self, demand: DemandId, pool: usize) -> (Rule, String) {
        let (state, world) = (self.state, self.state.world);
        let data = &world.pools[pool];
        let class = state.class_of(demand);
        // The last rung asks for the least; what fails there fails everywhere.
        let ladder = class.ladder(state.options.preferences);
        let rung = ladder.len() - 1;
        let variant = &ladder[rung];
        if data.fixed_size {
            return (Rule::FixedSizePool, "has a fixed number of nodes".to_owned());
        }
        if data.excludes_everything {
            return (
                Rule::PoolWithoutTypes,
                "its own requirements leave no instance type with an offering".to_owned(),
            );
        }
        let untolerated: Vec<String> = data
            .taints
            .iter()
            .filter(|t| !t.is_tolerated_by(world.sets.tolerations.get(variant.tolerations)))
            .map(ToString::to_string)
            .collect();
        if !untolerated.is_empty() {
            return (Rule::Taints, format!("taint {} is not tolerated", untolerated.join(", ")));
        }
        let reach = variant.asked.iter().find_map(|set| world.reach(*set, pool));
        let Some(reach) = reach else { return self.requirement_failure(class, variant, pool) };
        if let Some(miss) = self.resource_failure(class, pool, reach) {
            return (Rule::Resources, miss);
        }
        let ports = &data.daemon_ports;
        if !class.ports.is_empty()
            && !ports.is_empty()
            && reach.rows.iter().all(|r| ports_conflict(&class.ports, &ports[r]))
        {
            return (Rule::HostPorts, "a daemon takes the same host port on every node".to_owned());
        }
        if let Some(miss) = self.limit_failure(class, pool, reach) {
            return (Rule::Limits, miss);
        }
        if let Some(found) = self.topology_failure(class, variant, pool, reach) {
            return found;
        }
        if !data.min_values.is_empty() {
            let (key, least) = &data.min_values[0];
            let found = state.distinct(pool, key, &reach.rows);
            return (
                Rule::MinValues,
                format!("minValues asks for {least} values of {key}, and {found} can hold the pod"),
            );
        }
        (Rule::Reservations, "nothing is left of what it could use".to_owned())
    }

    fn requirement_failure(&self, class: &ClassData, variant: &Variant, pool: usize) -> (Rule, String) {
        let world = self.state.world;
        let data = &world.pools[pool];
        let asked = world.sets.requirements.get(variant.asked[variant.asked.len() - 1]);
        if let Some(key) = asked.contradiction() {
            let rule = if class.volume_terms.is_empty() { Rule::Requirements } else { Rule::Volumes };
            return (rule, format!("what the pod and its volumes ask of label {key} contradicts itself"));
        }
        if let Some(host) = asked.get(labels::HOSTNAME).filter(|r| !r.is_complement()) {
            let rule = if class.volume_terms.is_empty() { Rule::Requirements } else { Rule::Volumes };
            return (rule, format!("it asks for a certain node ({host})"));
        }
        let allow = |key: &str| world.well_known.has(key);
        if let Err(why) = data.template.compatible(asked, &allow) {
            return (Rule::Requirements, why.to_string());
        }
        let offer = world.offer(pool);
        for requirement in asked.iter() {
            let alone = Requirements::new().with(requirement.clone());
            if offer.of(&data.base, &alone).is_none() {
                return (Rule::Requirements, format!("no instance type of the pool has {requirement}"));
            }
        }
        (Rule::Offerings, format!("no offering that is available satisfies {asked} together"))
    }

    fn resource_failure(&self, class: &ClassData, pool: usize, reach: &Reach) -> Option<String> {
        let world = self.state.world;
        let dims = world.dims.len();
        let data = &world.pools[pool];
        let fits = |row: usize| crate::dims::fits(&class.requests, data.room(row, dims));
        if reach.rows.iter().any(fits) {
            return None;
        }
        for dim in 0..dims {
            let largest = reach.rows.iter().map(|row| data.room(row, dims)[dim]).max().unwrap_or(0);
            let wanted = class.requests[dim];
            if wanted > largest {
                let name = world.dims.name(dim);
                let (wanted, largest) =
                    (world.dims.quantity(dim, wanted), world.dims.quantity(dim, largest.max(0)));
                let after = if data.overhead.iter().any(|o| *o > 0) { " after daemons" } else { "" };
                return Some(format!("no type has {wanted} {name}; the largest has {largest}{after}"));
            }
        }
        Some(format!("no type has {} together", world.dims.resources(&class.requests)))
    }

    fn limit_failure(&self, class: &ClassData, pool: usize, reach: &Reach) -> Option<String> {
        let (world, dims) = (self.state.world, self.state.world.dims.len());
        let data = &world.pools[pool];
        let (left, nodes) = &self.state.limits[pool];
        if let Some(left) = nodes.filter(|n| *n <= 0) {
            let most = data.max_nodes.unwrap_or(0);
            return Some(format!("its limit of {most} nodes is used up ({} left)", left.max(0)));
        }
        let holds = |row: &usize| crate::dims::fits(&class.requests, data.room(*row, dims));
        for (limit, left) in data.limits.iter().zip(left) {
            let smallest = reach.rows.iter().filter(holds).map(|row| limit.by_row[row]).min()?;
            if smallest > *left {
                let text = |amount: i64| model::quantity::Quantity::from_milli(amount.max(0));
                return Some(format!(
                    "limit of {} {}: {} left, and the smallest type that holds it has {}",
                    text(limit.limit),
                    limit.resource,
                    text(*left),
                    text(smallest),
                ));
            }
        }
        None
    }

    fn topology_failure(
        &self,
        class: &ClassData,
        variant: &Variant,
        pool: usize,
        reach: &Reach,
    ) -> Option<(Rule, String)> {
        let (state, world) = (self.state, self.state.world);
        for &group in &variant.host_groups {
            let rule = &world.groups.get(group).rule;
            if rule.kind == Kind::Affinity {
                let text = if state.ledger.total(world, group) == 0 {
                    "no pod that its affinity asks for exists on any node"
                } else {
                    "the node of the pods that its affinity asks for has no room"
                };
                return Some((Rule::PodAffinity, text.to_owned()));
            }
        }
        let groups = variant.domain_groups.iter().chain(&class.kept_from_domain);
        for &group in groups {
            let data = world.groups.get(group);
            let key = &world.groups.keys[data.key];
            let counts = state.ledger.selected(world, group);
            let shown: Vec<String> = key
                .values
                .iter()
                .enumerate()
                .filter(|(d, _)| state.ledger.eligible(world, group).has(*d))
                .take(25)
                .map(|(d, value)| format!("{value}={}", counts[d]))
                .collect();
            let (rule, what) = match data.rule.kind {
                Kind::Spread { max_skew, .. } => {
                    (Rule::TopologySpread, format!("topology spread over {} (maxSkew {max_skew})", key.name))
                }
                Kind::Affinity => (Rule::PodAffinity, format!("pod affinity on {}", key.name)),
                Kind::AntiAffinity { .. } => {
                    (Rule::PodAntiAffinity, format!("pod anti-affinity on {}", key.name))
                }
            };
            let narrowed = state.choices(class, variant, 1).and_then(|choices| {
                let choice = choices.iter().find(|c| c.key == data.key)?.clone();
                state.narrowed(pool, reach.clone(), choice.key, &choice.order)
            });
            if narrowed.is_none() {
                let at = if shown.is_empty() {
                    "no domain exists".to_owned()
                } else {
                    format!("pods by domain: {}", shown.join(", "))
                };
                return Some((rule, format!("{what} allows no domain of the pool; {at}")));
            }
        }
        None
    }
}
