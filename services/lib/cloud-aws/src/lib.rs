//! The only crate that links the AWS SDK: implements the traits of `cloud` against EC2, SQS, EventBridge, Pricing, SSM, IAM,
//! EKS, STS and zonal shift.
//!
//! ```text
//! Aws::connect -> one handle, clients made when first used
//!   every call:    pace (rate limit of its class) -> SDK (retries with jitter, timeouts) -> CloudError
//!   every listing: all pages or an error
//!   single launches, describes and terminations are merged into batches
//! ```
//!
//! No decision is made here: which subnet, which type, whether an instance is ours is for the caller to say.

mod batch;
mod calls;
mod connect;
mod convert;
mod ec2;
mod eks;
mod error;
mod iam;
mod intercept;
mod pace;
mod pricing;
mod rules;
mod sqs;
mod ssm;
mod sts;
mod traits;
mod zonal_shift;

pub use calls::CallMetrics;
pub use connect::{Aws, ConnectError, Keys, Options};
pub use pace::{InvalidLimits, Limit, Limits};
