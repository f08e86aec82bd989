//! Security groups of a class.

use std::sync::Arc;
use std::time::Duration;

use api::ec2nodeclass::{SecurityGroup as StatusGroup, SecurityGroupSelectorTerm};
use cloud::NodeClassSource;
use cloud::error::CloudError;
use cloud::select::Select;

use super::cache::Cache;
use super::subnets::tags;

const GOOD_FOR: Duration = Duration::from_mins(1);

pub(super) struct SecurityGroups {
    source: Arc<dyn NodeClassSource>,
    found: Cache<Vec<Select>, Vec<StatusGroup>>,
}

impl SecurityGroups {
    pub(super) fn new(source: Arc<dyn NodeClassSource>) -> Self {
        Self { source, found: Cache::new(GOOD_FOR) }
    }

    /// By id.
    pub(super) async fn resolve(
        &self,
        terms: &[SecurityGroupSelectorTerm],
    ) -> Result<Vec<StatusGroup>, CloudError> {
        let asked = queries(terms);
        self.found
            .get_or(asked.clone(), async || {
                let mut all = Vec::new();
                for select in asked {
                    all.extend(self.source.security_groups(select).await?);
                }
                all.sort_by(|a, b| a.id.cmp(&b.id));
                all.dedup_by(|a, b| a.id == b.id);
                let status = all.into_iter().map(|group| StatusGroup {
                    id: group.id,
                    name: Some(group.name).filter(|name| !name.is_empty()),
                    ..StatusGroup::default()
                });
                Ok(status.collect())
            })
            .await
    }
}

/// Ids in one query, names in one, each term of tags by itself. A term's id goes before its name, its name before its tags.
fn queries(terms: &[SecurityGroupSelectorTerm]) -> Vec<Select> {
    let ids: Vec<String> = terms.iter().filter_map(|term| term.id.clone()).collect();
    let without_id = || terms.iter().filter(|term| term.id.is_none());
    let names: Vec<String> = without_id().filter_map(|term| term.name.clone()).collect();
    let by_tags = without_id().filter(|term| term.name.is_none()).filter_map(|term| tags(term.tags.as_ref()));
    let by_ids = (!ids.is_empty()).then_some(Select::Ids(ids));
    let by_names = (!names.is_empty()).then_some(Select::Names(names));
    by_ids.into_iter().chain(by_names).chain(by_tags).collect()
}

#[cfg(test)]
mod tests {
    use cloud::select::TagFilter;

    use super::*;

    #[test]
    fn ids_names_and_tags_are_asked_for_separately() {
        let term = SecurityGroupSelectorTerm::default;
        let named = |name: &str| SecurityGroupSelectorTerm { name: Some(name.into()), ..term() };
        let tags = Some([("k".to_owned(), "v".to_owned())].into());
        let terms = [
            SecurityGroupSelectorTerm { id: Some("sg-1".into()), name: Some("ignored".into()), ..term() },
            named("one"),
            named("two"),
            SecurityGroupSelectorTerm { tags, ..term() },
        ];
        assert_eq!(
            queries(&terms),
            [
                Select::Ids(vec!["sg-1".into()]),
                Select::Names(vec!["one".into(), "two".into()]),
                Select::Tags(vec![TagFilter::is("k", "v")]),
            ]
        );
    }
}
