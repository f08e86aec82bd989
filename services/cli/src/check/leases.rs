//! Who leads: services with one writer must have a holder that renews.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use runtime::Service;

use super::finding::Finding;
use super::right::Right;

const AREA: &str = "leaders";
/// As the services take a lease whose length is not written.
const DEFAULT_SECONDS: i32 = 15;

pub(super) async fn check(client: &Client, namespace: &str, prefix: &str, now: Timestamp) -> Vec<Finding> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let mut findings = Vec::new();
    for service in Service::ALL.into_iter().filter(|service| service.elects_leader()) {
        let name = service.lease(prefix);
        match leases.get_opt(&name).await {
            Ok(lease) => findings.push(judge(service, &name, lease.as_ref(), now)),
            Err(error) => {
                let right = Right::in_namespace::<Lease>("get", namespace);
                findings.push(right.not_used(AREA, "Leases", &error));
            }
        }
    }
    findings
}

fn judge(service: Service, name: &str, lease: Option<&Lease>, now: Timestamp) -> Finding {
    let subject = service.as_str();
    let fix = format!("kubectl describe lease {name}; see why no replica of {service} takes it in its log");
    let Some(spec) = lease.and_then(|lease| lease.spec.as_ref()) else {
        return Finding::wrong(
            AREA,
            subject,
            format!("no replica has ever been leader: Lease {name} is missing"),
            fix,
        );
    };
    let holder = spec.holder_identity.clone().unwrap_or_default();
    if holder.is_empty() {
        return Finding::wrong(AREA, subject, "no leader: the last one released the Lease", fix);
    }
    let length = SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or(DEFAULT_SECONDS).into());
    let age = spec.renew_time.as_ref().map(|renewed| now.duration_since(renewed.0));
    match age {
        Some(age) if age <= length => Finding::good(AREA, subject, format!("{holder} leads")),
        Some(age) => {
            let detail = format!("no leader: {holder} has not renewed the Lease for {} s", age.as_secs());
            Finding::wrong(AREA, subject, detail, fix)
        }
        None => Finding::wrong(AREA, subject, format!("{holder} never renewed the lease"), fix),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::finding::Verdict;
    use super::*;

    fn judged(spec: serde_json::Value) -> Finding {
        let lease: Lease = serde_json::from_value(json!({"spec": spec})).unwrap();
        let now = "2030-01-01T00:00:20Z".parse().unwrap();
        judge(Service::Disruption, "karpenter-disruption", Some(&lease), now)
    }

    #[test]
    fn only_a_holder_that_renews_leads() {
        let renewed =
            |at: &str| json!({"holderIdentity": "d-1", "leaseDurationSeconds": 15, "renewTime": at});
        assert_eq!(judged(renewed("2030-01-01T00:00:10.000000Z")).verdict, Verdict::Good);
        assert_eq!(judged(renewed("2030-01-01T00:00:01.000000Z")).verdict, Verdict::Wrong);
        assert_eq!(judged(json!({"holderIdentity": ""})).verdict, Verdict::Wrong);
        let missing = judge(Service::Disruption, "l", None, Timestamp::UNIX_EPOCH);
        assert_eq!(missing.verdict, Verdict::Wrong);
    }
}
