//! Inside the SDK, where retries and bodies are seen: counts every request to AWS and every attempt at one, and refuses answers
//! that end in the middle. The SDK reads half a document of XML as a whole one, and half a listing is none.

use std::time::Instant;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::{
    AfterDeserializationInterceptorContextRef, BeforeSerializationInterceptorContextRef,
    BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
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

/// Whether the bytes are all of an answer in XML; every one of EC2, IAM and STS is in an element of such a name.
fn is_whole(body: &[u8]) -> bool {
    let body = body.trim_ascii_end();
    let last = body.iter().rposition(|byte| *byte == b'<').map_or(&[][..], |at| &body[at..]);
    last.starts_with(b"</") && last.ends_with(b"Response>")
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

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let answer = context.response();
        let is_xml = answer.headers().get("content-type").is_some_and(|kind| kind.contains("xml"));
        let is_cut = answer.body().bytes().is_some_and(|body| !is_whole(body));
        if is_xml && is_cut && answer.status().is_success() {
            return Err("the answer ends in the middle".into());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_ends_in_the_middle_is_no_answer() {
        let whole = b"<DescribeSpotPriceHistoryResponse><nextToken/></DescribeSpotPriceHistoryResponse>\n";
        assert!(is_whole(whole));
        for end in 0..whole.len() - 2 {
            assert!(!is_whole(&whole[..end]), "{}", String::from_utf8_lossy(&whole[..end]));
        }
    }
}
