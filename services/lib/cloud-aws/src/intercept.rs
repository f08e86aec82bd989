//! Counts every request to AWS and every attempt at one, from inside the SDK, where retries are seen.

use std::time::Instant;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeSerializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
    FinalizerInterceptorContextRef,
};
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::{ConfigBag, Storable, StoreReplace};

use crate::calls::{CallMetrics, Ended};

#[derive(Debug)]
pub(crate) struct Counting(pub(crate) CallMetrics);

/// Kept by the SDK with the request.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    began: Instant,
    attempt_began: Instant,
    attempts: u32,
}

impl Storable for UnderWay {
    type Storer = StoreReplace<Self>;
}

impl Counting {
    fn ended(
        context: &FinalizerInterceptorContextRef<'_>,
        cfg: &ConfigBag,
        count: impl FnOnce(Ended<'_>, UnderWay),
    ) {
        let (Some(named), Some(under_way)) = (cfg.load::<Metadata>(), cfg.load::<UnderWay>()) else { return };
        let ended = Ended {
            service: named.service(),
            action: named.name(),
            status: context.response().map(|answer| answer.status().as_u16()),
            took: under_way.began.elapsed(),
        };
        count(ended, *under_way);
    }
}

impl Intercept for Counting {
    fn name(&self) -> &'static str {
        "Counting"
    }

    fn read_before_execution(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let now = Instant::now();
        cfg.interceptor_state().store_put(UnderWay { began: now, attempt_began: now, attempts: 0 });
        Ok(())
    }

    fn read_before_attempt(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(under_way) = cfg.load::<UnderWay>().copied() {
            let attempts = under_way.attempts + 1;
            let next = UnderWay { attempt_began: Instant::now(), attempts, ..under_way };
            cfg.interceptor_state().store_put(next);
        }
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        Self::ended(context, cfg, |ended, under_way| {
            self.0.attempted(&Ended { took: under_way.attempt_began.elapsed(), ..ended });
        });
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        Self::ended(context, cfg, |ended, under_way| self.0.requested(&ended, under_way.attempts));
        Ok(())
    }
}
