//! A scripted API server, and an actor that talks to it and to nobody else.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use clap::Parser as _;
use kube::Client;
use kube::client::Body;
use runtime::{Leadership, Service, ServiceConfig as _, Shell};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::Config;
use crate::actor::{Actor, Disruptions, Options, Parts};
use crate::cluster::Fact;
use crate::events::Events;
use crate::metrics::Metrics;
use crate::probe::Probes;
use crate::writes::Writes;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) body: Value,
}

/// What was asked so far, in its order.
pub(crate) type Log = Arc<Mutex<Vec<Asked>>>;

pub(crate) fn api_server(script: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static) -> (Client, Log) {
    let (script, log) = (Arc::new(script), Log::default());
    let written = Arc::clone(&log);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (script, log) = (Arc::clone(&script), Arc::clone(&written));
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await.unwrap_or_default();
            let asked = Asked {
                method: parts.method.to_string(),
                target: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
                body: serde_json::from_slice(&bytes).unwrap_or_default(),
            };
            let (code, answer) = script(&asked);
            log.lock().unwrap().push(asked);
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, Infallible>(http::Response::builder().status(code).body(answer).unwrap())
        }
    });
    (Client::new(service, "kube-system"), log)
}

pub(crate) fn failure(code: u16, message: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
        "reason": "Test", "code": code});
    (code, status)
}

/// Leads from the first look on. No provisioner answers it.
pub(crate) fn actor(client: Client, flags: &[&str]) -> Actor {
    whole(client, flags).0
}

/// The same with who asks it and what feeds it.
pub(crate) fn whole(client: Client, flags: &[&str]) -> (Actor, Disruptions, mpsc::Sender<Fact>) {
    let always = ["karpenter-disruption", "--cluster-name=test", "--insecure-local"];
    let config = Config::try_parse_from(always.iter().chain(flags)).unwrap();
    let mut shell = Shell::with_client(Service::Disruption, config.process().clone(), client.clone());
    let metrics = Metrics::register(&shell.metrics);
    let parts = Parts {
        writes: Writes::new(client),
        events: Events::new(shell.events()),
        probes: Probes::new(shell.peers(Service::Provisioner).unwrap(), metrics.clone()),
        leadership: Leadership::always(&shell.stop()),
        metrics,
    };
    Actor::new(Options::of(&config), parts)
}
