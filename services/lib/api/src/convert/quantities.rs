//! Resource lists.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use model::quantity::Quantity;
use model::resources::Resources;

use super::error::{At, Invalid};
use crate::amount::Amount;

/// A resource list of the core API.
pub fn quantities(list: Option<&BTreeMap<String, ApiQuantity>>, at: &At<'_>) -> Result<Resources, Invalid> {
    list.into_iter()
        .flatten()
        .map(|(name, amount)| Ok((name.as_str(), parse(&amount.0, &at.key(name))?)))
        .collect()
}

/// A resource list of our own resources.
pub fn amounts(list: Option<&BTreeMap<String, Amount>>, at: &At<'_>) -> Result<Resources, Invalid> {
    list.into_iter()
        .flatten()
        .map(|(name, amount)| Ok((name.as_str(), parse(&amount.text(), &at.key(name))?)))
        .collect()
}

fn parse(text: &str, at: &At<'_>) -> Result<Quantity, Invalid> {
    text.parse().map_err(|error| at.invalid(error))
}
