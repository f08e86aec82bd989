//! NodeOverlay: corrections to what the cloud says about prices and capacity of instance types.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;
use crate::amount::ResourceList;
use crate::conditions::Condition;
use crate::patterns;
use crate::requirement::{self, Requirement};
use crate::schema::{cel, keyed_by, root_schema};

/// Desired state of a NodeOverlay.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    singular = "nodeoverlay",
    shortname = "overlays",
    category = "karpenter",
    status = "NodeOverlayStatus",
    schema = "manual",
    derive = "Default",
    derive = "PartialEq",
    doc = "A NodeOverlay corrects prices or adds capacity of matching instance types for simulation.",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Weight", "type": "integer", "jsonPath": ".spec.weight", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = cel(
    "!has(self.price) || !has(self.priceAdjustment)",
    "price and priceAdjustment are mutually exclusive",
))]
pub struct NodeOverlaySpec {
    /// Which instance types and offerings the overlay is for: well-known labels, or labels from NodePool templates. An empty list
    /// matches everything.
    #[schemars(schema_with = "requirement::of_nodeoverlay")]
    pub requirements: Vec<Requirement>,
    /// Price in dollars an hour that replaces the known one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::PRICE))]
    pub price: Option<String>,
    /// Change to the known price, with a sign: an amount such as `-0.2`, or a share such as `+10%`. The result is never
    /// below 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::PRICE_ADJUSTMENT))]
    pub price_adjustment: Option<String>,
    /// Extended resources that matching instance types have beside those known, such as `example.com/fpga: 2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = cel(
        "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
        "cpu, memory, ephemeral-storage and pods cannot be overlaid",
    ))]
    pub capacity: Option<ResourceList>,
    /// Which overlay counts when several match: the one with the higher weight. Unset is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub weight: Option<i32>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Observed state of a NodeOverlay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlayStatus {
    /// Ready, and what it depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = keyed_by("type"))]
    pub conditions: Option<Vec<Condition>>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

root_schema!(
    NodeOverlay,
    NodeOverlaySpec,
    NodeOverlayStatus,
    required = true,
    "A NodeOverlay corrects the price of matching instance types, or adds extended resources to them, wherever the autoscaler chooses among them. Alpha, feature gate NodeOverlay."
);
