//! A new node keeps as many values possible as its pool's `minValues` ask for, or says that it does not where that is allowed.

use std::collections::BTreeSet;

use super::sites::Cluster;
use super::violation::Violation;
use crate::options::{MinValuesPolicy, Options};

pub(super) fn check(cluster: &Cluster<'_>, options: &Options, found: &mut Vec<Violation>) {
    for (site, node, pool) in cluster.new_nodes() {
        for (key, least) in pool.requirements.min_values() {
            let names: BTreeSet<&str> = node.instance_types.iter().map(|name| &**name).collect();
            let listed = pool.instance_types.iter().filter(|t| names.contains(&*t.name));
            let values: BTreeSet<&String> = listed
                .filter_map(|instance| instance.requirements.get(key))
                .filter(|value| !value.is_complement())
                .flat_map(|value| value.values())
                .collect();
            if values.len() >= least as usize {
                continue;
            }
            let at = site.place.clone();
            found.push(match options.min_values {
                MinValuesPolicy::Strict => {
                    Violation::TooFewValues { at, key: key.to_owned(), found: values.len(), least }
                }
                MinValuesPolicy::BestEffort if node.min_values_relaxed => continue,
                MinValuesPolicy::BestEffort => Violation::RelaxationNotStated { at, key: key.to_owned() },
            });
        }
    }
}
