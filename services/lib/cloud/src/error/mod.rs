//! Errors of the cloud: what callers act on, and the tables that put AWS's codes into those kinds.
//!
//! Classification is a pure function of code, message and fault, so that a fleet's item errors (which are data, not
//! failed calls) and failed calls are judged alike.

mod grant;
mod reason;
#[cfg(test)]
mod tests;

use std::fmt;

pub use reason::{LaunchReason, launch_reason};

/// A call failed. Says which, why, and (by [`ErrorKind`]) what a caller may do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {}", Told { operation, code, message })]
pub struct CloudError {
    pub kind: ErrorKind,
    /// The call, such as `CreateFleet`.
    pub operation: &'static str,
    /// AWS's error code; empty when no answer came.
    pub code: String,
    pub message: String,
    /// AWS's request id, for support cases.
    pub request_id: Option<String>,
}

/// What callers act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// The named thing does not exist (any more).
    NotFound,
    /// A launch template named in a launch is gone: forget it, create it again, retry once.
    LaunchTemplateNotFound,
    /// Someone created it first.
    AlreadyExists,
    /// Missing permission: a person must act.
    Unauthorized,
    /// EC2 may not create the service-linked role for spot: spot cannot be used in this account.
    SpotRoleMissing,
    /// AWS asks us to slow down.
    Throttled,
    /// EC2 has none of this to give now.
    Unfulfillable,
    /// The subnet has no free address; for launches this is unfulfillable too.
    SubnetFull,
    /// A spread placement group holds its most instances in that zone.
    SpreadGroupFull,
    /// The request is wrong and stays wrong: a person must act.
    Invalid,
    /// AWS failed on its side; the same request may succeed later.
    ServerFault,
    /// No answer: connection, TLS, timeout, credentials not obtainable.
    Unreachable,
    /// An answer came that makes no sense. Never taken for an empty answer.
    Malformed,
}

/// Whose fault the transport says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Client,
    Server,
    /// No answer was read.
    None,
}

const NOT_FOUND: &[&str] = &[
    "InvalidCapacityReservationId.NotFound",
    "InvalidInstanceID.NotFound",
    "InvalidLaunchTemplateId.NotFound",
    "InvalidPlacementGroup.Unknown",
    "InvalidPlacementGroupId.Unknown",
    "QueueDoesNotExist",
    "AWS.SimpleQueueService.NonExistentQueue",
    "NoSuchEntity",
    "NoSuchEntityException",
    "ParameterNotFound",
    "ResourceNotFoundException",
];
const ALREADY_EXISTS: &[&str] = &[
    "EntityAlreadyExists",
    "EntityAlreadyExistsException",
    "InvalidLaunchTemplateName.AlreadyExistsException",
];
const LAUNCH_TEMPLATE_NOT_FOUND: &[&str] = &["InvalidLaunchTemplateName.NotFoundException"];
const SPOT_ROLE_MISSING: &[&str] = &["AuthFailure.ServiceLinkedRoleCreationNotPermitted"];
const UNAUTHORIZED: &[&str] = &[
    "UnauthorizedOperation",
    "AccessDenied",
    "AccessDeniedException",
    "AuthFailure",
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "ExpiredToken",
    "ExpiredTokenException",
    "OptInRequired",
];
const THROTTLED: &[&str] = &[
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "TooManyRequestsException",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "BandwidthLimitExceeded",
];
const SUBNET_FULL: &[&str] = &["InsufficientFreeAddressesInSubnet"];
const UNFULFILLABLE: &[&str] = &[
    "InsufficientInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    "MaxFleetCountExceeded",
    "ReservationCapacityExceeded",
];
const SERVER_FAULT: &[&str] =
    &["InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable", "InternalServerError"];
const SPREAD_GROUP_LIMIT: &str = "limit of instances in this spread placement group";

/// The kind of an error code with its message.
pub fn classify(code: &str, message: &str, fault: Fault) -> ErrorKind {
    let tables = [
        (SPOT_ROLE_MISSING, ErrorKind::SpotRoleMissing),
        (LAUNCH_TEMPLATE_NOT_FOUND, ErrorKind::LaunchTemplateNotFound),
        (NOT_FOUND, ErrorKind::NotFound),
        (ALREADY_EXISTS, ErrorKind::AlreadyExists),
        (UNAUTHORIZED, ErrorKind::Unauthorized),
        (THROTTLED, ErrorKind::Throttled),
        (SUBNET_FULL, ErrorKind::SubnetFull),
        (UNFULFILLABLE, ErrorKind::Unfulfillable),
        (SERVER_FAULT, ErrorKind::ServerFault),
    ];
    if message.contains(SPREAD_GROUP_LIMIT) {
        return ErrorKind::SpreadGroupFull;
    }
    let known = tables.iter().find(|(codes, _)| codes.contains(&code)).map(|(_, kind)| *kind);
    known.unwrap_or(match fault {
        Fault::Client => ErrorKind::Invalid,
        Fault::Server => ErrorKind::ServerFault,
        Fault::None => ErrorKind::Unreachable,
    })
}

impl ErrorKind {
    /// The same request may succeed later without anybody changing anything.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Throttled | Self::ServerFault | Self::Unreachable | Self::Malformed)
    }

    /// A launch that failed only with errors of these kinds means: this capacity cannot be had now, choose another.
    pub fn is_insufficient_capacity(self) -> bool {
        matches!(self, Self::Unfulfillable | Self::SubnetFull | Self::SpreadGroupFull | Self::SpotRoleMissing)
    }

    /// The thing asked for is not there, whatever it is.
    pub fn is_not_found(self) -> bool {
        matches!(self, Self::NotFound | Self::LaunchTemplateNotFound)
    }

    /// For metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::LaunchTemplateNotFound => "launch_template_not_found",
            Self::AlreadyExists => "already_exists",
            Self::Unauthorized => "unauthorized",
            Self::SpotRoleMissing => "spot_role_missing",
            Self::Throttled => "throttled",
            Self::Unfulfillable => "unfulfillable",
            Self::SubnetFull => "subnet_full",
            Self::SpreadGroupFull => "spread_group_full",
            Self::Invalid => "invalid",
            Self::ServerFault => "server_fault",
            Self::Unreachable => "unreachable",
            Self::Malformed => "malformed",
        }
    }
}

impl CloudError {
    pub fn new(operation: &'static str, code: &str, message: &str, fault: Fault) -> Self {
        Self {
            kind: classify(code, message, fault),
            operation,
            code: code.to_owned(),
            message: message.to_owned(),
            request_id: None,
        }
    }

    pub fn malformed(operation: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Malformed,
            operation,
            code: String::new(),
            message: message.into(),
            request_id: None,
        }
    }

    pub fn unreachable(operation: &'static str, message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unreachable, ..Self::malformed(operation, message) }
    }

    /// A request that our own code can see is wrong; no call was made.
    pub fn invalid(operation: &'static str, message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Invalid, ..Self::malformed(operation, message) }
    }

    /// What gives the right that a denied call lacks; its text has it too.
    pub fn remedy(&self) -> Option<String> {
        grant::remedy(self.operation, &self.code, &self.message)
    }

    pub fn is_not_found(&self) -> bool {
        self.kind.is_not_found()
    }

    pub fn is_retryable(&self) -> bool {
        self.kind.is_retryable()
    }
}

struct Told<'a> {
    operation: &'a str,
    code: &'a str,
    message: &'a str,
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = grant::remedy(self.operation, self.code, self.message);
        let parts = [self.code, remedy.as_deref().unwrap_or_default(), self.message];
        let mut parts = parts.into_iter().filter(|part| !part.is_empty());
        f.write_str(parts.next().unwrap_or_default())?;
        parts.try_for_each(|part| write!(f, ": {part}"))
    }
}
