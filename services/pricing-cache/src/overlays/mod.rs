//! NodeOverlays: which of them count, and what is said about each. Only overlays that passed validation and collide with no
//! other are streamed; the reader applies them to the types of each NodePool.

mod evaluator;
mod judge;
mod status;

use std::collections::BTreeMap;

use model::requirement::Entry;

pub(crate) use evaluator::Evaluator;

/// One overlay as it is streamed: texts are those of the object, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overlay {
    pub(crate) name: String,
    pub(crate) weight: i32,
    pub(crate) requirements: Vec<Entry>,
    pub(crate) price: Option<String>,
    pub(crate) price_adjustment: Option<String>,
    /// Quantity texts by resource name.
    pub(crate) capacity: BTreeMap<String, String>,
}
