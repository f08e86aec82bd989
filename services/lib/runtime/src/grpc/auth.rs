//! Who is calling: a bearer token, checked by the API server (TokenReview) and remembered for a short time.
//!
//! The cache is keyed by a hash of the token, so that a dump of memory or a log line cannot leak one from here.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use aws_lc_rs::digest;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::{Api, Client, api::PostParams};
use tokio::{sync::Semaphore, time::Instant};

use crate::Service;

/// The audience of tokens shown to our servers. A token made for the API server is refused.
pub const AUDIENCE: &str = "rpc.karpenter.sh";

/// How long a good token is believed without asking again: how late a revocation may be noticed.
const BELIEVED: Duration = Duration::from_secs(60);
/// How long a bad one is refused without asking again.
const DISBELIEVED: Duration = Duration::from_secs(5);
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// More tokens than this within a minute is no use that we know of; the cache starts over.
const MOST_ENTRIES: usize = 4096;
/// Strangers with ever new tokens must not take the API server's attention from everybody else.
const MOST_REVIEWS_AT_ONCE: usize = 16;

/// The caller of an RPC, found in the request's extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    Service(Service),
    Human {
        user: String,
        groups: Vec<String>,
    },
    /// Authentication is switched off, or the method needs none.
    Anonymous,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(service) => write!(f, "service {service}"),
            Self::Human { user, .. } => write!(f, "user {user}"),
            Self::Anonymous => f.write_str("anonymous"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the API server does not accept the token: {0}")]
    Rejected(String),
    #[error("the API server could not be asked about the token")]
    Unknown(#[source] Box<kube::Error>),
    #[error("the API server did not answer about the token in time")]
    Slow,
}

type Verdict = Result<Identity, String>;

pub(crate) struct Authenticator {
    reviews: Api<TokenReview>,
    namespace: String,
    known: Mutex<HashMap<[u8; 32], (Instant, Verdict)>>,
    asking: Semaphore,
}

impl Authenticator {
    /// `namespace` is where our services' ServiceAccounts are; accounts of the same name elsewhere are just users.
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        Self {
            reviews: Api::all(client),
            namespace: namespace.to_owned(),
            known: Mutex::default(),
            asking: Semaphore::new(MOST_REVIEWS_AT_ONCE),
        }
    }

    pub(crate) async fn identify(&self, token: &str) -> Result<Identity, Error> {
        let key = hash(token);
        if let Some(verdict) = self.remembered(&key) {
            return verdict.map_err(Error::Rejected);
        }
        let verdict =
            tokio::time::timeout(CALL_TIMEOUT, self.ask(token)).await.map_err(|_| Error::Slow)??;
        let believed = if verdict.is_ok() { remaining(token).min(BELIEVED) } else { DISBELIEVED };
        self.remember(key, Instant::now() + believed, verdict.clone());
        verdict.map_err(Error::Rejected)
    }

    async fn ask(&self, token: &str) -> Result<Verdict, Error> {
        let _turn = self.asking.acquire().await.expect("the semaphore is never closed");
        let spec =
            TokenReviewSpec { token: Some(token.to_owned()), audiences: Some(vec![AUDIENCE.to_owned()]) };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = self.reviews.create(&PostParams::default(), &review).await;
        let status = answer.map_err(|error| Error::Unknown(Box::new(error)))?.status.unwrap_or_default();
        if status.authenticated != Some(true) {
            return Ok(Err(status
                .error
                .unwrap_or_else(|| "it is unknown or has another audience".to_owned())));
        }
        // An authenticator that knows nothing of audiences answers for the API server's own; that is not ours.
        if !status.audiences.unwrap_or_default().iter().any(|audience| audience == AUDIENCE) {
            return Ok(Err(format!("its audience is not {AUDIENCE}")));
        }
        Ok(Ok(self.identity(status.user.unwrap_or_default())))
    }

    fn identity(&self, user: UserInfo) -> Identity {
        let name = user.username.unwrap_or_default();
        let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
        match account {
            Some((namespace, account)) if namespace == self.namespace => {
                Service::from_service_account(account)
            }
            _ => None,
        }
        .map_or_else(
            || Identity::Human { user: name.clone(), groups: user.groups.unwrap_or_default() },
            Identity::Service,
        )
    }

    fn remembered(&self, key: &[u8; 32]) -> Option<Verdict> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|(until, _)| Instant::now() < *until).map(|(_, verdict)| verdict.clone())
    }

    fn remember(&self, key: [u8; 32], until: Instant, verdict: Verdict) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_ENTRIES {
            let now = Instant::now();
            known.retain(|_, (until, _)| now < *until);
            if known.len() >= MOST_ENTRIES {
                known.clear();
            }
        }
        known.insert(key, (until, verdict));
    }
}

fn hash(token: &str) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Until the token's own end. Read without checking a signature: the API server has just done that. A token that is no JWT
/// has no end that we could know.
fn remaining(token: &str) -> Duration {
    let expiry = || {
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        serde_json::from_slice::<serde_json::Value>(&claims).ok()?.get("exp")?.as_i64()
    };
    match expiry() {
        Some(at) => Duration::from_secs(u64::try_from(at - jiff::Timestamp::now().as_second()).unwrap_or(0)),
        None => Duration::MAX,
    }
}
