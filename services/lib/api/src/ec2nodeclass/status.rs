//! What an EC2NodeClass resolved to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::InstanceMatchCriteria;
use crate::Extra;
use crate::conditions::Condition;
use crate::patterns;
use crate::requirement::{self, Requirement};
use crate::text_enum::text_enum;

text_enum! {
    /// Kinds of capacity reservations.
    #[derive(Default)]
    pub enum ReservationType {
        /// On-demand capacity reservation.
        #[default]
        OnDemand = "default",
        /// Capacity block for ML, with an end.
        CapacityBlock = "capacity-block",
    }
}

text_enum! {
    /// Whether a capacity reservation is near its end.
    #[derive(Default)]
    pub enum ReservationState {
        /// It can be used.
        #[default]
        Active = "active",
        /// A capacity block shortly before its end; nothing new is placed.
        Expiring = "expiring",
    }
}

/// Observed state of an EC2NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassStatus {
    /// Subnets that the selector terms matched, those with most free addresses first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnets: Option<Vec<Subnet>>,
    /// Security groups that the selector terms matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<SecurityGroup>>,
    /// Active capacity reservations that the selector terms matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_reservations: Option<Vec<CapacityReservation>>,
    /// Images that the selector terms matched, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amis: Option<Vec<Ami>>,
    /// Instance profile that nodes are launched with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    /// Ready, and what it depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A subnet that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subnet {
    /// Id of the subnet.
    pub id: String,
    /// Name of its zone, such as us-east-1a.
    pub zone: String,
    /// Id of its zone, such as use1-az4, which is the same in every account.
    #[serde(default, rename = "zoneID", skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A security group that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroup {
    /// Id of the group.
    pub id: String,
    /// Name of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A capacity reservation that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    /// Id of the reservation.
    #[schemars(regex(pattern = patterns::RESERVATION_ID))]
    pub id: String,
    /// Zone the capacity is in.
    pub availability_zone: String,
    /// Instance type the capacity is for.
    pub instance_type: String,
    /// Account that owns the reservation.
    #[serde(rename = "ownerID")]
    #[schemars(regex(pattern = patterns::ACCOUNT_ID))]
    pub owner_id: String,
    /// Which instances may use the reservation.
    pub instance_match_criteria: InstanceMatchCriteria,
    /// On-demand capacity reservation or capacity block.
    #[serde(default)]
    pub reservation_type: ReservationType,
    /// Whether AWS may take the capacity back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptible: Option<bool>,
    /// active, or expiring shortly before a capacity block ends.
    #[serde(default)]
    pub state: ReservationState,
    /// When the reservation ends, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::date_time")]
    pub end_time: Option<Time>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// An image that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ami {
    /// Id of the image.
    pub id: String,
    /// Name of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which instance types the image is for.
    #[schemars(schema_with = "requirement::of_image")]
    pub requirements: Vec<Requirement>,
    /// Whether its owner has deprecated the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<bool>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
