//! What the services may ask of the cloud, in plain types: one trait for each set of rights a service holds, so that a
//! service cannot even name a call it must not make.
//!
//! ```text
//! pricing-cache        -> CatalogSource                 read-only: types, zones, prices, reservations
//! provisioner          -> Launcher, NodeClassSource     create and describe
//! termination          -> Terminator                    terminate and describe
//! interruption-watcher -> Queue, Rules, HealthSource    SQS, EventBridge, instance status
//! ```
//!
//! Beside the traits: what an instance type offers under a given node class (`derive`, pure), the built-in price
//! and limit tables (`prices`, `limits`), and an in-memory cloud for tests (`memory`). No vendor SDK is linked here;
//! `cloud-aws` implements the traits against AWS.

pub mod catalog;
pub mod derive;
pub mod error;
pub mod facts;
pub mod instance;
pub mod launch;
pub mod limits;
pub mod memory;
pub mod nodeclass;
pub mod prices;
pub mod queue;
pub mod reservation;
pub mod select;
pub mod template;
pub mod terminate;
pub mod unavailable;

pub use catalog::CatalogSource;
pub use error::{CloudError, ErrorKind};
pub use launch::Launcher;
pub use nodeclass::NodeClassSource;
pub use queue::{HealthSource, Queue, Rules};
pub use terminate::Terminator;

/// What every call of every trait returns. Boxed, so that services hold `Arc<dyn Trait>`.
pub type Answer<'a, T> = futures::future::BoxFuture<'a, Result<T, CloudError>>;

/// Tags of a cloud resource, ordered by key.
pub type Tags = std::collections::BTreeMap<String, String>;
