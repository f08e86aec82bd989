//! What termination may do: end instances, and look at them. It cannot create anything.

use crate::instance::{Instance, InstanceState};
use crate::select::TagFilter;
use crate::{Answer, CloudError};

pub trait Terminator: Send + Sync {
    /// Asks EC2 to end these instances and tells for each what came of it. Calls made at about the same time are merged.
    /// The caller has made sure that each is ours: this call does not look.
    fn terminate(
        &self,
        ids: Vec<String>,
    ) -> futures::future::BoxFuture<'_, Vec<(String, Result<InstanceState, CloudError>)>>;

    /// Instances by id. Those that EC2 does not know or reports as terminated are left out; any other failure is an error,
    /// so that an absent instance is a gone one.
    fn instances_by_id(&self, ids: Vec<String>) -> Answer<'_, Vec<Instance>>;

    /// All instances that carry the tags, by id, terminated ones left out. Whole or an error.
    fn instances_by_tags(&self, tags: Vec<TagFilter>) -> Answer<'_, Vec<Instance>>;
}
