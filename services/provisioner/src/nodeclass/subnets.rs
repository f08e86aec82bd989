//! Subnets of a class.

use std::sync::Arc;
use std::time::Duration;

use api::ec2nodeclass::{Subnet as StatusSubnet, SubnetSelectorTerm};
use cloud::NodeClassSource;
use cloud::error::CloudError;
use cloud::nodeclass::Subnet;
use cloud::select::{Select, TagFilter};

use super::addresses::Addresses;
use super::cache::Cache;

pub(super) struct Subnets {
    source: Arc<dyn NodeClassSource>,
    addresses: Addresses,
    found: Cache<Vec<Select>, Vec<Subnet>>,
}

impl Subnets {
    pub(super) fn new(source: Arc<dyn NodeClassSource>, addresses: Addresses, refresh: Duration) -> Self {
        Self { source, addresses, found: Cache::new(refresh) }
    }

    /// Roomiest first.
    pub(super) async fn resolve(
        &self,
        terms: &[SubnetSelectorTerm],
    ) -> Result<Vec<StatusSubnet>, CloudError> {
        let asked = queries(terms);
        let found = self
            .found
            .get_or(asked.clone(), async || {
                let mut all = Vec::new();
                for select in asked {
                    all.extend(self.source.subnets(select).await?);
                }
                let all = unique(all);
                self.addresses.described(&all);
                Ok::<_, CloudError>(all)
            })
            .await?;
        Ok(in_order(found))
    }
}

/// Ids together in one query; each term of tags is a query of its own.
fn queries(terms: &[SubnetSelectorTerm]) -> Vec<Select> {
    let ids: Vec<String> = terms.iter().filter_map(|term| term.id.clone()).collect();
    let by_ids = (!ids.is_empty()).then_some(Select::Ids(ids));
    let by_tags = terms.iter().filter(|term| term.id.is_none()).filter_map(|term| tags(term.tags.as_ref()));
    by_ids.into_iter().chain(by_tags).collect()
}

/// `None` for a term without tags: it would select everything in the account.
pub(super) fn tags(tags: Option<&api::ec2nodeclass::TagSelector>) -> Option<Select> {
    let filters: Vec<TagFilter> =
        tags.into_iter().flatten().map(|(key, value)| TagFilter::from_term(key, value)).collect();
    (!filters.is_empty()).then_some(Select::Tags(filters))
}

fn unique(mut found: Vec<Subnet>) -> Vec<Subnet> {
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found.dedup_by(|a, b| a.id == b.id);
    found
}

fn in_order(mut found: Vec<Subnet>) -> Vec<StatusSubnet> {
    found.sort_by(|a, b| {
        (std::cmp::Reverse(a.free_addresses), &a.id).cmp(&(std::cmp::Reverse(b.free_addresses), &b.id))
    });
    let status = |subnet: Subnet| StatusSubnet {
        id: subnet.id,
        zone: subnet.zone,
        zone_id: Some(subnet.zone_id).filter(|id| !id.is_empty()),
        ..StatusSubnet::default()
    };
    found.into_iter().map(status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(id: Option<&str>, tags: &[(&str, &str)]) -> SubnetSelectorTerm {
        let tags = tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        SubnetSelectorTerm { id: id.map(str::to_owned), tags: Some(tags), ..SubnetSelectorTerm::default() }
    }

    #[test]
    fn ids_are_asked_for_together_and_each_term_of_tags_by_itself() {
        let terms = [
            term(Some("subnet-1"), &[]),
            term(None, &[("a", "*"), ("b", "c")]),
            term(Some("subnet-2"), &[]),
            term(None, &[]),
        ];
        assert_eq!(
            queries(&terms),
            [
                Select::Ids(vec!["subnet-1".into(), "subnet-2".into()]),
                Select::Tags(vec![TagFilter::exists("a"), TagFilter::is("b", "c")]),
            ]
        );
    }

    #[test]
    fn the_roomiest_subnet_comes_first_and_equals_by_id() {
        let subnet = |id: &str, free_addresses| Subnet {
            id: id.to_owned(),
            zone: "a".to_owned(),
            zone_id: String::new(),
            vpc_id: String::new(),
            free_addresses,
            tags: Default::default(),
        };
        let ordered = in_order(unique(vec![subnet("c", 5), subnet("b", 9), subnet("a", 5), subnet("c", 5)]));
        let ids: Vec<&str> = ordered.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids, ["b", "a", "c"]);
        assert_eq!(ordered[0].zone_id, None);
    }
}
