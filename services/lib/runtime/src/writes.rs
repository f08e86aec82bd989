//! What can become of one call to the Kubernetes API, for services whose writes are conditional and may be repeated: done, somebody
//! else was faster, gone, no answer. What to write is theirs.

use std::time::Duration;

/// For one answer of the API server; whoever asked looks at the object again afterwards.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else changed the object meanwhile: look again.
    #[error("it changed meanwhile")]
    Conflict,
    /// It, or the one of that uid, does not exist any more.
    #[error("it is gone")]
    Gone,
    #[error("the API server did not answer within {} s", CALL_TIMEOUT.as_secs())]
    Timeout,
    #[error(transparent)]
    Api(kube::Error),
}

impl Error {
    /// No answer, or one that asks for less.
    pub fn is_overload(&self) -> bool {
        match self {
            Self::Conflict | Self::Gone => false,
            Self::Timeout => true,
            Self::Api(kube::Error::Api(status)) => matches!(status.code, 429 | 500..=599),
            Self::Api(_) => true,
        }
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if status.code == 404 => Self::Gone,
            kube::Error::Api(status) if status.code == 409 => Self::Conflict,
            _ => Self::Api(error),
        }
    }
}

/// Waits for the answer as long as that makes sense.
pub async fn timely<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Error::Timeout),
    }
}
