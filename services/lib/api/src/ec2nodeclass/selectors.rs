//! How an EC2NodeClass names what exists in AWS. Terms of a list are alternatives; the fields of one term must all match.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::transform::Transform;
use serde::{Deserialize, Serialize};

use super::ALIAS_FAMILIES;
use crate::Extra;
use crate::patterns;
use crate::schema::{Cel, cel};
use crate::text_enum::text_enum;

/// Tags to match; value `*` matches any value.
pub type TagSelector = BTreeMap<String, String>;

/// The schema of a [`TagSelector`].
fn tag_selector(schema: &mut schemars::Schema) {
    schema.insert("maxProperties".into(), 20.into());
    cel("self.all(k, k != '' && self[k] != '')", "a tag's key and value cannot be empty").transform(schema);
}

text_enum! {
    /// Which instances may use a capacity reservation.
    pub enum InstanceMatchCriteria {
        /// Any with matching attributes.
        Open = "open",
        /// Only those that name it.
        Targeted = "targeted",
    }
}

/// Selects subnets by tags or by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubnetSelectorTerm {
    /// Tags the subnet must have; value `*` stands for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = tag_selector)]
    pub tags: Option<TagSelector>,
    /// Id of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::SUBNET_ID))]
    pub id: Option<String>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Selects security groups by tags, by id or by group name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroupSelectorTerm {
    /// Tags the group must have; value `*` stands for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = tag_selector)]
    pub tags: Option<TagSelector>,
    /// Id of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::SECURITY_GROUP_ID))]
    pub id: Option<String>,
    /// Name of the group; its own name, not its Name tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Selects capacity reservations by tags, by id, or by who may use them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservationSelectorTerm {
    /// Tags the reservation must have; value `*` stands for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = tag_selector)]
    pub tags: Option<TagSelector>,
    /// Id of the reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::RESERVATION_ID))]
    pub id: Option<String>,
    /// Account that owns the reservation.
    #[serde(default, rename = "ownerID", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::ACCOUNT_ID))]
    pub owner_id: Option<String>,
    /// Which instances may use the reservation: open or targeted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_match_criteria: Option<InstanceMatchCriteria>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Selects images by alias, tags, id, name or SSM parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmiSelectorTerm {
    /// An EKS optimized image as family@version: al2023@v20260601, or bottlerocket@latest for the newest. It must be the only
    /// term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 30), transform = alias_rules())]
    pub alias: Option<String>,
    /// Tags the image must have; value `*` stands for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = tag_selector)]
    pub tags: Option<TagSelector>,
    /// Id of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::IMAGE_ID))]
    pub id: Option<String>,
    /// Name of the image, with `*` as wildcard. Searched among own and Amazon's images unless owner is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Owner of the image: an account id, or self, amazon, aws-marketplace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Name or ARN of an SSM parameter that holds the image's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssm_parameter: Option<String>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Selects one placement group by name or by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = cel("has(self.name) != has(self.id)", "exactly one of name and id must be set"))]
pub struct PlacementGroupSelector {
    /// Name of the placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// Id of the placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::PLACEMENT_GROUP_ID))]
    pub id: Option<String>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

// The exclusion rules for subnets, security groups and reservations ask only that not every term breaks them, so a list with one
// good term passes: objects that the reference stored must stay storable.

pub(super) fn subnet_rules() -> Cel {
    cel("self.size() != 0", "subnetSelectorTerms cannot be empty")
        .and("self.all(x, has(x.tags) || has(x.id))", "a subnet selector term needs tags or id")
        .and(
            "!self.all(x, has(x.id) && has(x.tags))",
            "id cannot be combined with other fields in a subnet selector term",
        )
}

pub(super) fn security_group_rules() -> Cel {
    cel("self.size() != 0", "securityGroupSelectorTerms cannot be empty")
        .and(
            "self.all(x, has(x.tags) || has(x.id) || has(x.name))",
            "a security group selector term needs tags, id or name",
        )
        .and(
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
            "id cannot be combined with other fields in a security group selector term",
        )
        .and(
            "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
            "name cannot be combined with other fields in a security group selector term",
        )
}

pub(super) fn capacity_reservation_rules() -> Cel {
    cel(
        "self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))",
        "a capacity reservation selector term needs tags, id or instanceMatchCriteria",
    )
    .and(
        "!self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
        "capacityReservationSelectorTerms cannot be an empty list, and id cannot be combined with other fields in a term",
    )
}

pub(super) fn ami_rules() -> Cel {
    cel(
        "self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || has(x.ssmParameter))",
        "an image selector term needs tags, id, name, alias or ssmParameter",
    )
    .and(
        "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",
        "id cannot be combined with other fields in an image selector term",
    )
    .and(
        "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))",
        "alias cannot be combined with other fields in an image selector term",
    )
    .and(
        "!self.exists(x, has(x.alias)) || self.size() == 1",
        "an image selector term with an alias must be the only term",
    )
}

fn alias_rules() -> Cel {
    let families: Vec<_> = ALIAS_FAMILIES.iter().map(|(name, _)| format!("'{name}'")).collect();
    cel("self.matches('^[a-zA-Z0-9]+@.+$')", "alias must have the form family@version")
        .and(
            format!("self.find('^[^@]+') in [{}]", families.join(", ")),
            format!("the family of an alias must be one of {}", families.join(", ")),
        )
        .and(
            "!self.startsWith('windows') || self.find('@[^@]*') == '@latest'",
            "Windows images have no pinned versions: the alias must end in @latest",
        )
}
