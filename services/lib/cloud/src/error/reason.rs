//! Reasons for conditions, events and metrics of a failed launch: the reference's names, found by text in the error.

use super::CloudError;

/// Why a launch failed, with the reference's spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaunchReason {
    SpotSLRCreationFailed,
    Unauthorized,
    AMIAuthorizationFailure,
    SecurityGroupSubnetVPCMismatch,
    InstanceProfileNameInvalid,
    LaunchTemplateNotFound,
    UserDataSizeLimitExceeded,
    InvalidAMIID,
    AMINotFound,
    RequestLimitExceeded,
    InternalError,
    FreeTierIneligible,
    FleetQuotaExceeded,
    AccountPendingVerification,
    SpotQuotaExceeded,
    VCPULimitExceeded,
    InsufficientFreeAddressesInSubnet,
    LaunchFailed,
}

impl LaunchReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SpotSLRCreationFailed => "SpotSLRCreationFailed",
            Self::Unauthorized => "Unauthorized",
            Self::AMIAuthorizationFailure => "AMIAuthorizationFailure",
            Self::SecurityGroupSubnetVPCMismatch => "SecurityGroupSubnetVPCMismatch",
            Self::InstanceProfileNameInvalid => "InstanceProfileNameInvalid",
            Self::LaunchTemplateNotFound => "LaunchTemplateNotFound",
            Self::UserDataSizeLimitExceeded => "UserDataSizeLimitExceeded",
            Self::InvalidAMIID => "InvalidAMIID",
            Self::AMINotFound => "AMINotFound",
            Self::RequestLimitExceeded => "RequestLimitExceeded",
            Self::InternalError => "InternalError",
            Self::FreeTierIneligible => "FreeTierIneligible",
            Self::FleetQuotaExceeded => "FleetQuotaExceeded",
            Self::AccountPendingVerification => "AccountPendingVerification",
            Self::SpotQuotaExceeded => "SpotQuotaExceeded",
            Self::VCPULimitExceeded => "VCPULimitExceeded",
            Self::InsufficientFreeAddressesInSubnet => "InsufficientFreeAddressesInSubnet",
            Self::LaunchFailed => "LaunchFailed",
        }
    }
}

/// Texts that must all occur, and the reason they mean; the first row that matches decides.
const ROWS: &[(&[&str], LaunchReason)] = &[
    (&["AuthFailure.ServiceLinkedRoleCreationNotPermitted"], LaunchReason::SpotSLRCreationFailed),
    (&["UnauthorizedOperation", "Not authorized for images"], LaunchReason::AMIAuthorizationFailure),
    (&["AccessDenied", "Not authorized for images"], LaunchReason::AMIAuthorizationFailure),
    (&["AuthFailure", "Not authorized for images"], LaunchReason::AMIAuthorizationFailure),
    (&["UnauthorizedOperation"], LaunchReason::Unauthorized),
    (&["AccessDenied"], LaunchReason::Unauthorized),
    (&["AuthFailure"], LaunchReason::Unauthorized),
    (&["InvalidParameter", "belong to different networks"], LaunchReason::SecurityGroupSubnetVPCMismatch),
    (&["iamInstanceProfile.name is invalid"], LaunchReason::InstanceProfileNameInvalid),
    (&["InvalidLaunchTemplateId.NotFound"], LaunchReason::LaunchTemplateNotFound),
    (&["User data is limited to"], LaunchReason::UserDataSizeLimitExceeded),
    (&["InvalidAMIID.Malformed"], LaunchReason::InvalidAMIID),
    (&["InvalidAMIID.NotFound"], LaunchReason::AMINotFound),
    (&["RequestLimitExceeded"], LaunchReason::RequestLimitExceeded),
    (&["InternalError"], LaunchReason::InternalError),
    (&["not eligible for Free Tier"], LaunchReason::FreeTierIneligible),
    (&["MaxFleetCountExceeded"], LaunchReason::FleetQuotaExceeded),
    (&["PendingVerification"], LaunchReason::AccountPendingVerification),
    (&["MaxSpotInstanceCountExceeded"], LaunchReason::SpotQuotaExceeded),
    (&["VcpuLimitExceeded"], LaunchReason::VCPULimitExceeded),
    (&["InsufficientFreeAddressesInSubnet"], LaunchReason::InsufficientFreeAddressesInSubnet),
];

/// The reason of an error text (`code: message`), and what a person can do about it.
pub fn launch_reason(text: &str) -> (LaunchReason, &'static str) {
    let hit = ROWS.iter().find(|(needles, _)| needles.iter().all(|needle| text.contains(needle)));
    let reason = hit.map_or(LaunchReason::LaunchFailed, |(_, reason)| *reason);
    (reason, advice(reason, text))
}

impl CloudError {
    /// The reference's reason for a condition, and a message for people.
    pub fn launch_reason(&self) -> (LaunchReason, &'static str) {
        launch_reason(&format!("{}: {}", self.code, self.message))
    }
}

fn advice(reason: LaunchReason, text: &str) -> &'static str {
    match reason {
        LaunchReason::SpotSLRCreationFailed => {
            "the service-linked role for spot is missing and may not be created: create it once with `aws iam create-service-linked-role --aws-service-name spot.amazonaws.com`"
        }
        LaunchReason::Unauthorized => match denied_by(text) {
            Some("permissions boundary") => {
                "the call is denied by a permissions boundary of the controller's role"
            }
            Some("service control policy") => {
                "the call is denied by a service control policy of the organization"
            }
            Some(_) => "the call is denied explicitly by a policy",
            None => "no identity policy of the controller's role allows the call",
        },
        LaunchReason::AMIAuthorizationFailure => {
            "the account may not use the selected image: share the image with it, or choose another"
        }
        LaunchReason::SecurityGroupSubnetVPCMismatch => {
            "security groups and subnets belong to different VPCs: correct the selector terms"
        }
        LaunchReason::InstanceProfileNameInvalid => {
            "the instance profile does not exist (yet): it may still be propagating, else check its name"
        }
        LaunchReason::LaunchTemplateNotFound => "the launch template is gone and is created again",
        LaunchReason::UserDataSizeLimitExceeded => "user data is larger than 16 KiB: shorten spec.userData",
        LaunchReason::InvalidAMIID => "an image id is malformed: correct the image selector terms",
        LaunchReason::AMINotFound => {
            "an image does not exist in this region: correct the image selector terms"
        }
        LaunchReason::RequestLimitExceeded => "EC2 limits the rate of calls; the launch is tried again",
        LaunchReason::InternalError => "EC2 failed on its side; the launch is tried again",
        LaunchReason::FreeTierIneligible => {
            "the account is on the free tier, which does not include this instance type"
        }
        LaunchReason::FleetQuotaExceeded => "the quota of fleets is used up: ask for an increase",
        LaunchReason::AccountPendingVerification => "AWS is still verifying the account for this region",
        LaunchReason::SpotQuotaExceeded => "the quota of spot instances is used up: ask for an increase",
        LaunchReason::VCPULimitExceeded => {
            "the vCPU quota of this instance family is used up: ask for an increase"
        }
        LaunchReason::InsufficientFreeAddressesInSubnet => "a subnet has no free addresses left",
        LaunchReason::LaunchFailed => "the launch failed",
    }
}

/// What AWS names after "with an explicit deny in a …".
pub(super) fn denied_by(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("with an explicit deny in a")?;
    let rest = rest.strip_prefix('n').unwrap_or(rest).trim_start();
    let known = ["permissions boundary", "service control policy"];
    Some(known.into_iter().find(|k| rest.starts_with(k)).unwrap_or(""))
}
