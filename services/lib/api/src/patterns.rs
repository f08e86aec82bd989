//! The regular expressions of the schemas, each in one place. They are the reference's, loopholes included: an object it
//! stores must be storable here, and one it refuses must be refused. Go's RE2 evaluates them, never Rust.

/// A Kubernetes quantity such as `500m`, `2Gi` or `1e3`.
pub(crate) const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
/// A qualified name: an optional DNS prefix with a slash, then a name.
pub(crate) const QUALIFIED_NAME: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// A label value; may be empty.
pub(crate) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// Hours, minutes and seconds.
pub(crate) const DURATION: &str = r"^([0-9]+(s|m|h))+$";
/// Hours, minutes and seconds, or `Never`.
pub(crate) const DURATION_OR_NEVER: &str = r"^(([0-9]+(s|m|h))+|Never)$";
/// A node count, or 0–100 percent.
pub(crate) const BUDGET_NODES: &str = r"^((100|[0-9]{1,2})%|[0-9]+)$";
/// Five cron fields or a macro. Loose: text that no cron parser takes can pass.
pub(crate) const CRON: &str =
    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$";
/// Hours and minutes, with a tolerated `0s` at the end.
pub(crate) const BUDGET_DURATION: &str = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$";
/// A decimal price in dollars an hour.
pub(crate) const PRICE: &str = r"^\d+(\.\d+)?$";
/// A signed price change, absolute or in percent, not below `-100%`.
pub(crate) const PRICE_ADJUSTMENT: &str =
    r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$";
/// A volume size. A bare `T` or `Ti` passes, and `18Ti` does not: both as in the reference.
pub(crate) const VOLUME_SIZE: &str = r"^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$";
/// An eviction threshold: percent or quantity. Empty passes.
pub(crate) const EVICTION: &str = r"^((\d{1,2}(\.\d{1,2})?|100(\.0{1,2})?)%||(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?)$";
/// A condition's type.
pub(crate) const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
/// A condition's reason.
pub(crate) const CONDITION_REASON: &str = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
/// A condition's reason on a NodeClaim, where objects of older releases may hold an empty one.
pub(crate) const CONDITION_REASON_OR_EMPTY: &str = r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$";
/// An API group: anything without a slash.
pub(crate) const API_GROUP: &str = r"^[^/]*$";
/// Unanchored, as in the reference: the id may stand anywhere in the text.
pub(crate) const SUBNET_ID: &str = r"subnet-[0-9a-z]+";
/// Unanchored, as in the reference.
pub(crate) const SECURITY_GROUP_ID: &str = r"sg-[0-9a-z]+";
/// Unanchored, as in the reference.
pub(crate) const IMAGE_ID: &str = r"ami-[0-9a-z]+";
/// A capacity reservation's id.
pub(crate) const RESERVATION_ID: &str = r"^cr-[0-9a-z]+$";
/// A placement group's id.
pub(crate) const PLACEMENT_GROUP_ID: &str = r"^pg-[0-9a-z]+$";
/// An AWS account's id.
pub(crate) const ACCOUNT_ID: &str = r"^[0-9]{12}$";
