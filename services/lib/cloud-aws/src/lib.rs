//! The only crate that links the AWS SDK: implements the traits of `cloud` against EC2, SQS, EventBridge, Pricing, SSM,
//! IAM, EKS and STS.
