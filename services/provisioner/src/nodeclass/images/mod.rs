//! Images of a class: by alias through SSM, or by selector terms.

mod alias;
mod choose;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::EC2NodeClassSpec;
use api::ec2nodeclass::{Ami, AmiSelectorTerm};
use cloud::NodeClassSource;
use cloud::error::CloudError;
use cloud::nodeclass::{Image, ImageQuery};
use cloud::select::{Select, TagFilter};
use jiff::Timestamp;
use tracing::info;

use super::cache::Cache;
use super::version::Version;
use alias::{LATEST, Parameter, Variant};
use choose::Found;

const ALIAS_GOOD_FOR: Duration = Duration::from_hours(24);
const PARAMETER_GOOD_FOR: Duration = Duration::from_mins(5);

pub(super) struct Images {
    source: Arc<dyn NodeClassSource>,
    aliases: Cache<String, String>,
    parameters: Cache<String, String>,
    described: Cache<Vec<ImageQuery>, Vec<Image>>,
}

/// Why there are no images, where that is an answer and no failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoImages {
    UnsupportedAlias(String),
    NotFound(String),
}

impl Images {
    pub(super) fn new(source: Arc<dyn NodeClassSource>, refresh: Duration) -> Self {
        Self {
            source,
            aliases: Cache::new(ALIAS_GOOD_FOR),
            parameters: Cache::new(PARAMETER_GOOD_FOR),
            described: Cache::new(refresh),
        }
    }

    pub(super) async fn resolve(
        &self,
        spec: &EC2NodeClassSpec,
        kubernetes: Version,
        now: Timestamp,
    ) -> Result<Result<Vec<Ami>, NoImages>, CloudError> {
        let found = match spec.alias() {
            Some((family, version)) => match alias::parameters(family, version, kubernetes) {
                Ok(parameters) => self.by_alias(parameters, version, now).await?,
                Err(unsupported) => return Ok(Err(NoImages::UnsupportedAlias(unsupported.0))),
            },
            None => self.by_terms(&spec.ami_selector_terms).await?,
        };
        let chosen = choose::choose(found, now);
        if chosen.is_empty() {
            let text = match spec.alias() {
                Some((family, version)) => {
                    format!(
                        "AMISelector did not match any AMIs: no image {family}@{version} for Kubernetes {kubernetes}"
                    )
                }
                None => "AMISelector did not match any AMIs".to_owned(),
            };
            return Ok(Err(NoImages::NotFound(text)));
        }
        Ok(Ok(chosen))
    }

    async fn by_alias(
        &self,
        parameters: Vec<Parameter>,
        version: &str,
        now: Timestamp,
    ) -> Result<Vec<Found>, CloudError> {
        let mut variants: BTreeMap<String, Vec<Variant>> = BTreeMap::new();
        let mut paths: BTreeMap<String, String> = BTreeMap::new();
        for parameter in parameters {
            let id = match self.aliases.get(&parameter.path) {
                Some(id) => id,
                None => match self.source.parameter(&parameter.path).await? {
                    Some(id) => {
                        self.aliases.put(parameter.path.clone(), id.clone());
                        id
                    }
                    // Not every variant exists for every version.
                    None => continue,
                },
            };
            variants.entry(id.clone()).or_default().extend(parameter.variants);
            paths.insert(parameter.path, id);
        }
        if variants.is_empty() {
            return Ok(Vec::new());
        }
        let select = Select::Ids(variants.keys().cloned().collect());
        let images = self.describe(vec![ImageQuery { select, owners: Vec::new() }]).await?;
        if version == LATEST {
            // A deprecated image is no longer the latest: ask again next time instead of waiting out the day.
            for (path, id) in paths {
                if images.iter().any(|image| image.id == id && image.is_deprecated(now)) {
                    self.aliases.remove(&path);
                }
            }
        }
        let found = images.into_iter().flat_map(|image| {
            let own = variants.get(&image.id).cloned().unwrap_or_default();
            own.into_iter().map(move |variant| Found { image: image.clone(), variant: Some(variant) })
        });
        Ok(found.collect())
    }

    async fn by_terms(&self, terms: &[AmiSelectorTerm]) -> Result<Vec<Found>, CloudError> {
        let mut ids: Vec<String> = terms.iter().filter_map(|term| term.id.clone()).collect();
        for parameter in
            terms.iter().filter(|term| term.id.is_none()).filter_map(|term| term.ssm_parameter.clone())
        {
            match self.parameter(&parameter).await? {
                Some(id) if id.starts_with("ami-") => ids.push(id),
                Some(value) => info!(parameter, value, "SSM parameter holds no image id and is passed over"),
                None => info!(parameter, "SSM parameter does not exist and is passed over"),
            }
        }
        let queries = queries(ids, terms);
        let mut images = self.describe(queries).await?;
        images.sort_by(|a, b| a.id.cmp(&b.id));
        images.dedup_by(|a, b| a.id == b.id);
        Ok(images.into_iter().map(|image| Found { image, variant: None }).collect())
    }

    async fn parameter(&self, name: &str) -> Result<Option<String>, CloudError> {
        if let Some(known) = self.parameters.get(&name.to_owned()) {
            return Ok(Some(known));
        }
        let found = self.source.parameter(name).await?;
        if let Some(value) = &found {
            self.parameters.put(name.to_owned(), value.clone());
        }
        Ok(found)
    }

    async fn describe(&self, queries: Vec<ImageQuery>) -> Result<Vec<Image>, CloudError> {
        self.described
            .get_or(queries.clone(), async || {
                let mut all = Vec::new();
                for query in queries {
                    all.extend(self.source.images(query).await?);
                }
                Ok(all)
            })
            .await
    }
}

/// All ids in one query; each other term by itself, because all fields of one term hold together. Names are searched among own
/// and Amazon's images unless the term says whose.
fn queries(ids: Vec<String>, terms: &[AmiSelectorTerm]) -> Vec<ImageQuery> {
    let by_ids = (!ids.is_empty()).then(|| ImageQuery { select: Select::Ids(ids), owners: Vec::new() });
    let others = terms.iter().filter(|term| term.id.is_none() && term.ssm_parameter.is_none());
    let by_term = others.filter_map(|term| {
        let owner = term.owner.clone();
        let tags: Vec<TagFilter> =
            term.tags.iter().flatten().map(|(key, value)| TagFilter::from_term(key, value)).collect();
        if let Some(name) = term.name.clone() {
            let owners =
                owner.map_or_else(|| vec!["self".to_owned(), "amazon".to_owned()], |owner| vec![owner]);
            let select =
                if tags.is_empty() { Select::Names(vec![name]) } else { Select::NameAndTags(name, tags) };
            return Some(ImageQuery { select, owners });
        }
        (!tags.is_empty())
            .then(|| ImageQuery { select: Select::Tags(tags), owners: owner.into_iter().collect() })
    });
    by_ids.into_iter().chain(by_term).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_searched_among_own_and_amazons_images_unless_an_owner_is_given() {
        let term = AmiSelectorTerm::default;
        let terms = [
            AmiSelectorTerm { name: Some("a*".into()), ..term() },
            AmiSelectorTerm { name: Some("b".into()), owner: Some("123".into()), ..term() },
            AmiSelectorTerm { tags: Some([("k".to_owned(), "*".to_owned())].into()), ..term() },
            AmiSelectorTerm { id: Some("ami-2".into()), ..term() },
        ];
        let found = queries(vec!["ami-1".into(), "ami-2".into()], &terms);
        let owners: Vec<Vec<String>> = found.iter().map(|q| q.owners.clone()).collect();
        assert_eq!(found[0].select, Select::Ids(vec!["ami-1".into(), "ami-2".into()]));
        assert_eq!(
            owners,
            [vec![], vec!["self".to_owned(), "amazon".to_owned()], vec!["123".to_owned()], vec![]]
        );
        assert_eq!(found[3].select, Select::Tags(vec![TagFilter::exists("k")]));
    }

    #[test]
    fn name_and_tags_of_one_term_both_hold() {
        let term = AmiSelectorTerm {
            name: Some("golden-*".into()),
            tags: Some([("stage".to_owned(), "prod".to_owned())].into()),
            ..AmiSelectorTerm::default()
        };
        let [query] = &queries(Vec::new(), &[term])[..] else { panic!("one query a term") };
        let tags = vec![TagFilter::is("stage", "prod")];
        assert_eq!(query.select, Select::NameAndTags("golden-*".into(), tags));
        assert_eq!(query.owners, ["self", "amazon"]);
    }
}
