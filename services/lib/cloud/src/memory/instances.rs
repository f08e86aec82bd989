use std::collections::BTreeSet;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{MemoryCloud, State, client_error};
use crate::Answer;
use crate::error::CloudError;
use crate::instance::{Instance, InstanceState};
use crate::queue::{HealthSource, InstanceHealth};
use crate::select::TagFilter;
use crate::terminate::Terminator;

impl Terminator for MemoryCloud {
    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<(String, Result<InstanceState, CloudError>)>> {
        let mut state = self.state();
        let begun = state.begin("TerminateInstances");
        let mut end = |id: String| {
            let result = begun.clone().and_then(|()| match state.instances.get_mut(&id) {
                Some(instance) => {
                    if instance.state != InstanceState::Terminated {
                        instance.state = InstanceState::ShuttingDown;
                    }
                    Ok(instance.state)
                }
                None => Err(client_error("TerminateInstances", "InvalidInstanceID.NotFound", id.as_str())),
            });
            (id, result)
        };
        let answers: Vec<_> = ids.into_iter().map(&mut end).collect();
        async move { answers }.boxed()
    }

    fn instances_by_id(&self, ids: Vec<String>) -> Answer<'_, Vec<Instance>> {
        self.answer("DescribeInstances", |state| Ok(state.by_id(&ids)))
    }

    fn instances_by_tags(&self, tags: Vec<TagFilter>) -> Answer<'_, Vec<Instance>> {
        self.answer("DescribeInstances", |state| Ok(state.by_tags(&tags)))
    }
}

impl HealthSource for MemoryCloud {
    fn unhealthy(&self) -> Answer<'_, Vec<InstanceHealth>> {
        self.answer("DescribeInstanceStatus", |state| Ok(state.health.clone()))
    }

    fn ending(&self, ids: Vec<String>) -> Answer<'_, BTreeSet<String>> {
        self.answer("DescribeInstances", |state| {
            Ok(ids.into_iter().filter(|id| !state.alive.contains(id)).collect())
        })
    }
}

impl MemoryCloud {
    /// Pending instances run; those shutting down are gone.
    pub fn settle_instances(&self) {
        for instance in self.state().instances.values_mut() {
            instance.state = match instance.state {
                InstanceState::Pending => InstanceState::Running,
                InstanceState::ShuttingDown => InstanceState::Terminated,
                other => other,
            };
        }
    }

    /// Instances that are not gone, by id.
    pub fn running(&self) -> Vec<Instance> {
        self.state().by_tags(&[])
    }
}

impl State {
    pub(super) fn by_id(&self, ids: &[String]) -> Vec<Instance> {
        let mut found: Vec<Instance> = ids.iter().filter_map(|id| self.instances.get(id)).cloned().collect();
        found.retain(|i| i.state != InstanceState::Terminated);
        found.sort_by(|a, b| a.id.cmp(&b.id));
        found.dedup_by(|a, b| a.id == b.id);
        found
    }

    pub(super) fn by_tags(&self, tags: &[TagFilter]) -> Vec<Instance> {
        let listed = self.instances.values().filter(|i| i.state != InstanceState::Terminated);
        listed.filter(|i| tags.iter().all(|t| t.matches(&i.tags))).cloned().collect()
    }
}
