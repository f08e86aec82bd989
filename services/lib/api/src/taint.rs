//! Taints of NodePools and NodeClaims.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;
use crate::patterns;
use crate::text_enum::text_enum;

text_enum! {
    /// What a taint does to pods that do not tolerate it.
    pub enum Effect {
        /// They are not placed.
        NoSchedule = "NoSchedule",
        /// They are placed elsewhere if possible.
        PreferNoSchedule = "PreferNoSchedule",
        /// They are not placed, and running ones are evicted.
        NoExecute = "NoExecute",
    }
}

impl Default for Effect {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

/// A mark on a node that repels pods which do not tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Name of the taint, with an optional DNS prefix.
    #[schemars(length(min = 1), regex(pattern = patterns::QUALIFIED_NAME))]
    pub key: String,
    /// Value of the taint, compared with a toleration's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::QUALIFIED_NAME))]
    pub value: Option<String>,
    /// What happens to pods that do not tolerate the taint.
    pub effect: Effect,
    /// When the taint was added; used by NoExecute tolerations with a time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::date_time")]
    pub time_added: Option<Time>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
