//! The placement group of a class.

use std::sync::Arc;
use std::time::Duration;

use api::conditions::Finding;
use api::ec2nodeclass::PlacementGroupSelector;
use cloud::NodeClassSource;
use cloud::error::{CloudError, ErrorKind};
use cloud::nodeclass::{PlacementGroup, PlacementGroupSelect};

use super::cache::Cache;

const GOOD_FOR: Duration = Duration::from_mins(1);

pub(super) struct PlacementGroups {
    source: Arc<dyn NodeClassSource>,
    found: Cache<PlacementGroupSelect, Option<PlacementGroup>>,
}

/// What to say about the group; `None` leaves the condition as it is.
pub(super) struct Outcome {
    pub(super) group: Option<PlacementGroup>,
    pub(super) finding: Option<Finding>,
    pub(super) error: Option<CloudError>,
}

impl PlacementGroups {
    pub(super) fn new(source: Arc<dyn NodeClassSource>) -> Self {
        Self { source, found: Cache::new(GOOD_FOR) }
    }

    /// `before` is what was known: it stays while EC2 does not answer.
    pub(super) async fn resolve(
        &self,
        selector: Option<&PlacementGroupSelector>,
        before: Option<PlacementGroup>,
    ) -> Outcome {
        let Some(select) = selector.and_then(select) else {
            return Outcome { group: None, finding: Some(Finding::holds()), error: None };
        };
        let ask = async || self.source.placement_group(select.clone()).await;
        match self.found.get_or(select.clone(), ask).await {
            Ok(Some(group)) => Outcome { group: Some(group), finding: Some(Finding::holds()), error: None },
            Ok(None) => {
                let text = format!("placement group {} is not available", name(&select));
                Outcome {
                    group: None,
                    finding: Some(Finding::fails("PlacementGroupNotFound", text)),
                    error: None,
                }
            }
            // EC2 answers an unknown name with an error of its own; that is an answer, not an outage.
            Err(error) if error.kind == ErrorKind::NotFound || error.kind == ErrorKind::Invalid => {
                let text = format!("placement group {} cannot be resolved: {}", name(&select), error.message);
                let finding = Finding::fails("PlacementGroupResolutionFailed", text);
                Outcome { group: None, finding: Some(finding), error: None }
            }
            Err(error) => {
                let same = before.filter(|group| is(group, &select));
                Outcome { group: same, finding: None, error: Some(error) }
            }
        }
    }
}

fn select(selector: &PlacementGroupSelector) -> Option<PlacementGroupSelect> {
    let by_id = selector.id.clone().map(PlacementGroupSelect::Id);
    by_id.or_else(|| selector.name.clone().map(PlacementGroupSelect::Name))
}

fn name(select: &PlacementGroupSelect) -> &str {
    match select {
        PlacementGroupSelect::Id(text) | PlacementGroupSelect::Name(text) => text,
    }
}

fn is(group: &PlacementGroup, select: &PlacementGroupSelect) -> bool {
    match select {
        PlacementGroupSelect::Id(id) => group.id == *id,
        PlacementGroupSelect::Name(name) => group.name == *name,
    }
}
