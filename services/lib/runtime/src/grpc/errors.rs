//! Refusals and failures as `google.rpc.Status` with `ErrorInfo`, so that both a program (reason, metadata) and a person with
//! grpcurl (message) know what to do next.

use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// `ErrorInfo.domain` of everything we answer.
pub const DOMAIN: &str = "karpenter.sh";

/// `reason` is upper snake case and stable: callers match on it.
pub fn status<'a>(
    code: Code,
    reason: &'static str,
    message: impl Into<String>,
    metadata: impl IntoIterator<Item = (&'a str, String)>,
) -> Status {
    let metadata: HashMap<String, String> =
        metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Status::with_error_details(code, message, ErrorDetails::with_error_info(reason, DOMAIN, metadata))
}

/// A field of the request that cannot be used, and what would be accepted.
pub fn invalid(field: &str, why: impl Into<String>) -> Status {
    let why = why.into();
    let mut details = ErrorDetails::with_bad_request_violation(field, why.clone());
    details.set_error_info("INVALID_FIELD", DOMAIN, HashMap::from([("field".to_owned(), field.to_owned())]));
    Status::with_error_details(Code::InvalidArgument, format!("{field}: {why}"), details)
}

pub fn not_found(kind: &str, name: &str) -> Status {
    let metadata = [("kind", kind.to_owned()), ("name", name.to_owned())];
    status(Code::NotFound, "NOT_FOUND", format!("there is no {kind} {name}"), metadata)
}

/// Only the leader may do what was asked; `leader` is the replica to ask, when it is known.
pub fn not_leader(leader: Option<&str>) -> Status {
    let message = match leader {
        Some(leader) => format!("this replica does not lead; ask {leader}"),
        None => {
            "this replica does not lead, and nobody holds the lease; try again in some seconds".to_owned()
        }
    };
    let metadata = leader.map(|leader| ("leader", leader.to_owned()));
    status(Code::FailedPrecondition, "NOT_LEADER", message, metadata)
}

/// Something this service needs is away or not ready; the same call may succeed later.
pub fn unavailable(reason: &'static str, message: impl Into<String>) -> Status {
    status(Code::Unavailable, reason, message, [])
}

pub fn unauthenticated(reason: &'static str, message: impl Into<String>) -> Status {
    status(Code::Unauthenticated, reason, message, [])
}

pub fn permission_denied<'a>(
    reason: &'static str,
    message: impl Into<String>,
    metadata: impl IntoIterator<Item = (&'a str, String)>,
) -> Status {
    status(Code::PermissionDenied, reason, message, metadata)
}

/// The `ErrorInfo.reason` of a status that [`status`] or a like-minded peer made.
pub fn reason(status: &Status) -> Option<String> {
    status.get_details_error_info().map(|info| info.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_carries_reason_domain_and_metadata() {
        let status = not_leader(Some("provisioner-7"));
        let info = status.get_details_error_info().unwrap();
        assert_eq!((status.code(), info.reason.as_str()), (Code::FailedPrecondition, "NOT_LEADER"));
        assert_eq!(info.domain, DOMAIN);
        assert_eq!(info.metadata.get("leader").map(String::as_str), Some("provisioner-7"));
        assert_eq!(reason(&invalid("zone", "must not be empty")).as_deref(), Some("INVALID_FIELD"));
    }
}
