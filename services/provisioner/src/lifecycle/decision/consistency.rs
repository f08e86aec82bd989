//! Whether a Node has what its claim promised. Nothing acts on it; it tells people that an instance is not what its type says.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use model::quantity::Quantity;

use super::{INITIALIZED, Observed};

pub(crate) const SCAN_EVERY: SignedDuration = SignedDuration::from_mins(10);
/// Less than this part of the expected capacity is an issue.
const LEAST_PERCENT: i128 = 90;

/// A resource of which the Node has too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortfall {
    pub(crate) resource: String,
    pub(crate) expected: String,
    pub(crate) found: String,
}

impl std::fmt::Display for Shortfall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { resource, expected, found } = self;
        write!(
            f,
            "expected {expected} of resource {resource}, found {found}, less than {LEAST_PERCENT} % of it"
        )
    }
}

/// None before the node is initialized: devices come late.
pub(super) fn shortfalls(seen: &Observed<'_>, node: &Node) -> Vec<Shortfall> {
    if !api::conditions::is_true(seen.conditions(), INITIALIZED) {
        return Vec::new();
    }
    let spec = &seen.claim.spec;
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let expected = seen.claim.status.as_ref().and_then(|status| status.capacity.as_ref());
    let found = node.status.as_ref().and_then(|status| status.capacity.as_ref());
    let asked = requests.into_iter().flatten().filter(|(_, wanted)| !parse(&wanted.text()).is_zero());
    asked
        .filter_map(|(name, _)| {
            let expected = parse(&expected?.get(name)?.text());
            let found = found.and_then(|all| all.get(name)).map_or(Quantity::ZERO, |amount| parse(&amount.0));
            let short = !expected.is_zero() && found.nano() * 100 < expected.nano() * LEAST_PERCENT;
            short.then(|| Shortfall {
                resource: name.clone(),
                expected: expected.to_string(),
                found: found.to_string(),
            })
        })
        .collect()
}

fn parse(text: &str) -> Quantity {
    text.parse().unwrap_or(Quantity::ZERO)
}
