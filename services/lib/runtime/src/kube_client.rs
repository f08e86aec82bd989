//! The client of the Kubernetes API that a whole service shares: bounded rate, user agent, deadlines, and no retries of its
//! own. Every caller here acts again on its next tick, and a 429 may be a PodDisruptionBudget's answer to an eviction, not
//! an overloaded server.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use anyhow::Context as _;
use http::HeaderValue;
use kube::{Client, Config, client::ClientBuilder};
use tokio::time::{Instant, Sleep};
use tower::{Layer, Service as TowerService, util::option_layer};

use crate::{ProcessConfig, Service, kube_calls::CountCalls, kube_limits::Deadlines, shadow::Shadow};

/// From kubeconfig or the pod's ServiceAccount.
pub async fn connect(service: Service, config: &ProcessConfig) -> anyhow::Result<Client> {
    let found = Config::infer()
        .await
        .context("find the Kubernetes API: neither a kubeconfig nor a ServiceAccount works")?;
    build(service, config, found)
}

pub fn build(service: Service, config: &ProcessConfig, mut kube: Config) -> anyhow::Result<Client> {
    kube.connect_timeout = Some(Duration::from_secs(5));
    kube.default_retry = false;
    let agent = format!("karpenter-{service}/{}", env!("CARGO_PKG_VERSION"));
    kube.headers.push((http::header::USER_AGENT, HeaderValue::try_from(agent)?));
    let rate = RateLimit { per_second: config.kube_client_qps, burst: config.kube_client_burst };
    let builder = ClientBuilder::try_from(kube).context("set up the Kubernetes client")?;
    let shadow = option_layer(config.shadow_mode.then(|| Shadow::new(service, config)));
    Ok(builder.with_layer(&Deadlines).with_layer(&CountCalls).with_layer(&shadow).with_layer(&rate).build())
}

/// A token bucket: `burst` requests at once, refilled at `per_second`.
#[derive(Clone, Copy, Debug)]
struct RateLimit {
    per_second: u32,
    burst: u32,
}

impl<S> Layer<S> for RateLimit {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        let wait = Box::pin(tokio::time::sleep(Duration::ZERO));
        Limited { inner, limit: *self, tokens: f64::from(self.burst), counted_at: Instant::now(), wait }
    }
}

struct Limited<S> {
    inner: S,
    limit: RateLimit,
    tokens: f64,
    counted_at: Instant,
    wait: Pin<Box<Sleep>>,
}

impl<S> Limited<S> {
    /// `None`: a request may go out now. Otherwise when to ask again.
    fn next_turn(&mut self, now: Instant) -> Option<Instant> {
        let rate = f64::from(self.limit.per_second);
        let gained = now.duration_since(self.counted_at).as_secs_f64() * rate;
        self.tokens = (self.tokens + gained).min(f64::from(self.limit.burst));
        self.counted_at = now;
        (self.tokens < 1.0).then(|| now + Duration::from_secs_f64((1.0 - self.tokens) / rate))
    }
}

impl<S: TowerService<R>, R> TowerService<R> for Limited<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        while let Some(turn) = self.next_turn(Instant::now()) {
            self.wait.as_mut().reset(turn);
            std::task::ready!(self.wait.as_mut().poll(context));
        }
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.tokens -= 1.0;
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tower::{ServiceExt as _, service_fn};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_out_at_once_and_the_rest_at_the_steady_rate() {
        let limit = RateLimit { per_second: 10, burst: 5 };
        let mut service = limit.layer(service_fn(|()| async { Ok::<_, Infallible>(()) }));
        let began = Instant::now();
        for _ in 0..5 {
            service.ready().await.unwrap().call(()).await.unwrap();
        }
        assert!(began.elapsed() < Duration::from_millis(5));
        for _ in 0..20 {
            service.ready().await.unwrap().call(()).await.unwrap();
        }
        let took = began.elapsed();
        assert!((1.9..2.1).contains(&took.as_secs_f64()), "{took:?}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let later = Instant::now();
        for _ in 0..6 {
            service.ready().await.unwrap().call(()).await.unwrap();
        }
        assert!(later.elapsed() >= Duration::from_millis(90), "a long rest saves up one burst, no more");
    }
}
