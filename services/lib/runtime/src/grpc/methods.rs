//! Which methods exist, from the descriptors: the closed set of metric labels, and the proof that an access table is
//! complete.

use std::collections::BTreeMap;

use anyhow::Context as _;
use prost::Message as _;
use prost_types::FileDescriptorSet;

/// `/package.Service/Method`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) service: String,
    pub(crate) name: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Methods {
    by_path: BTreeMap<String, Method>,
}

impl Methods {
    pub(crate) fn read(sets: &[&[u8]]) -> anyhow::Result<Self> {
        let mut by_path = BTreeMap::new();
        for set in sets {
            let files = FileDescriptorSet::decode(*set).context("decode a descriptor set")?.file;
            for file in files {
                let package = file.package().to_owned();
                for service in &file.service {
                    let full = format!("{package}.{}", service.name());
                    for method in &service.method {
                        let name = method.name().to_owned();
                        by_path.insert(format!("/{full}/{name}"), Method { service: full.clone(), name });
                    }
                }
            }
        }
        Ok(Self { by_path })
    }

    /// What a path is called in metrics and spans. Paths that nobody serves share one name, or else a stranger could make
    /// label values without end.
    pub(crate) fn named(&self, path: &str) -> Method {
        let unknown = || Method { service: "unknown".to_owned(), name: "unknown".to_owned() };
        self.by_path.get(path).cloned().unwrap_or_else(unknown)
    }

    pub(crate) fn of_service<'a>(&'a self, service: &'a str) -> impl Iterator<Item = (&'a str, &'a Method)> {
        self.by_path
            .iter()
            .filter(move |(_, method)| method.service == service)
            .map(|(path, m)| (path.as_str(), m))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_methods_are_known_and_strangers_share_a_name() {
        let methods = Methods::read(&[proto::FILE_DESCRIPTOR_SET]).unwrap();
        let known = methods.named("/karpenter.pricingcache.v1.PricingCache/GetPrices");
        assert_eq!(
            (known.service.as_str(), known.name.as_str()),
            ("karpenter.pricingcache.v1.PricingCache", "GetPrices")
        );
        assert_eq!(methods.named("/made.up/Thing").service, "unknown");
        assert_eq!(methods.of_service("karpenter.interruptionwatcher.v1.InterruptionWatcher").count(), 4);
    }
}
