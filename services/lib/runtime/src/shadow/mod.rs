//! Shadow mode: a service that decides and changes nothing. A write is sent only in a form of which it is known that the API
//! server stores nothing: creations, patches and updates with `dryRun=All` in the query, deletions with `dryRun` in the options
//! of their body, for the server ignores the query of a deletion that has a body. Everything else is not sent at all.
//!
//! What a service needs to run is still stored: its Lease, its certificate, the caches of pricing-cache.

mod outcome;
mod record;
mod rpc;

use std::task::{Context, Poll};

use futures::{
    FutureExt as _,
    future::{Either, Ready, ready},
};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header, uri::PathAndQuery};
use jiff::Timestamp;
use kube::client::{Body, DynBody};
use serde_json::{Value, json};
use tower::{Layer, Service as TowerService};
use tracing::info;

use crate::{
    ProcessConfig, Service,
    api_path::{About, about},
};
pub(crate) use outcome::NodeClaim;
pub(crate) use record::Record;
pub(crate) use record::Write;

/// Would only repeat what the log says.
const UNLOGGED: &str = "events";
/// Questions that are asked by posting them.
const QUESTIONS: [(&str, &str); 2] =
    [("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")];
/// Other subresources are commands even where they are read: `exec`, `attach`, `portforward`, `proxy`.
const READABLE: [&str; 3] = ["", "status", "scale"];
/// The API server treats a dry run of these as one of the object itself.
const DRY_RUN: [&str; 2] = ["", "status"];
/// Characters of a body that are logged: enough for the requirements of a NodeClaim.
const LOGGED: usize = 2000;

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Changes nothing, or what this replica owns.
    Send,
    /// The API server validates it and stores nothing.
    DryRun,
    /// Not sent, and answered as if it had worked.
    Accept,
    /// Not sent, and answered with an error.
    Refuse,
}

/// What this replica owns, and may write in shadow mode too.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    namespace: String,
    lease: String,
    trust: String,
    keeps_caches: bool,
    record: Record,
}

impl Shadow {
    pub(crate) fn new(service: Service, config: &ProcessConfig) -> Self {
        Self {
            namespace: config.namespace.clone(),
            lease: service.lease(&config.leader_election_name),
            trust: service.trust_config_map(),
            keeps_caches: service == Service::PricingCache,
            record: config.shadow_record.clone(),
        }
    }

    fn owns(&self, about: &About<'_>, name: &str) -> bool {
        about.namespace == self.namespace
            && about.subresource.is_empty()
            && match (about.group, about.resource) {
                ("coordination.k8s.io", "leases") => name == self.lease,
                ("", "configmaps") => {
                    name == self.trust || self.keeps_caches && name.starts_with("karpenter-")
                }
                _ => false,
            }
    }

    fn verdict(&self, method: &Method, about: &About<'_>, name: &str) -> Verdict {
        let creates = about.name.is_empty() && about.subresource.is_empty();
        match *method {
            Method::GET | Method::HEAD | Method::OPTIONS if READABLE.contains(&about.subresource) => {
                Verdict::Send
            }
            Method::POST if QUESTIONS.contains(&(about.group, about.resource)) && creates => Verdict::Send,
            Method::POST | Method::PUT | Method::PATCH if self.owns(about, name) => Verdict::Send,
            Method::POST if creates && !about.resource.is_empty() => Verdict::DryRun,
            Method::POST if (about.resource, about.subresource) == ("pods", "eviction") => Verdict::Accept,
            Method::PUT | Method::PATCH if !about.name.is_empty() && DRY_RUN.contains(&about.subresource) => {
                Verdict::DryRun
            }
            Method::DELETE if !about.name.is_empty() && about.subresource.is_empty() => Verdict::DryRun,
            _ => Verdict::Refuse,
        }
    }

    /// The request as it may be sent, or the answer to it: code and message.
    fn restrain(&self, request: Request<Body>) -> Result<Request<Body>, (StatusCode, String)> {
        let (mut parts, body) = request.into_parts();
        // Every body of this client is one piece of memory, so that it is here at once.
        let bytes = body.collect_bytes().now_or_never().and_then(Result::ok);
        let sent: Option<Value> = bytes.as_ref().and_then(|bytes| match bytes.is_empty() {
            true => Some(json!({})),
            false => serde_json::from_slice(bytes).ok(),
        });
        let path = parts.uri.path().to_owned();
        let about = about(&path);
        let name = match about.name {
            "" => sent.as_ref().map(name_in).unwrap_or_default(),
            name => name.to_owned(),
        };
        let verdict = match (&bytes, self.verdict(&parts.method, &about, &name)) {
            (None, _) => Verdict::Refuse,
            (_, verdict) => verdict,
        };
        if verdict != Verdict::Send && about.resource != UNLOGGED {
            self.tell(&parts.method, &about, &name, sent.as_ref().unwrap_or(&Value::Null));
        }
        let bytes = bytes.unwrap_or_default();
        let message = format!("shadow mode: {} {path} was not sent", parts.method);
        match verdict {
            Verdict::Send => Ok(Request::from_parts(parts, Body::from(bytes))),
            Verdict::DryRun if parts.method == Method::DELETE => match sent {
                Some(Value::Object(mut options)) => {
                    options.insert("dryRun".to_owned(), json!(["All"]));
                    parts.headers.remove(header::CONTENT_LENGTH);
                    let json = HeaderValue::from_static("application/json");
                    parts.headers.insert(header::CONTENT_TYPE, json);
                    Ok(Request::from_parts(
                        parts,
                        Body::from(Value::Object(options).to_string().into_bytes()),
                    ))
                }
                _ => Err((StatusCode::FORBIDDEN, message)),
            },
            Verdict::DryRun => {
                parts.uri = as_dry_run(&parts.uri);
                Ok(Request::from_parts(parts, Body::from(bytes)))
            }
            Verdict::Accept => Err((StatusCode::CREATED, message)),
            Verdict::Refuse => Err((StatusCode::FORBIDDEN, message)),
        }
    }

    /// For people who compare a shadow with the controller that acts: what would be done to which object, and how.
    fn tell(&self, method: &Method, about: &About<'_>, name: &str, sent: &Value) {
        let action = match (method, about.subresource) {
            (_, "eviction") => "evict",
            (&Method::POST, _) => "create",
            (&Method::DELETE, _) => "delete",
            (&Method::PATCH, _) => "patch",
            (&Method::PUT, _) => "update",
            (other, _) => other.as_str(),
        };
        let (kind, subresource, namespace) = (about.resource, about.subresource, about.namespace);
        let change: String = sent.to_string().chars().take(LOGGED).collect();
        info!(
            action,
            kind, subresource, namespace, name, change, "shadow mode: would {action} {kind} {name}"
        );
        let write = Write {
            action: action.to_owned(),
            group: about.group.to_owned(),
            resource: kind.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            change: String::new(),
        };
        self.record.kept().note(write, sent, Timestamp::now());
    }
}

fn name_in(object: &Value) -> String {
    let metadata = &object["metadata"];
    let given = metadata["name"].as_str().or_else(|| metadata["generateName"].as_str());
    given.unwrap_or_default().to_owned()
}

fn as_dry_run(uri: &Uri) -> Uri {
    let query = uri.query().unwrap_or_default();
    let others = query.split('&').filter(|part| !part.is_empty() && !part.starts_with("dryRun="));
    let query: Vec<&str> = others.chain(["dryRun=All"]).collect();
    let text = format!("{}?{}", uri.path(), query.join("&"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query =
        Some(PathAndQuery::try_from(text).expect("a valid address stays one with another parameter"));
    Uri::from_parts(parts).expect("only the query changed")
}

fn answer(code: StatusCode, message: &str) -> Response<Box<DynBody>> {
    let (status, reason) = match code.is_success() {
        true => ("Success", ""),
        false => ("Failure", "Forbidden"),
    };
    let text = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status, "reason": reason, "code": code.as_u16(),
        "message": message,
    });
    let body = http_body_util::BodyExt::map_err(Body::from(text.to_string().into_bytes()), Into::into);
    let mut response = Response::new(Box::new(body) as Box<DynBody>);
    *response.status_mut() = code;
    response
}

impl<S> Layer<S> for Shadow {
    type Service = Shadowed<S>;

    fn layer(&self, inner: S) -> Shadowed<S> {
        Shadowed { inner, shadow: self.clone() }
    }
}

pub(crate) struct Shadowed<S> {
    inner: S,
    shadow: Shadow,
}

impl<S> TowerService<Request<Body>> for Shadowed<S>
where
    S: TowerService<Request<Body>, Response = Response<Box<DynBody>>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<S::Response, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self.shadow.restrain(request) {
            Ok(request) => Either::Left(self.inner.call(request)),
            Err((code, message)) => Either::Right(ready(Ok(answer(code, &message)))),
        }
    }
}

#[cfg(test)]
mod tests;
