//! The Kubernetes API of the autoscaler: NodePool, NodeClaim, NodeOverlay, EC2NodeClass and CapacityBuffer as Rust types with
//! their full schemas, the drift hashes, status conditions and the checks that the API server cannot make.
//!
//! ```text
//! nodepool ─┬─ disruption     ec2nodeclass ─┬─ selectors, kubelet, devices, instance, status
//! nodeclaim ┼─ requirement, taint, nodeclass_ref, amount      (shared structures)
//! nodeoverlay, capacitybuffer
//! conditions, validate, hash        pure functions on these types
//! schema, restricted, patterns      how types become CRDs;  crd + bin `crdgen` write charts/karpenter-crd
//! ```
//!
//! Types only describe what is stored. Reading and writing objects is the services', deciding is `solver`'s and `policy`'s.
//! Every structure keeps fields it does not know (`extra`), so that an object of a newer release survives being read and
//! written back.

pub mod amount;
pub mod capacitybuffer;
pub mod conditions;
pub mod convert;
pub mod crd;
pub mod disruption;
pub mod ec2nodeclass;
pub mod hash;
pub mod nodeclaim;
pub mod nodeclass_ref;
pub mod nodeoverlay;
pub mod nodepool;
pub mod requirement;
pub mod taint;
pub mod validate;

mod patterns;
mod restricted;
mod schema;
mod text_enum;

pub use capacitybuffer::{CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus};
pub use ec2nodeclass::{EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus};
pub use nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus};
pub use nodeoverlay::{NodeOverlay, NodeOverlaySpec, NodeOverlayStatus};
pub use nodepool::{NodePool, NodePoolSpec, NodePoolStatus};

/// Fields that this release does not know, kept for writing back.
pub type Extra = std::collections::BTreeMap<String, serde_json::Value>;
