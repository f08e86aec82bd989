//! Which domains a pod may go to: all rules on one key are intersected first, then one domain is chosen.

use packing::Bits;
use smallvec::SmallVec;

use super::state::State;
use crate::classes::{ClassData, Variant};
use crate::reach::Reach;
use crate::topology::group::{GroupId, Kind};
use crate::topology::groups::{DomainId, NO_DOMAIN, TopoKeyId};

/// What the rules on one topology key allow.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) key: TopoKeyId,
    pub(crate) allowed: Bits,
    /// The node must be in one decided domain, since the place of this pod matters to others.
    pub(crate) pin: bool,
    /// Allowed domains, best first.
    pub(crate) order: SmallVec<[DomainId; 4]>,
    /// How many pods each of them takes before the rules have to be asked again, beside `order`.
    pub(crate) quota: SmallVec<[u32; 4]>,
}

impl Choice {
    pub(crate) fn quota_of(&self, domain: DomainId) -> u32 {
        self.order.iter().position(|d| *d == domain).map_or(0, |index| self.quota[index])
    }
}

pub(crate) type Choices = SmallVec<[Choice; 2]>;

/// Effect of one rule.
struct Verdict {
    allowed: Bits,
    pin: bool,
    /// `None`: unlimited everywhere.
    quota: Option<Vec<u32>>,
}

impl State<'_> {
    /// `None`: no domain satisfies the rules now.
    pub(crate) fn choices(&self, class: &ClassData, variant: &Variant, want: u32) -> Option<Choices> {
        let mut out = Choices::new();
        let single = variant.domain_groups.len() == 1 && class.kept_from_domain.is_empty();
        for &group in &variant.domain_groups {
            let pour = if single { want } else { 1 };
            let verdict = self.verdict(class, variant, group, pour)?;
            self.combine(&mut out, group, verdict)?;
        }
        for &group in &class.kept_from_domain {
            let stating = self.ledger.stating(self.world, group);
            let mut allowed = Bits::new(stating.len());
            stating.iter().enumerate().filter(|(_, n)| **n == 0).for_each(|(d, _)| allowed.set(d));
            let pin = self.live_anti.contains(&group);
            self.combine(&mut out, group, Verdict { allowed, pin, quota: None })?;
        }
        let several = out.len() > 1;
        for choice in &mut out {
            self.rank(class, variant, choice, several);
        }
        Some(out)
    }

    fn combine(&self, out: &mut Choices, group: GroupId, verdict: Verdict) -> Option<()> {
        let key = self.world.topo_key_of(group);
        let quota = |domain: usize| verdict.quota.as_ref().map_or(u32::MAX, |q| q[domain]);
        match out.iter_mut().find(|c| c.key == key) {
            Some(choice) => {
                choice.allowed.keep(&verdict.allowed);
                choice.pin |= verdict.pin;
                for (domain, slot) in choice.order.iter().zip(&mut choice.quota) {
                    *slot = (*slot).min(quota(*domain as usize));
                }
            }
            None => {
                let order: SmallVec<[DomainId; 4]> = verdict.allowed.iter().map(|d| d as DomainId).collect();
                let quotas = order.iter().map(|d| quota(*d as usize)).collect();
                out.push(Choice { key, allowed: verdict.allowed, pin: verdict.pin, order, quota: quotas });
            }
        }
        out.iter().all(|c| !c.allowed.is_empty()).then_some(())
    }

    /// Emptier domains first (as spread wants), then the cheapest, then by name. Where rules on several keys have to agree,
    /// domains that go with few others come before cheap ones, or they would be missing in the end. The first of its kind
    /// decides for all who want to be with it: it goes where most of them may follow.
    fn rank(&self, class: &ClassData, variant: &Variant, choice: &mut Choice, several: bool) {
        let mut ranked: Vec<(i64, usize, i64, DomainId, u32)> = Vec::new();
        let masks = self.world.groups.keys[choice.key].cells.as_ref();
        for (domain, quota) in choice.order.iter().zip(&choice.quota) {
            if !choice.allowed.has(*domain as usize) {
                continue;
            }
            let spread: i64 = variant
                .domain_groups
                .iter()
                .filter(|g| self.world.topo_key_of(**g) == choice.key)
                .map(|g| match self.world.groups.get(*g).rule.kind {
                    Kind::Spread { .. } => i64::from(self.ledger.selected(self.world, *g)[*domain as usize]),
                    Kind::Affinity if choice.pin => self.shut_out(*g, *domain),
                    Kind::Affinity | Kind::AntiAffinity { .. } => 0,
                })
                .sum();
            let price = if choice.allowed.count() > 1 {
                self.price_in(class, variant, choice.key, *domain)
            } else {
                0
            };
            let ways = if several { masks.map_or(0, |m| m[*domain as usize].count()) } else { 0 };
            ranked.push((spread, ways, price, *domain, *quota));
        }
        let name = |d: DomainId| &self.world.groups.keys[choice.key].values[d as usize];
        ranked.sort_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)).then_with(|| name(a.3).cmp(name(b.3))));
        choice.order = ranked.iter().map(|r| r.3).collect();
        choice.quota = ranked.iter().map(|r| r.4).collect();
    }

    fn verdict(&self, class: &ClassData, variant: &Variant, group: GroupId, pour: u32) -> Option<Verdict> {
        let rule = &self.world.groups.get(group).rule;
        let counts = self.ledger.selected(self.world, group);
        let own = class.selected.contains(&group);
        let mine = self.pod_domains(variant, group, counts.len());
        let mut eligible = self.ledger.eligible(self.world, group).clone();
        self.drop_unused_reserved(group, &mut eligible);
        self.drop_unreachable(class, group, &mut eligible);
        if let Some(mine) = &mine {
            eligible.keep(mine);
        }
        match rule.kind {
            Kind::Spread { max_skew, min_domains } => {
                let least = eligible.iter().map(|d| counts[d]).min()?;
                let few = min_domains.is_some_and(|n| eligible.count() < n as usize);
                let least = if few { 0 } else { least };
                let ceiling = least.saturating_add(i32::try_from(max_skew).unwrap_or(i32::MAX));
                let mut allowed = Bits::new(counts.len());
                eligible
                    .iter()
                    .filter(|d| counts[*d] + i32::from(own) <= ceiling)
                    .for_each(|d| allowed.set(d));
                let quota = own.then(|| {
                    let level = self.level(class, variant, group, &eligible, few, pour).unwrap_or(0);
                    counts.iter().map(|n| u32::try_from(level - n).unwrap_or(0).max(1)).collect()
                });
                Some(Verdict { allowed, pin: true, quota })
            }
            Kind::Affinity => {
                let mut allowed = Bits::new(counts.len());
                let inside = |d: &usize| mine.as_ref().is_none_or(|m| m.has(*d));
                (0..counts.len()).filter(|d| counts[*d] > 0).filter(inside).for_each(|d| allowed.set(d));
                if !allowed.is_empty() {
                    return Some(Verdict { allowed, pin: false, quota: None });
                }
                // Only the first of its kind may be alone, and none is where the pod cannot go: the scheduler asks the whole
                // cluster. Where one is on a node whose domain is still open, that comes first: it is decided, and joined.
                let first = counts.iter().all(|n| *n == 0) && !self.has_undecided(group);
                (own && first).then_some(Verdict { allowed: eligible, pin: true, quota: None })
            }
            Kind::AntiAffinity { .. } => {
                let mut allowed = Bits::new(counts.len());
                eligible.iter().filter(|d| counts[*d] == 0).for_each(|d| allowed.set(d));
                let quota = own.then(|| vec![1; counts.len()]);
                Some(Verdict { allowed, pin: true, quota })
            }
        }
    }

    /// Water level that `pour` pods reach when every eligible domain can be filled without end by new nodes; then whole
    /// shares can be placed at once, since the end state is balanced whatever the order.
    fn level(
        &self,
        class: &ClassData,
        variant: &Variant,
        group: GroupId,
        eligible: &Bits,
        few: bool,
        pour: u32,
    ) -> Option<i32> {
        if pour < 2 || few || !self.endless(class, variant, group, eligible) {
            return None;
        }
        let counts = self.ledger.selected(self.world, group);
        let mut heights: Vec<i64> = eligible.iter().map(|d| i64::from(counts[d])).collect();
        heights.sort_unstable();
        let mut left = i64::from(pour);
        let mut level = heights[0];
        for (below, next) in heights.iter().skip(1).enumerate() {
            let width = below as i64 + 1;
            let step = (next - level) * width;
            if step >= left {
                break;
            }
            left -= step;
            level = *next;
        }
        let width = heights.iter().filter(|h| **h <= level).count() as i64;
        i32::try_from(level + left / width).ok().filter(|l| *l > 0)
    }

    /// A domain without nodes matters only if the pod itself could be given one there: the scheduler knows the domains of nodes
    /// (kube-scheduler: PodTopologySpread), and what only other pods' pools could make is no place to wait for.
    fn drop_unreachable(&self, class: &ClassData, group: GroupId, eligible: &mut Bits) {
        let key = self.world.topo_key_of(group);
        let mut known = self.ledger.on_nodes(self.world, group).clone();
        known.add(&self.reachable_domains(class, key));
        if eligible.within(&known) {
            return;
        }
        for bin in self.bins.iter().filter(|bin| bin.domains[key] != NO_DOMAIN) {
            if !known.has(bin.domains[key] as usize) && self.counts_bin(bin, group) {
                known.set(bin.domains[key] as usize);
            }
        }
        eligible.keep(&known);
    }

    /// Domains of a key in which some pool could make a node that the pod's requirements and tolerations allow. A pool whose limits
    /// are used up, or zero, makes none: kube-scheduler knows none of its domains either, and no pod waits for one (Karpenter
    /// lets such a pool block spreads).
    fn reachable_domains(&self, class: &ClassData, key: TopoKeyId) -> Bits {
        if let Some(known) = self.reachable.borrow().get(&(class.id, key)) {
            return known.clone();
        }
        let (world, topo) = (self.world, &self.world.groups.keys[key]);
        let mut out = Bits::new(topo.values.len());
        let variant = class.ladder(self.options.preferences).last();
        let more_nodes = |pool: &usize| world.limits_left[*pool].1.is_none_or(|nodes| nodes > 0);
        let pools = (0..world.pools.len()).filter(|pool| world.pools[*pool].usable).filter(more_nodes);
        let unused = match self.options.use_reserved {
            true => Bits::new(world.cells.len()),
            false => world.cells.of_capacity_type(model::catalog::CapacityType::Reserved),
        };
        for pool in pools {
            let table = world.table(pool);
            let tolerates = |v: &&Variant| world.tolerates_pool(v.tolerations, pool);
            for set in variant.iter().filter(|v| tolerates(v)).flat_map(|v| &v.strict) {
                let Some(reach) = world.reach(*set, pool) else { continue };
                let mut reach = reach.clone();
                world.pools[pool].keep_within_limits(&world.limits_left[pool].0, &mut reach.rows);
                let mut offered = Bits::new(world.cells.len());
                reach.rows.iter().for_each(|row| offered.add(&table.rows[row].cells));
                offered.keep(&reach.cells);
                offered.remove(&unused);
                for domain in 0..topo.values.len() {
                    let there =
                        |reach: Reach| self.narrowed(pool, reach, key, &[domain as DomainId]).is_some();
                    let reached = || Reach { cells: offered.clone(), ..reach.clone() };
                    if !out.has(domain) && !offered.is_empty() && there(reached()) {
                        out.set(domain);
                    }
                }
            }
        }
        self.reachable.borrow_mut().insert((class.id, key), out.clone());
        out
    }

    /// Where reservations are not used, no new node will be in their domain; nodes that exist may be.
    fn drop_unused_reserved(&self, group: GroupId, eligible: &mut Bits) {
        let world = self.world;
        let key = &world.groups.keys[world.topo_key_of(group)];
        if self.options.use_reserved || key.name != model::labels::CAPACITY_TYPE {
            return;
        }
        if let Some(reserved) = key.domain(model::labels::RESERVED)
            && !world.node_domains[world.topo_key_of(group)].contains(&reserved)
        {
            eligible.unset(reserved as usize);
        }
    }

    /// Some pod that the group selects is on a new node whose domain is not decided.
    fn has_undecided(&self, group: GroupId) -> bool {
        let key = self.world.topo_key_of(group);
        let selects = |demand: u32| self.class_of(demand).selected.contains(&group);
        self.bins.iter().any(|bin| {
            bin.domains[key] == NO_DOMAIN
                && self.counts_bin(bin, group)
                && bin.items.iter().any(|item| selects(item.demand))
        })
    }

    /// Pods to be placed that want to be with those of the group, and may not go to the domain.
    fn shut_out(&self, group: GroupId, domain: DomainId) -> i64 {
        let len = self.ledger.selected(self.world, group).len();
        let stays_out = |class: &ClassData| {
            let mut stating = class
                .ladder(self.options.preferences)
                .iter()
                .filter(|v| v.domain_groups.contains(&group))
                .peekable();
            let enters = |variant: &Variant| {
                self.pod_domains(variant, group, len).is_none_or(|mine| mine.has(domain as usize))
            };
            stating.peek().is_some() && !stating.any(enters)
        };
        let demands = self.demands.iter().filter(|demand| demand.placeable);
        let demands = demands.filter(|demand| stays_out(self.world.classes.get(demand.class)));
        demands.map(|demand| demand.pods.len() as i64).sum()
    }

    /// Domains of the group's key that the pod's own node selector and affinity allow; `None`: all.
    pub(crate) fn pod_domains(&self, variant: &Variant, group: GroupId, len: usize) -> Option<Bits> {
        let key = &self.world.groups.keys[self.world.topo_key_of(group)];
        let mut out = Bits::new(len);
        let terms = variant.strict.iter().map(|set| self.world.sets.requirements.get(*set));
        for term in terms.filter(|term| term.contradiction().is_none()) {
            let asked = term.get(&key.name)?;
            let allowed = key.values.iter().enumerate().filter(|(_, value)| asked.contains(value));
            allowed.for_each(|(domain, _)| out.set(domain));
        }
        Some(out)
    }
}
