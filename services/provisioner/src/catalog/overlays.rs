//! NodeOverlays as pricing-cache passes them on, read for application to NodePools' types.

use api::convert::overlay::{self, Overlay};
use api::requirement::{Operator, Requirement};
use api::{NodeOverlay, NodeOverlaySpec};
use proto::pricingcache::v1 as pb;
use proto::types::v1 as types;
use tracing::warn;

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
