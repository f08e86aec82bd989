//! NodeOverlays that passed validation, in plain form.

use std::collections::BTreeMap;

use model::requirement::Entry;

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
