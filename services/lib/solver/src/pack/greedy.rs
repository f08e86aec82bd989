//! First fit, decreasing, as the reference does it: nodes that exist, then new nodes so far, then another new node in the
//! first pool that accepts. New nodes keep every type that still fits; price is no matter here.

use crate::engine::choice::Choices;
use crate::engine::demand::DemandId;
use crate::engine::state::State;
use crate::topology::group::Kind;
use crate::topology::groups::NO_DOMAIN;

/// What a pass could not place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leftover {
    /// By demand: pods without a place.
    pub(crate) counts: Vec<u32>,
    /// By demand: how many of those were never tried, because time ran out.
    pub(crate) unreached: Vec<u32>,
    pub(crate) timed_out: bool,
}

/// Places the demands in the given order, again and again while that helps (pods may wait for others that they refer to).
pub(crate) fn run(
    state: &mut State<'_>,
    order: &[DemandId],
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Leftover {
    let mut left: Vec<u32> = state.demands.iter().map(|d| d.pods.len() as u32).collect();
    // What no node could hold need not be tried.
    let hopeless: Vec<bool> = state.demands.iter().map(|d| !d.placeable).collect();
    let mut tried = hopeless.clone();
    let mut timed_out = false;
    'passes: loop {
        let mut progress = false;
        for &demand in order {
            let want = left[demand as usize];
            if want == 0
                || hopeless[demand as usize]
                || (tried[demand as usize] && !depends_on_others(state, demand))
            {
                continue;
            }
            if !keep_going() {
                timed_out = true;
                break 'passes;
            }
            let placed = place(state, demand, want, keep_going);
            left[demand as usize] -= placed;
            progress |= placed > 0;
            if placed < want && !keep_going() {
                timed_out = true;
                break 'passes;
            }
            tried[demand as usize] = true;
        }
        if left.iter().zip(&hopeless).all(|(n, hopeless)| *n == 0 || *hopeless) {
            break;
        }
        if !progress {
            // Limits are charged at the most that a node may become: what it will hardly become can be given back.
            if !state.give_back_limits() {
                break;
            }
            tried.clone_from(&hopeless);
        }
    }
    let unreached = left.iter().zip(&tried).map(|(n, tried)| if *tried { 0 } else { *n }).collect();
    Leftover { counts: left, unreached, timed_out }
}

/// Whether placing other pods can make room for these.
fn depends_on_others(state: &State<'_>, demand: DemandId) -> bool {
    let class = state.class_of(demand);
    let ladder = class.ladder(state.options.preferences);
    ladder.iter().any(|v| !v.domain_groups.is_empty() || !v.host_groups.is_empty())
}

/// Places up to `want` pods, relaxing preferences one by one. Returns how many.
fn place(state: &mut State<'_>, demand: DemandId, want: u32, keep_going: &(dyn Fn() -> bool + Sync)) -> u32 {
    let class = state.class_of(demand);
    if class.spec.uses_resource_claims {
        return 0;
    }
    let mut left = want;
    for rung in 0..class.ladder(state.options.preferences).len() {
        left -= place_on_rung(state, demand, rung as u16, left, keep_going);
        if left == 0 || !keep_going() {
            break;
        }
    }
    want - left
}

pub(crate) fn place_on_rung(
    state: &mut State<'_>,
    demand: DemandId,
    rung: u16,
    want: u32,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> u32 {
    let (class, variant) = (state.class_of(demand), state.variant(demand, rung));
    if variant.domain_groups.is_empty() && class.kept_from_domain.is_empty() {
        return place_freely(state, demand, rung, want, keep_going);
    }
    let mut left = want;
    while left > 0 {
        let placed = match state.choices(class, variant, left) {
            Some(choices) => one_step(state, demand, rung, left, &choices),
            None => 0,
        };
        if placed == 0 && !decide_a_target(state, demand, rung) {
            break;
        }
        // Pods under a spread constraint are balanced when all of them are placed: no deadline cuts them in half.
        left -= placed;
    }
    want - left
}

fn place_freely(
    state: &mut State<'_>,
    demand: DemandId,
    rung: u16,
    want: u32,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> u32 {
    let mut left = want - state.fill_existing(demand, rung, want, None);
    for bin in 0..state.bins.len() {
        if left == 0 {
            break;
        }
        if let Some(fit) = state.fit_bin(demand, rung, &state.bins[bin], left, None, None) {
            left -= fit.count;
            state.commit(demand, rung, bin, fit);
        }
    }
    while left > 0 {
        match state.open(demand, rung, left, None) {
            Some((_, count)) => left -= count,
            None => break,
        }
        if left > 0 && !keep_going() {
            break;
        }
    }
    want - left
}

/// Places pods on the first place that takes any, under the domain rules as they stand.
fn one_step(state: &mut State<'_>, demand: DemandId, rung: u16, want: u32, choices: &Choices) -> u32 {
    let placed = state.fill_existing(demand, rung, want, Some(choices));
    if placed > 0 {
        return placed;
    }
    for bin in by_rank(state, choices) {
        if let Some(fit) = state.fit_bin(demand, rung, &state.bins[bin], want, Some(choices), None) {
            let count = fit.count;
            state.commit(demand, rung, bin, fit);
            return count;
        }
    }
    state.open(demand, rung, want, Some(choices)).map_or(0, |(_, count)| count)
}

/// New nodes in the order in which the first rule ranks their domains, so that spreads fill evenly: uneven shares cost more
/// nodes. Those without a domain yet come last.
fn by_rank(state: &State<'_>, choices: &Choices) -> Vec<usize> {
    let Some(choice) = choices.first().filter(|c| c.pin && c.order.len() > 1) else {
        return (0..state.bins.len()).collect();
    };
    let mut ranked: Vec<(usize, usize)> = Vec::with_capacity(state.bins.len());
    for (index, bin) in state.bins.iter().enumerate() {
        let domain = bin.domains[choice.key];
        let rank = match choice.order.iter().position(|d| *d == domain) {
            Some(rank) => rank,
            None if domain == NO_DOMAIN => usize::MAX,
            None => continue,
        };
        ranked.push((rank, index));
    }
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, index)| index).collect()
}

/// A pod wants to be with others whose node has not been given a domain yet: gives it one.
fn decide_a_target(state: &mut State<'_>, demand: DemandId, rung: u16) -> bool {
    let world = state.world;
    let variant = state.variant(demand, rung);
    for &group in &variant.domain_groups {
        let key = world.topo_key_of(group);
        let counts = state.ledger.selected(world, group);
        if world.groups.get(group).rule.kind != Kind::Affinity || counts.iter().any(|n| *n > 0) {
            continue;
        }
        let mine = state.pod_domains(variant, group, counts.len());
        let mut domains: Vec<u32> = state.ledger.eligible(world, group).iter().map(|d| d as u32).collect();
        domains.retain(|d| mine.as_ref().is_none_or(|m| m.has(*d as usize)));
        for bin in 0..state.bins.len() {
            let here = &state.bins[bin];
            let selects = |i: &crate::engine::bin::Item| state.class_of(i.demand).selected.contains(&group);
            if here.domains[key] != NO_DOMAIN || !here.items.iter().any(selects) {
                continue;
            }
            // Where the node is cheapest; of those, where another one for the pod would be.
            domains.sort_by_key(|d| {
                let there = state.narrowed(here.pool, here.reach.clone(), key, &[*d]);
                let price =
                    there.and_then(|reach| state.launch(here.pool, &reach)).map_or(i64::MAX, |c| c.price);
                (price, state.price_in(state.class_of(demand), variant, key, *d), *d)
            });
            if domains.iter().any(|domain| state.pin(bin, key, *domain)) {
                return true;
            }
        }
    }
    false
}
