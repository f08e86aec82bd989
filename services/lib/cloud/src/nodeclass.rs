//! What the provisioner may ask to resolve an EC2NodeClass: networks, images, profiles, the cluster itself.

use jiff::Timestamp;

use crate::reservation::{MatchCriteria, Reservation};
use crate::select::{Select, TagFilter};
use crate::{Answer, Tags};

pub trait NodeClassSource: Send + Sync {
    /// Subnets that match, by id. No VPC is assumed.
    fn subnets(&self, select: Select) -> Answer<'_, Vec<Subnet>>;

    /// Security groups that match, by id.
    fn security_groups(&self, select: Select) -> Answer<'_, Vec<SecurityGroup>>;

    /// Available images that match, deprecated ones included, by id. Unknown architectures are kept: the caller drops them.
    fn images(&self, query: ImageQuery) -> Answer<'_, Vec<Image>>;

    /// The value of an SSM parameter (name or ARN); `None` when there is none.
    fn parameter<'a>(&'a self, name: &'a str) -> Answer<'a, Option<String>>;

    /// `None` when there is no such profile.
    fn instance_profile<'a>(&'a self, name: &'a str) -> Answer<'a, Option<InstanceProfile>>;

    /// Profiles under an IAM path prefix, by name.
    fn instance_profiles<'a>(&'a self, path_prefix: &'a str) -> Answer<'a, Vec<InstanceProfile>>;

    /// `AlreadyExists` when the name is taken.
    fn create_instance_profile<'a>(
        &'a self,
        name: &'a str,
        path: &'a str,
        tags: Tags,
    ) -> Answer<'a, InstanceProfile>;

    /// `role` is the bare name. `NotFound` when the role (or the profile) does not exist.
    fn add_role<'a>(&'a self, profile: &'a str, role: &'a str) -> Answer<'a, ()>;

    /// A role that is not attached is a success.
    fn remove_role<'a>(&'a self, profile: &'a str, role: &'a str) -> Answer<'a, ()>;

    /// A profile that is gone is a success. Roles must have been removed.
    fn delete_instance_profile<'a>(&'a self, name: &'a str) -> Answer<'a, ()>;

    fn cluster<'a>(&'a self, name: &'a str) -> Answer<'a, Cluster>;

    /// Active reservations that match, by id. Unknown ids are left out.
    fn reservations(&self, query: ReservationQuery) -> Answer<'_, Vec<Reservation>>;

    /// `None` when the group exists but is not available; `NotFound` when it does not exist.
    fn placement_group(&self, select: PlacementGroupSelect) -> Answer<'_, Option<PlacementGroup>>;

    /// Who we are.
    fn identity(&self) -> Answer<'_, Identity>;

    /// Region the names above live in.
    fn region(&self) -> &str;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    pub id: String,
    /// Zone name.
    pub zone: String,
    pub zone_id: String,
    pub vpc_id: String,
    pub free_addresses: u32,
    pub tags: Tags,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityGroup {
    pub id: String,
    pub name: String,
    pub vpc_id: Option<String>,
    pub tags: Tags,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageQuery {
    pub select: Select,
    /// Account ids, `self`, `amazon`; empty means any owner.
    pub owners: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    pub id: String,
    pub name: String,
    /// EC2's name, such as `x86_64`.
    pub architecture: String,
    pub owner_id: String,
    pub created_at: Option<Timestamp>,
    pub deprecated_at: Option<Timestamp>,
    pub tags: Tags,
}

impl Image {
    pub fn is_deprecated(&self, now: Timestamp) -> bool {
        self.deprecated_at.is_some_and(|at| at <= now)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceProfile {
    pub name: String,
    pub path: String,
    pub created_at: Option<Timestamp>,
    /// Name of the attached role; IAM allows one.
    pub role: Option<String>,
    /// IAM's listings leave them out.
    pub tags: Tags,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    pub arn: String,
    /// URL of the API server.
    pub endpoint: String,
    /// Base64.
    pub certificate_authority: Option<String>,
    /// Such as `1.35`.
    pub version: String,
    /// The CIDR cluster services get their addresses from, IPv4 or IPv6.
    pub service_cidr: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReservationQuery {
    Id(String),
    Matching { tags: Vec<TagFilter>, owner_id: Option<String>, match_criteria: Option<MatchCriteria> },
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlacementGroupSelect {
    Id(String),
    Name(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementGroup {
    pub id: String,
    pub name: String,
    pub strategy: PlacementStrategy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlacementStrategy {
    Cluster,
    /// With this many partitions.
    Partition(u32),
    Spread,
}

impl PlacementStrategy {
    /// EC2's name, as types list what they support.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Partition(_) => "partition",
            Self::Spread => "spread",
        }
    }

    pub fn partitions(self) -> u32 {
        if let Self::Partition(count) = self { count } else { 0 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub account_id: String,
    pub arn: String,
}
