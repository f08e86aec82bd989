//! `karpenter.shadow.v1.Shadow`: what was not stored, for people who compare. Every service serves it in shadow mode.

use jiff::Timestamp;
use proto::shadow::v1 as pb;
use tonic::{Request, Response, Status};

use super::{
    outcome::Fate,
    record::{Entry, Record},
};

#[tonic::async_trait]
impl pb::shadow_server::Shadow for Record {
    async fn list_writes(
        &self,
        request: Request<pb::ListWritesRequest>,
    ) -> Result<Response<pb::ListWritesResponse>, Status> {
        let limit = match request.into_inner().limit {
            0 => usize::MAX,
            limit => limit as usize,
        };
        let kept = self.kept();
        Ok(Response::new(pb::ListWritesResponse {
            writes: kept.entries().into_iter().take(limit).map(write).collect(),
            since: Some(time(kept.since)),
            forgotten: kept.forgotten,
            node_claims: kept.seen.fates().into_iter().map(node_claim).collect(),
        }))
    }
}

fn write(entry: &Entry) -> pb::Write {
    let write = entry.write.clone();
    pb::Write {
        action: write.action,
        group: write.group,
        resource: write.resource,
        subresource: write.subresource,
        namespace: write.namespace,
        name: write.name,
        change: write.change,
        first: Some(time(entry.first)),
        last: Some(time(entry.last)),
        times: entry.times,
        at_once: entry.at_once,
    }
}

fn node_claim(fate: &Fate) -> pb::SeenNodeClaim {
    let [node_pool, instance_type, zone, capacity_type] = fate.labels.clone();
    pb::SeenNodeClaim {
        name: fate.name.clone(),
        node_pool,
        instance_type,
        zone,
        capacity_type,
        created_at: fate.created.map(time),
        deleted_at: fate.deleted.map(time),
    }
}

fn time(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() }
}
