//! What the plan says about money: types by price, launches at the price of the best offering, and sums that add up.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::price::MicroDollars;

use super::labels::{Labels, Outcome};
use super::sites::{Cluster, Site};
use super::violation::Violation;
use crate::options::Options;
use crate::plan::{NewNode, Plan};

pub(super) fn check(cluster: &Cluster<'_>, plan: &Plan, options: &Options, found: &mut Vec<Violation>) {
    // Nodes with the same list and the same outcomes need be looked at once.
    let mut in_order: BTreeSet<(*const Arc<str>, *const ())> = BTreeSet::new();
    for (site, node, _) in cluster.new_nodes() {
        let (listed, most) = (node.instance_types.len(), options.max_instance_types);
        if listed > most {
            found.push(Violation::TooManyTypes { at: site.place.clone(), listed, most });
        }
        if in_order.insert((node.instance_types.as_ptr(), site.outcomes.id())) {
            check_order(site, node, found);
        }
        check_launch(site, node, found);
    }
    let sum: i128 = plan.new_nodes.iter().map(|node| i128::from(node.launch.price.get())).sum();
    let actual = MicroDollars::new(i64::try_from(sum).unwrap_or(i64::MAX));
    if plan.cost != actual {
        found.push(Violation::WrongCost { stated: plan.cost, actual });
    }
    if let Some(bound) = plan.lower_bound.filter(|bound| *bound > plan.cost) {
        found.push(Violation::BoundAboveCost { bound, cost: plan.cost });
    }
}

fn check_order(site: &Site<'_>, node: &NewNode, found: &mut Vec<Violation>) {
    let price = |name: &str| site.outcomes.of_type(name).map(|outcome| outcome.offering.price).min();
    for pair in node.instance_types.windows(2) {
        let (Some(first), Some(second)) = (price(&pair[0]), price(&pair[1])) else { continue };
        if first > second {
            found.push(Violation::TypesNotByPrice {
                at: site.place.clone(),
                first: pair[0].clone(),
                second: pair[1].clone(),
            });
        }
    }
}

/// The offering is one that the node may use; of those, one of the most preferred capacity type, and of these a cheapest.
fn check_launch(site: &Site<'_>, node: &NewNode, found: &mut Vec<Violation>) {
    let launch = &node.launch;
    let at = || site.place.clone();
    let text = || format!("{}, {} in {}", launch.instance_type, launch.capacity_type, launch.zone);
    let same = |outcome: &Outcome<'_>| {
        outcome.offering.zone == launch.zone
            && outcome.offering.capacity_type == launch.capacity_type
            && outcome.offering.reservation.as_ref().map(|r| &r.id) == launch.reservation.as_ref()
    };
    let Some(chosen) = site.outcomes.of_type(&launch.instance_type).find(same) else {
        found.push(Violation::LaunchNotOffered { at: at(), launch: text() });
        return;
    };
    if chosen.offering.price != launch.price {
        found.push(Violation::WrongPrice { at: at(), stated: launch.price, actual: chosen.offering.price });
    }
    let rank = |outcome: &Outcome<'_>| (outcome.offering.capacity_type, outcome.offering.price);
    let all = site.outcomes.all.iter().filter_map(|labels| match labels {
        Labels::Outcome(outcome) => Some(outcome),
        Labels::Node(_) => None,
    });
    if let Some(best) = all.min_by_key(|outcome| rank(outcome)).filter(|best| rank(best) < rank(&chosen)) {
        let better = Labels::Outcome(*best).to_string();
        found.push(Violation::LaunchNotPreferred { at: at(), launch: text(), better });
    }
}
