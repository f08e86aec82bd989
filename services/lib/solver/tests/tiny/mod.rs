//! Inputs small enough to try every plan: what they are is written down twice, as the solver's input and as the rules that a
//! node must keep for some pods to share it. Rules about zones of several nodes, limits and preferences are left out of the
//! second, which makes the best plan only cheaper.

use model::catalog::{CapacityType, InstanceType};
use model::pool::ClusterInput;
use model::price::MicroDollars;
use model::requirement::Operator;
use model::taint::Effect;

use crate::fixture::{
    CAPACITY_TYPE, HOST, PodBuilder, ZONE, ZONES, cluster, instance_type, is, node, pod, pool, spread, term,
};
use crate::scenario::random::Random;

const GPU: &str = "fake.com/gpu";
const MILLI: i64 = 1000;
/// Of every node, beside what the daemon takes.
const OVERHEAD_CPU: i64 = 100;
const OVERHEAD_MIB: i64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    None,
    /// At most one on a node.
    Apart,
    /// At most two on a node.
    Spread,
    /// As `Apart`, by a host port.
    Port,
    /// Over zones: of no matter here.
    Zonal,
}

#[derive(Clone, Debug)]
struct TinyPod {
    cpu: i64,
    mib: i64,
    gpus: i64,
    zone: Option<usize>,
    /// The volume's zone.
    volume: Option<usize>,
    capacity: Option<CapacityType>,
    team: Option<&'static str>,
    arm: Option<bool>,
    /// This zone, or else this capacity type.
    either: Option<(usize, CapacityType)>,
    tolerates: bool,
    prefers: Option<usize>,
    rule: Rule,
}

#[derive(Clone, Debug)]
struct TinyPool {
    tainted: bool,
    team: Option<&'static str>,
    capacity: Option<CapacityType>,
    zone: Option<usize>,
    weight: i32,
    limit: Option<&'static str>,
}

#[derive(Clone, Debug)]
struct TinyType {
    cpu: i64,
    gib: i64,
    gpus: i64,
    arm: bool,
    offers: Vec<(usize, CapacityType, i64)>,
    /// One instance, in zone 0, at this price.
    reserved: Option<i64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Tiny {
    pods: Vec<TinyPod>,
    pools: Vec<TinyPool>,
    types: Vec<TinyType>,
    daemon: bool,
    /// CPUs of a node that exists, in zone 1.
    node: Option<i64>,
}

/// Where a pod would be.
struct Site {
    zone: usize,
    capacity: Option<CapacityType>,
    team: Option<&'static str>,
    arm: bool,
    tainted: bool,
}

const CAPACITY_TYPES: [CapacityType; 2] = [CapacityType::Spot, CapacityType::OnDemand];

fn text(capacity: CapacityType) -> String {
    capacity.to_string()
}

impl Tiny {
    pub(crate) fn random(random: &mut Random) -> Self {
        let some = |random: &mut Random, one_in| random.one_in(one_in).then(|| random.below(3));
        let team = |random: &mut Random, one_in| random.one_in(one_in).then(|| random.pick(&["red", "blue"]));
        let capacity =
            |random: &mut Random, one_in| random.one_in(one_in).then(|| random.pick(&CAPACITY_TYPES));
        let pods = (0..random.between(1, 6)).map(|_| TinyPod {
            cpu: random.pick(&[100, 300, 700, 1500, 1900, 3000]),
            mib: 128 * i64::try_from(random.between(1, 40)).unwrap_or(1),
            gpus: i64::from(random.one_in(6)),
            zone: some(random, 4),
            volume: some(random, 8),
            capacity: capacity(random, 4),
            team: team(random, 8),
            arm: random.one_in(8).then(|| random.one_in(2)),
            either: random.one_in(8).then(|| (random.below(3), random.pick(&CAPACITY_TYPES))),
            tolerates: random.one_in(3),
            prefers: some(random, 8),
            rule: random.pick(&[Rule::None, Rule::None, Rule::Apart, Rule::Spread, Rule::Port, Rule::Zonal]),
        });
        let pods = pods.collect();
        let pools = (0..random.between(1, 3)).map(|_| TinyPool {
            tainted: random.one_in(4),
            team: team(random, 3),
            capacity: capacity(random, 4),
            zone: some(random, 5),
            weight: random.pick(&[0, 0, 10]),
            limit: random.one_in(8).then(|| random.pick(&["4", "10"])),
        });
        let pools = pools.collect();
        let types = (0..random.between(1, 4)).map(|_| {
            let (cpu, gpus) = (random.pick(&[1, 2, 4, 8]), i64::from(random.one_in(3)));
            let gib = cpu * random.pick(&[1, 2, 4]);
            let base = 25_000 * cpu + 3_000 * gib + 60_000 * gpus;
            let price =
                |random: &mut Random| base * i64::try_from(random.between(30, 120)).unwrap_or(1) / 100;
            let mut offers = Vec::new();
            for zone in 0..3 {
                for capacity in CAPACITY_TYPES {
                    if !random.one_in(4) {
                        let free = random.one_in(60);
                        offers.push((zone, capacity, if free { 0 } else { price(random) }));
                    }
                }
            }
            let reserved = random.one_in(12).then(|| price(random) / 20);
            TinyType { cpu, gib, gpus, arm: random.one_in(4), offers, reserved }
        });
        let mut types: Vec<TinyType> = types.collect();
        // One instance in all.
        types.iter_mut().filter(|kind| kind.reserved.is_some()).skip(1).for_each(|kind| kind.reserved = None);
        Self {
            pods,
            pools,
            types,
            daemon: random.one_in(4),
            node: random.one_in(5).then(|| random.pick(&[1, 2, 4])),
        }
    }

    pub(crate) fn to_input(&self) -> ClusterInput {
        let mut out = cluster();
        let types: Vec<InstanceType> = self.types.iter().enumerate().map(|(n, kind)| kind.build(n)).collect();
        for (n, own) in self.pools.iter().enumerate() {
            let mut made = pool(&format!("pool-{n}")).types(types.clone()).weight(own.weight);
            if own.tainted {
                made = made.taint("dedicated", "x", Effect::NoSchedule);
            }
            if let Some(team) = own.team {
                made = made.label("team", team);
            }
            if let Some(capacity) = own.capacity {
                made = made.requires(CAPACITY_TYPE, Operator::In, &[&text(capacity)]);
            }
            if let Some(zone) = own.zone {
                made = made.requires(ZONE, Operator::In, &[ZONES[zone]]);
            }
            if let Some(limit) = own.limit {
                made = made.limit("cpu", limit);
            }
            out = out.pool(made);
        }
        if self.daemon {
            out = out.daemon(pod("daemon").cpu("100m").tolerates("dedicated"));
        }
        if let Some(cpus) = self.node {
            out = out.node(node("exists").zone(ZONES[1]).has("cpu", &cpus.to_string()));
        }
        for (n, own) in self.pods.iter().enumerate() {
            out = out.pod(own.build(n));
        }
        out.input()
    }

    /// The least that nodes for the pods of these names can cost; `None` if some have no place at all.
    pub(crate) fn least_cost<'a>(&self, names: impl Iterator<Item = &'a str>) -> Option<i64> {
        let number = |name: &str| name.strip_prefix("pod-").and_then(|n| n.parse::<usize>().ok());
        let all = names.map(|name| 1_usize << number(name).expect("a pod of ours")).sum::<usize>();
        let subsets = 1 << self.pods.len();
        let members = |set: usize| (0..self.pods.len()).filter(move |n| set >> n & 1 == 1);
        let bought: Vec<Option<i64>> =
            (0..subsets).map(|set| self.cheapest(&members(set).collect::<Vec<_>>(), false)).collect();
        // By set of pods: the least that bought nodes for just those cost.
        let mut least: Vec<Option<i64>> = vec![None; subsets];
        least[0] = Some(0);
        for set in 1..subsets {
            let mut part = set;
            while part > 0 {
                if let (Some(node), Some(others)) = (bought[part], least[set & !part]) {
                    least[set] = Some(least[set].map_or(node + others, |known| known.min(node + others)));
                }
                part = (part - 1) & set;
            }
        }
        let within = |set: usize| (0..subsets).filter(move |part| part & !set == 0);
        let mut best: Option<i64> = None;
        for existing in within(all).filter(|part| self.fits_node(&members(*part).collect::<Vec<_>>())) {
            for reserved in within(all & !existing) {
                let price = match reserved {
                    0 => Some(0),
                    _ => self.cheapest(&members(reserved).collect::<Vec<_>>(), true),
                };
                if let (Some(price), Some(others)) = (price, least[all & !existing & !reserved]) {
                    best = Some(best.map_or(price + others, |known| known.min(price + others)));
                }
            }
        }
        best
    }

    /// The cheapest new node that may hold all of these pods.
    fn cheapest(&self, pods: &[usize], reserved: bool) -> Option<i64> {
        let mut best: Option<i64> = None;
        for own in &self.pools {
            for kind in &self.types {
                let (cpu, mib) = self.needs(pods);
                let daemon = if self.daemon { 100 } else { 0 };
                if cpu + daemon + OVERHEAD_CPU > kind.cpu * MILLI
                    || mib + OVERHEAD_MIB > kind.gib * 1024
                    || pods.iter().map(|n| self.pods[*n].gpus).sum::<i64>() > kind.gpus
                {
                    continue;
                }
                let offers: Vec<(usize, CapacityType, i64)> = if reserved {
                    kind.reserved.iter().map(|price| (0, CapacityType::Reserved, *price)).collect()
                } else {
                    kind.offers.clone()
                };
                for (zone, capacity, price) in offers {
                    let allowed =
                        own.zone.is_none_or(|z| z == zone) && own.capacity.is_none_or(|c| c == capacity);
                    let site = Site {
                        zone,
                        capacity: Some(capacity),
                        team: own.team,
                        arm: kind.arm,
                        tainted: own.tainted,
                    };
                    if allowed && self.may_share(pods, &site) && best.is_none_or(|known| price < known) {
                        best = Some(price);
                    }
                }
            }
        }
        best
    }

    fn fits_node(&self, pods: &[usize]) -> bool {
        let Some(cpus) = self.node else { return pods.is_empty() };
        let (cpu, mib) = self.needs(pods);
        let daemon = if self.daemon { 100 } else { 0 };
        let gpus: i64 = pods.iter().map(|n| self.pods[*n].gpus).sum();
        let site = Site { zone: 1, capacity: None, team: None, arm: false, tainted: false };
        pods.is_empty()
            || (cpu + daemon <= cpus * MILLI && mib <= 8 * 1024 && gpus == 0 && self.may_share(pods, &site))
    }

    fn needs(&self, pods: &[usize]) -> (i64, i64) {
        let pods = pods.iter().map(|n| &self.pods[*n]);
        pods.fold((0, 0), |(cpu, mib), pod| (cpu + pod.cpu, mib + pod.mib))
    }

    fn may_share(&self, pods: &[usize], site: &Site) -> bool {
        let count = |rule: Rule| pods.iter().filter(|n| self.pods[**n].rule == rule).count();
        count(Rule::Apart) <= 1
            && count(Rule::Port) <= 1
            && count(Rule::Spread) <= 2
            && pods.iter().all(|n| self.pods[*n].accepts(site))
    }
}

impl TinyPod {
    fn accepts(&self, site: &Site) -> bool {
        self.zone.is_none_or(|zone| zone == site.zone)
            && self.volume.is_none_or(|zone| zone == site.zone)
            && self.capacity.is_none_or(|capacity| Some(capacity) == site.capacity)
            && self.team.is_none_or(|team| Some(team) == site.team)
            && self.arm.is_none_or(|arm| arm == site.arm)
            && self.either.is_none_or(|(zone, other)| zone == site.zone || Some(other) == site.capacity)
            && (self.tolerates || !site.tainted)
    }

    fn build(&self, number: usize) -> PodBuilder {
        let mut out =
            pod(&format!("pod-{number}")).cpu(&format!("{}m", self.cpu)).memory(&format!("{}Mi", self.mib));
        if self.gpus > 0 {
            out = out.request(GPU, &self.gpus.to_string());
        }
        if let Some(zone) = self.zone {
            out = out.in_zone(ZONES[zone]);
        }
        if let Some(zone) = self.volume {
            out = out.volume(&format!("claim-{number}"), None, vec![is(ZONE, &[ZONES[zone]])]);
        }
        if let Some(capacity) = self.capacity {
            out = out.select(CAPACITY_TYPE, &text(capacity));
        }
        if let Some(team) = self.team {
            out = out.select("team", team);
        }
        if let Some(arm) = self.arm {
            out = out.select("kubernetes.io/arch", if arm { "arm64" } else { "amd64" });
        }
        if let Some((zone, capacity)) = self.either {
            out =
                out.or_requires(is(ZONE, &[ZONES[zone]])).or_requires(is(CAPACITY_TYPE, &[&text(capacity)]));
        }
        if self.tolerates {
            out = out.tolerates("dedicated");
        }
        if let Some(zone) = self.prefers {
            out = out.prefers(10, is(ZONE, &[ZONES[zone]]));
        }
        match self.rule {
            Rule::None => out,
            Rule::Apart => out.app("apart").apart_from(term(HOST, &[("app", "apart")])),
            Rule::Spread => out.app("spread").spread(spread(HOST, 2, &[("app", "spread")])),
            Rule::Zonal => out.app("zonal").spread(spread(ZONE, 1, &[("app", "zonal")])),
            Rule::Port => out.host_port(8080),
        }
    }
}

impl TinyType {
    fn build(&self, number: usize) -> InstanceType {
        let offered: Vec<(&str, CapacityType)> =
            self.offers.iter().map(|(z, c, _)| (ZONES[*z], *c)).collect();
        let mut made = instance_type(&format!("type-{number}"))
            .cpu(self.cpu)
            .memory(self.gib)
            .pods(30)
            .offered(&offered);
        if self.gpus > 0 {
            made = made.with(GPU, self.gpus);
        }
        if self.arm {
            made = made.arm();
        }
        if let Some(price) = self.reserved {
            made = made.reserved("cr-0", 1, price as f64 / 1e6);
        }
        let mut made = made.build();
        for (offering, (_, _, price)) in made.offerings.iter_mut().zip(&self.offers) {
            offering.price = MicroDollars::new(*price);
        }
        made
    }
}
