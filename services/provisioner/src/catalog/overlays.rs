//! NodeOverlays as pricing-cache passes them on, read for application to NodePools' types.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::convert::{self, overlay, overlay::Overlay};
use api::requirement::{Operator, Requirement};
use api::{NodeOverlay, NodeOverlaySpec, NodePool};
use model::catalog::InstanceType;
use proto::pricingcache::v1 as pb;
use proto::types::v1 as types;
use tracing::warn;

use super::Types;

/// By NodePool: the class that its nodes were derived from, and its types with overlays.
pub(crate) type Overlaid = BTreeMap<Arc<str>, (Arc<str>, Arc<Vec<InstanceType>>)>;

/// Only pools whose types overlays change. A list that equals the one of `before` stays the same one: the solver recognises
/// it by identity. A pool that cannot be read gets no nodes either.
pub(super) fn by_pool(
    pools: &BTreeMap<String, Arc<NodePool>>,
    types: &Types,
    overlays: &[Overlay],
    before: &Overlaid,
) -> Overlaid {
    if overlays.is_empty() {
        return Overlaid::new();
    }
    let class_of = |pool: &NodePool| {
        let class = &pool.spec.template.spec.node_class_ref;
        types.get_key_value(class.name.as_str()).filter(|_| class.is_supported())
    };
    let read = pools.values().filter_map(|pool| convert::node_pool(pool, Arc::clone(class_of(pool)?.1)).ok());
    let mut all = Overlaid::new();
    for pool in overlay::apply(read.collect(), overlays).pools {
        let Some((class, own)) = pools.get(&*pool.name).and_then(|object| class_of(object)) else { continue };
        if Arc::ptr_eq(own, &pool.instance_types) {
            continue;
        }
        let same = before.get(&pool.name).map(|(_, old)| old).filter(|old| **old == pool.instance_types);
        let list = same.cloned().unwrap_or(pool.instance_types);
        all.insert(pool.name, (Arc::clone(class), list));
    }
    all
}

/// Overlays were validated where they come from; one that still cannot be read is left out and named.
pub(super) fn read(overlays: &[pb::Overlay]) -> Vec<Overlay> {
    let mut all = Vec::with_capacity(overlays.len());
    for wire in overlays {
        match overlay::overlay(&object(wire)) {
            Ok(read) => all.push(read),
            Err(error) => warn!(overlay = wire.name, %error, "NodeOverlay left out"),
        }
    }
    all
}

fn object(wire: &pb::Overlay) -> NodeOverlay {
    let text = |value: &str| (!value.is_empty()).then(|| value.to_owned());
    let capacity = wire
        .capacity
        .as_ref()
        .map(|c| c.quantities.iter().map(|(name, amount)| (name.clone(), amount.as_str().into())).collect());
    NodeOverlay::new(
        &wire.name,
        NodeOverlaySpec {
            requirements: wire.requirements.iter().map(requirement).collect(),
            price: text(&wire.price),
            price_adjustment: text(&wire.price_adjustment),
            capacity,
            weight: Some(wire.weight).filter(|w| *w != 0),
            ..NodeOverlaySpec::default()
        },
    )
}

/// As our resources write it.
fn requirement(wire: &types::Requirement) -> Requirement {
    let operator = match types::Operator::try_from(wire.operator).unwrap_or_default() {
        types::Operator::In => Operator::In,
        types::Operator::NotIn => Operator::NotIn,
        types::Operator::Exists => Operator::Exists,
        types::Operator::DoesNotExist => Operator::DoesNotExist,
        types::Operator::Gt => Operator::Gt,
        types::Operator::Lt => Operator::Lt,
        types::Operator::Gte => Operator::Gte,
        types::Operator::Lte => Operator::Lte,
        types::Operator::Unspecified => Operator::default(),
    };
    let mut read = Requirement::new(wire.key.as_str(), operator, wire.values.iter().cloned());
    read.min_values = i32::try_from(wire.min_values).ok().filter(|n| *n > 0);
    read
}

#[cfg(test)]
mod tests {
    use model::catalog::{CapacityType, LabelMap, Offering};
    use model::price::MicroDollars;
    use model::resources::Resources;
    use serde_json::json;

    use super::*;

    fn kind(name: &str) -> InstanceType {
        let offering = Offering {
            zone: Arc::from("z1"),
            zone_id: None,
            capacity_type: CapacityType::OnDemand,
            price: MicroDollars::new(100_000),
            available: true,
            reservation: None,
            capacity_override: Resources::new(),
            overhead_override: Resources::new(),
        };
        InstanceType::new(name, &LabelMap::new(), Resources::new(), Resources::new(), vec![offering])
    }

    fn pool(name: &str, class: &str) -> (String, Arc<NodePool>) {
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class},
                "requirements": []
            }}}
        });
        (name.to_owned(), Arc::new(serde_json::from_value(pool).unwrap()))
    }

    fn overlay_on(pool: &str, price: &str) -> Overlay {
        let object = json!({
            "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "o"},
            "spec": {
                "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": [pool]}],
                "price": price
            }
        });
        overlay::overlay(&serde_json::from_value(object).unwrap()).unwrap()
    }

    // Cases: SCH-O-25, SCH-O-26, SCH-O-62, SCH-O-75
    #[test]
    fn a_claim_sees_the_overlays_of_its_pool_and_only_with_the_class_of_the_pool() {
        let types: Types = [(Arc::from("default"), Arc::new(vec![kind("m5.large")]))].into();
        let pools = BTreeMap::from([pool("a", "default"), pool("b", "default"), pool("c", "unknown")]);
        let offer = super::super::Offer { types: Arc::new(types), ..Default::default() };
        let offer = offer.with_overlays(vec![overlay_on("a", "0.01")], &pools);
        let price = |class: &str, pool: &str| {
            offer.types_for(class, pool).map(|types| types[0].offerings[0].price.get())
        };
        assert_eq!(price("default", "a"), Some(10_000));
        assert_eq!(price("default", "b"), Some(100_000));
        assert_eq!(price("default", ""), Some(100_000), "a claim without a NodePool");
        assert_eq!(price("older", "a"), None);
        assert_eq!(price("unknown", "c"), None);

        let again = offer.clone().with_overlays(vec![overlay_on("a", "0.01")], &pools);
        let same = |a: &super::super::Offer, b: &super::super::Offer| {
            Arc::ptr_eq(a.types_for("default", "a").unwrap(), b.types_for("default", "a").unwrap())
        };
        assert!(same(&offer, &again), "an equal list is recognised by identity");
        assert!(!same(&offer, &offer.clone().with_overlays(vec![overlay_on("a", "0.02")], &pools)));
    }
}
