//! Admission of one call: authenticate, look up the method's rule, ask for a person's grant where the rule wants one.
//! Refusals tell what to do about them.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use http::{HeaderMap, header};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};
use tokio::time::Instant;
use tonic::{Code, Status};

use super::{
    access::{Access, Rule, is_open},
    auth::{Authenticator, Error, Identity, User},
    errors,
    rate::PerSecond,
};
use crate::{Metrics, Service, metrics::Reason};

/// The API group of the virtual resource `services/<method>` that grants are given on.
pub const GRANT_GROUP: &str = "rpc.karpenter.sh";

const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const GRANT_BELIEVED: Duration = Duration::from_secs(30);
const REFUSAL_BELIEVED: Duration = Duration::from_secs(5);
const MOST_ENTRIES: usize = 4096;
/// Calls that need no token, in a second.
const MOST_OPEN: u32 = 500;
const OPEN_OF_ONE_ADDRESS: u32 = 50;
/// Of a path that nobody serves, in characters.
const LONGEST_SHOWN: usize = 120;
/// Refusals in the log; a flood of them is in the metric.
const MOST_LOGGED_A_SECOND: u32 = 5;

pub(crate) struct Guard {
    callee: Service,
    access: Access,
    metrics: Metrics,
    logged: PerSecond,
    open: PerSecond,
    check: Option<Check>,
}

/// With its reason, as in the metric.
type Refusal = (&'static str, Status);

struct Check {
    namespace: String,
    authenticator: Authenticator,
    reviews: Api<SubjectAccessReview>,
    grants: Mutex<HashMap<Question, (Instant, bool)>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Question {
    user: User,
    verb: &'static str,
    method: String,
}

impl Guard {
    /// Without a client nobody is asked and everybody is let in: for runs with `--insecure-local` only.
    pub(crate) fn new(
        callee: Service,
        namespace: &str,
        access: Access,
        metrics: Metrics,
        client: Option<Client>,
    ) -> Self {
        let check = client.map(|client| Check {
            namespace: namespace.to_owned(),
            authenticator: Authenticator::new(client.clone(), namespace, callee.audience()),
            reviews: Api::all(client),
            grants: Mutex::default(),
        });
        let logged = PerSecond::new(MOST_LOGGED_A_SECOND);
        let open = PerSecond::new(MOST_OPEN).with_share(OPEN_OF_ONE_ADDRESS);
        Self { callee, access, metrics, logged, open, check }
    }

    /// Callers with this ServiceAccount are our services; their pods' names tell which one.
    pub(crate) fn with_shared_account(mut self, account: Option<String>) -> Self {
        if let Some(check) = &mut self.check {
            check.authenticator.shared_account = account;
        }
        self
    }

    /// `from` calls, where that is known.
    pub(crate) async fn admit(
        &self,
        path: &str,
        headers: &HeaderMap,
        from: Option<IpAddr>,
    ) -> Result<Identity, Status> {
        let Some(check) = &self.check else { return Ok(Identity::Anonymous) };
        let verdict = match self.access.rule(path) {
            _ if is_open(path) => self.admit_anybody(from),
            Some(rule) => self.judge(check, rule, headers, from).await,
            None => Err(self.unknown_method(path)),
        };
        if let Err(refusal) = &verdict {
            self.metrics.refused.get_or_create(&Reason { reason: refusal.0 }).inc();
            if self.logged.take() {
                tracing::info!(path, reason = refusal.0, message = refusal.1.message(), "call refused");
            }
        }
        verdict.map_err(|(_, status)| status)
    }

    fn admit_anybody(&self, from: Option<IpAddr>) -> Result<Identity, Refusal> {
        if self.open.take_for(from) {
            return Ok(Identity::Anonymous);
        }
        let message = format!(
            "more than {OPEN_OF_ONE_ADDRESS} calls of health or reflection a second from one address; call less often"
        );
        Err(("TOO_MANY_CALLS", errors::status(Code::ResourceExhausted, "TOO_MANY_CALLS", message, [])))
    }

    /// What the router would say, and slowed down like every other refusal.
    fn unknown_method(&self, path: &str) -> Refusal {
        let path: String = path.chars().take(LONGEST_SHOWN).collect();
        let message = format!("{} has no method {path}", self.callee);
        ("UNKNOWN_METHOD", errors::status(Code::Unimplemented, "UNKNOWN_METHOD", message, []))
    }

    async fn judge(
        &self,
        check: &Check,
        rule: &Rule,
        headers: &HeaderMap,
        from: Option<IpAddr>,
    ) -> Result<Identity, Refusal> {
        let refuse = |reason, message: String| (reason, errors::unauthenticated(reason, message));
        let audience = self.callee.audience();
        let token = bearer(headers).ok_or_else(|| {
            let how = format!(
                "no bearer token in the authorization metadata; get one with: \
                 kubectl create token <serviceaccount> --audience {audience}"
            );
            refuse("TOKEN_MISSING", how)
        })?;
        let identity = check.authenticator.identify(token, from).await.map_err(|error| match &error {
            Error::Rejected(_) => refuse(
                "TOKEN_REJECTED",
                format!("{error}; tokens for this server are made with: kubectl create token <serviceaccount> --audience {audience}"),
            ),
            Error::Unknown(source) => {
                let reason = "TOKEN_NOT_REVIEWED";
                (reason, errors::unavailable(reason, format!("{error}: {source}")))
            }
            Error::Slow | Error::Crowded => {
                ("TOKEN_NOT_REVIEWED", errors::unavailable("TOKEN_NOT_REVIEWED", error.to_string()))
            }
        })?;
        let allowed = match (&identity, rule.humans.verb()) {
            (Identity::Service(service), _) => rule.services.contains(service),
            (Identity::Human(user), Some(verb)) => self
                .granted(check, rule, verb, user)
                .await
                .map_err(|status| ("GRANT_NOT_REVIEWED", status))?,
            _ => false,
        };
        if allowed { Ok(identity) } else { Err(("NOT_ALLOWED", self.denied(rule, &identity))) }
    }

    fn denied(&self, rule: &Rule, identity: &Identity) -> Status {
        let (callee, method) = (self.callee, &rule.method);
        let resource = format!("services/{}", method.to_lowercase());
        let what = match (identity, rule.humans.verb()) {
            (Identity::Human(_), Some(verb)) => format!(
                "needs an RBAC grant: verb {verb} on {resource}, group {GRANT_GROUP}, resource name {callee}"
            ),
            _ => {
                let who: Vec<_> = rule.services.iter().map(|service| service.as_str()).collect();
                let who = if who.is_empty() { "nobody".to_owned() } else { who.join(", ") };
                format!("is for other services only: {who}")
            }
        };
        let metadata =
            [("caller", identity.to_string()), ("method", method.clone()), ("service", callee.to_string())];
        errors::permission_denied(
            "NOT_ALLOWED",
            format!("{identity} may not call {method} of {callee}: it {what}"),
            metadata,
        )
    }

    async fn granted(
        &self,
        check: &Check,
        rule: &Rule,
        verb: &'static str,
        user: &User,
    ) -> Result<bool, Status> {
        let question = Question { user: user.clone(), verb, method: rule.method.to_lowercase() };
        let now = Instant::now();
        let known = check.grants.lock().unwrap_or_else(PoisonError::into_inner).get(&question).copied();
        if let Some((_, allowed)) = known.filter(|(until, _)| now < *until) {
            return Ok(allowed);
        }
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                uid: user.uid.clone(),
                groups: Some(user.groups.clone()),
                extra: Some(user.extra.clone()),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(verb.to_owned()),
                    group: Some(GRANT_GROUP.to_owned()),
                    resource: Some("services".to_owned()),
                    subresource: Some(question.method.clone()),
                    name: Some(self.callee.as_str().to_owned()),
                    namespace: Some(check.namespace.clone()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let unknown = |why: String| {
            let user = &user.name;
            errors::unavailable("GRANT_NOT_REVIEWED", format!("ask the API server for {user}'s grant: {why}"))
        };
        let params = PostParams::default();
        let asked = tokio::time::timeout(CALL_TIMEOUT, check.reviews.create(&params, &review)).await;
        let answer = asked.map_err(|_| unknown("no answer in time".to_owned()))?;
        let allowed =
            answer.map_err(|error| unknown(error.to_string()))?.status.is_some_and(|status| status.allowed);
        let until = now + if allowed { GRANT_BELIEVED } else { REFUSAL_BELIEVED };
        let mut grants = check.grants.lock().unwrap_or_else(PoisonError::into_inner);
        if grants.len() >= MOST_ENTRIES {
            grants.clear();
        }
        grants.insert(question, (until, allowed));
        Ok(allowed)
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim())
}
