//! What nodes that exist cost, and which of equally priced types a new one is launched as.

mod fixture;

use std::sync::Arc;

use fixture::*;
use model::catalog::{CapacityType, InstanceType};
use model::labels;
use model::price::MicroDollars;
use solver::{Change, Snapshot};

const TYPE: &str = "small-instance-type";

/// The default types with another price, as a NodeOverlay gives them to one pool.
fn overlaid(dollars: f64) -> Vec<InstanceType> {
    let mut types = default_types();
    for offering in types.iter_mut().flat_map(|kind| &mut kind.offerings) {
        offering.price = MicroDollars::from_f64(dollars).expect("a price");
    }
    types
}

fn of_type(node: NodeBuilder) -> NodeBuilder {
    node.label(labels::INSTANCE_TYPE, TYPE).label(CAPACITY_TYPE, "on-demand")
}

fn price(snapshot: &Snapshot, node: &str) -> Option<MicroDollars> {
    snapshot.node_price(snapshot.node_id(node).expect("the node"))
}

fn listed() -> MicroDollars {
    let types = default_types();
    let kind = types.iter().find(|kind| &*kind.name == TYPE).expect("the type");
    let on_demand = |o: &&model::catalog::Offering| o.capacity_type == CapacityType::OnDemand;
    kind.offerings.iter().find(on_demand).expect("an offering").price
}

// Cases: BAL-39
#[test]
fn a_node_costs_what_its_own_pool_pays() {
    let dollars = |dollars| MicroDollars::from_f64(dollars);
    // Names in both orders: neither the first pool of the input nor the first by name decides.
    for (plain, dear) in [("a", "b"), ("b", "a")] {
        for plain_first in [true, false] {
            let mut all = cluster();
            for name in if plain_first { [plain, dear] } else { [dear, plain] } {
                let pool = pool(name);
                all = all.pool(if name == dear { pool.types(overlaid(7.5)) } else { pool });
            }
            let snapshot = all
                .node(of_type(node("plain").of_pool(plain)))
                .node(of_type(node("dear").of_pool(dear)))
                .snapshot();
            assert_eq!(price(&snapshot, "plain"), Some(listed()));
            assert_eq!(price(&snapshot, "dear"), dollars(7.5));
            // The same for a node that comes later.
            let later = Change::NodeSet(of_type(node("later").of_pool(dear)).build());
            let snapshot = snapshot.apply(&[later]).expect("no rebuild");
            assert_eq!(price(&snapshot, "later"), dollars(7.5));
        }
    }
}

#[test]
fn a_node_without_a_price_in_a_pool_of_its_own_costs_the_least_that_any_pool_lists() {
    for dollars in [7.5, 0.001] {
        let least = listed().min(MicroDollars::from_f64(dollars).expect("a price"));
        let mut other = default_types();
        other.retain(|kind| &*kind.name != TYPE);
        let snapshot = cluster()
            .pool(pool("overlaid").types(overlaid(dollars)))
            .pool(pool("plain"))
            .pool(pool("without-the-type").types(other))
            .node(of_type(node("of-no-pool")))
            .node(of_type(node("of-a-deleted-pool").of_pool("deleted")))
            .node(of_type(node("not-listed").of_pool("without-the-type")))
            .node(of_type(node("unknown").of_pool("plain")).label(labels::INSTANCE_TYPE, "unheard-of"))
            .snapshot();
        for name in ["of-no-pool", "of-a-deleted-pool", "not-listed"] {
            assert_eq!(price(&snapshot, name), Some(least), "{name}");
        }
        assert_eq!(price(&snapshot, "unknown"), None);
    }
}

#[test]
fn of_equally_priced_types_the_one_that_is_cheaper_on_demand_is_launched() {
    let sized = |name: &str, cpu, dollars| {
        let all = instance_type(name).cpu(cpu).memory(cpu * 4).pods(10).price(dollars);
        all.reserved("cr-1", 1, 0.000_001).build()
    };
    // The larger type comes first by name, in the catalogue once before and once after the other.
    let (large, small) = (sized("a-large", 16, 0.8), sized("b-small", 4, 0.2));
    for types in [vec![large.clone(), small.clone()], vec![small, large]] {
        let plan = cluster().pool(pool("default").types(types)).pod(pod("a").cpu("1")).plan();
        let launch = &plan.new_nodes[0].launch;
        assert_eq!(launch.reservation, Some(Arc::from("cr-1")));
        assert_eq!((&*launch.instance_type, launch.price.get()), ("b-small", 1));
    }
}
