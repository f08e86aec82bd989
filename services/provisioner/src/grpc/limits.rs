//! How much one call may ask for. Each limit is far above what disruption asks in a cluster of 10,000 nodes: one stream of at most
//! as many questions as there are nodes, none of which removes more nodes than there are.

use runtime::grpc::errors;
use tonic::Status;

/// `remove_nodes` of a what-if.
pub(super) const REMOVED_NODES: usize = 50_000;
/// `add_pods_json` of a what-if.
pub(super) const ADDED_PODS: usize = 50_000;
/// Questions in one stream of what-ifs.
pub(super) const QUESTIONS: usize = 100_000;
/// `objects_json` and `remove_objects` of a plan, each.
pub(super) const OBJECTS: usize = 50_000;
/// Replicas of all workloads of one plan together: a request is small, however many replicas it asks for.
pub(super) const REPLICAS: usize = 50_000;

/// `nodes` of one call that creates replacements: far more than one disruption command removes.
pub(super) const REPLACEMENTS: usize = 5_000;
/// `command_id`, in bytes: it becomes an annotation of every claim.
pub(super) const COMMAND_ID: usize = 253;

/// Refuses a list that is longer than the limit.
pub(super) fn check(field: &str, entries: usize, limit: usize) -> Result<(), Status> {
    if entries <= limit {
        return Ok(());
    }
    Err(errors::invalid(
        field,
        format!("has {entries} entries, more than the limit of {limit}; ask in several requests"),
    ))
}

/// Refuses the question that is one too many for a stream; `index` counts from zero.
pub(super) fn check_question(index: usize) -> Result<(), Status> {
    if index < QUESTIONS {
        return Ok(());
    }
    let why = format!("a stream has at most {QUESTIONS} requests; ask the others in another stream");
    Err(errors::invalid("request", why))
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn a_list_over_its_limit_is_refused_with_field_and_limit() {
        assert!(check("remove_nodes", REMOVED_NODES, REMOVED_NODES).is_ok());
        let refused = check("remove_nodes", REMOVED_NODES + 1, REMOVED_NODES).expect_err("refused");
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().starts_with("remove_nodes: has 50001 entries"), "{refused}");
        assert!(refused.message().contains("limit of 50000"), "{refused}");
    }

    #[test]
    fn a_stream_over_its_limit_is_refused() {
        assert!(check_question(QUESTIONS - 1).is_ok());
        let refused = check_question(QUESTIONS).expect_err("refused");
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("at most 100000 requests"), "{refused}");
    }
}
