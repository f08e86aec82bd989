//! SDK errors into [`CloudError`].

use std::error::Error;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use cloud::error::{CloudError, ErrorKind, Fault};

/// In bytes.
const LONGEST_MESSAGE: usize = 500;
const DRY_RUN_SUCCEEDED: &str = "DryRunOperation";

pub(crate) fn cloud_error<E>(operation: &'static str, error: &SdkError<E, HttpResponse>) -> CloudError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let fault = match error.raw_response().map(|answer| answer.status().as_u16()) {
        Some(500..) => Fault::Server,
        Some(_) => Fault::Client,
        None => Fault::None,
    };
    let service = match error {
        SdkError::ServiceError(context) => Some(context.err().meta()),
        _ => None,
    };
    let code = service.and_then(|meta| meta.code()).unwrap_or_default();
    let message = match service.and_then(|meta| meta.message()) {
        Some(message) => message.to_owned(),
        None => told(error),
    };
    let mut converted = CloudError::new(operation, code, &message, fault);
    // An answer of success that cannot be read is not the caller's mistake.
    let succeeded = error.raw_response().is_some_and(|answer| answer.status().is_success());
    if succeeded || (matches!(error, SdkError::ResponseError(_)) && fault == Fault::Client) {
        converted.kind = ErrorKind::Malformed;
    }
    converted.request_id = service.and_then(|meta| meta.extra("aws_request_id")).map(str::to_owned);
    converted
}

/// The error and its causes in one line. Not what they hold: that may be a whole answer.
fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text.truncate(text.floor_char_boundary(LONGEST_MESSAGE));
    text
}

/// EC2 answers a dry run that would have succeeded with an error of its own.
pub(crate) fn dry_run<T>(result: Result<T, CloudError>) -> Result<(), CloudError> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if error.code == DRY_RUN_SUCCEEDED => Ok(()),
        Err(error) => Err(error),
    }
}
