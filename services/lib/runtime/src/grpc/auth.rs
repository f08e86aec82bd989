//! Who is calling: a bearer token, checked by the API server (TokenReview) and remembered for a short time.
//!
//! Strangers must not cut off callers that are known. What cannot be a token for this service is refused without asking; reviews
//! of tokens never seen before are limited in rate and number; a known token is reviewed again before it is forgotten, outside
//! of that limit.
//!
//! The cache is keyed by a hash of the token, so that a dump of memory or a log line cannot leak one from here.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use aws_lc_rs::digest;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::{Api, Client, api::PostParams};
use tokio::{sync::Semaphore, time::Instant};

use super::rate::PerSecond;
use crate::Service;

/// How long a good token is believed without asking again: how late a revocation may be noticed.
const BELIEVED: Duration = Duration::from_secs(60);
/// And no shorter than this, though the token seems to have expired: the API server has just accepted it, so this machine's clock
/// is ahead. A review for each call would leave none for others.
const BELIEVED_AT_LEAST: Duration = Duration::from_secs(5);
/// From this age on, one call in [`RENEWAL_PAUSE`] has its token reviewed again. While that fails, the token is believed as
/// long as any other.
const RENEWED_AFTER: Duration = Duration::from_secs(30);
const RENEWAL_PAUSE: Duration = Duration::from_secs(5);
/// How long a bad one is refused without asking again.
const DISBELIEVED: Duration = Duration::from_secs(5);
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// More tokens than this within a minute is no use that we know of; the cache starts over.
const MOST_ENTRIES: usize = 4096;
/// Reviews of tokens never seen before, at once and a second.
const MOST_REVIEWS_AT_ONCE: usize = 16;
const MOST_REVIEWS_A_SECOND: u32 = 50;
/// Of those, for calls of one address: one pod leaves new callers their reviews.
const REVIEWS_OF_ONE_ADDRESS: u32 = 20;
/// A token that expired longer ago than this, in seconds, is refused without asking. Not sooner: this machine's clock may be wrong.
const CLOCK_SKEW: i64 = 15 * 60;

/// The caller of an RPC, found in the request's extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    Service(Service),
    Human(User),
    /// Authentication is switched off, or the method needs none.
    Anonymous,
}

/// A caller that is none of our services: all that a TokenReview says of it, since authorizers may decide by any of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    pub name: String,
    pub uid: Option<String>,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl From<UserInfo> for User {
    fn from(info: UserInfo) -> Self {
        Self {
            name: info.username.unwrap_or_default(),
            uid: info.uid,
            groups: info.groups.unwrap_or_default(),
            extra: info.extra.unwrap_or_default(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(service) => write!(f, "service {service}"),
            Self::Human(user) => write!(f, "user {}", user.name),
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
    #[error("too many unknown tokens are shown to this server")]
    Crowded,
}

/// Where a review names the pod that a token is bound to.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";

type Verdict = Result<Identity, String>;

pub(crate) struct Authenticator {
    reviews: Api<TokenReview>,
    audience: String,
    namespace: String,
    /// The ServiceAccount that all our services run as, if they share one.
    pub(crate) shared_account: Option<String>,
    known: Mutex<HashMap<[u8; 32], Known>>,
    asking: Semaphore,
    rate: PerSecond,
}

struct Known {
    until: Instant,
    renew_at: Instant,
    verdict: Verdict,
}

impl Authenticator {
    /// `namespace` is where our services' ServiceAccounts are; accounts of the same name elsewhere are just users.
    pub(crate) fn new(client: Client, namespace: &str, audience: String) -> Self {
        Self {
            reviews: Api::all(client),
            audience,
            namespace: namespace.to_owned(),
            shared_account: None,
            known: Mutex::default(),
            asking: Semaphore::new(MOST_REVIEWS_AT_ONCE),
            rate: PerSecond::new(MOST_REVIEWS_A_SECOND).with_share(REVIEWS_OF_ONE_ADDRESS),
        }
    }

    /// `from` shows the token, where that is known.
    pub(crate) async fn identify(&self, token: &str, from: Option<IpAddr>) -> Result<Identity, Error> {
        let key = hash(token);
        let verdict = match self.remembered(&key) {
            Some((verdict, false)) => verdict,
            Some((before, true)) => match self.timely(self.ask(token)).await {
                Ok(verdict) => self.remember(key, token, verdict),
                Err(_) => before,
            },
            None => {
                plausible(token, &self.audience).map_err(Error::Rejected)?;
                let verdict = self.timely(self.ask_about_new(token, from)).await?;
                self.remember(key, token, verdict)
            }
        };
        verdict.map_err(Error::Rejected)
    }

    async fn timely(&self, ask: impl Future<Output = Result<Verdict, Error>>) -> Result<Verdict, Error> {
        tokio::time::timeout(CALL_TIMEOUT, ask).await.map_err(|_| Error::Slow)?
    }

    async fn ask_about_new(&self, token: &str, from: Option<IpAddr>) -> Result<Verdict, Error> {
        if !self.rate.take_for(from) {
            return Err(Error::Crowded);
        }
        let _turn = self.asking.acquire().await.expect("the semaphore is never closed");
        self.ask(token).await
    }

    async fn ask(&self, token: &str) -> Result<Verdict, Error> {
        let spec =
            TokenReviewSpec { token: Some(token.to_owned()), audiences: Some(vec![self.audience.clone()]) };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = self.reviews.create(&PostParams::default(), &review).await;
        let status = answer.map_err(|error| Error::Unknown(Box::new(error)))?.status.unwrap_or_default();
        if status.authenticated != Some(true) {
            return Ok(Err(status
                .error
                .unwrap_or_else(|| "it is unknown or has another audience".to_owned())));
        }
        // An authenticator that knows nothing of audiences answers for the API server's own; that is not ours.
        if !status.audiences.unwrap_or_default().contains(&self.audience) {
            return Ok(Err(format!("its audience is not {}", self.audience)));
        }
        Ok(Ok(self.identity(status.user.unwrap_or_default().into())))
    }

    fn identity(&self, user: User) -> Identity {
        let account = user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
        let service = match account {
            Some((namespace, account)) if namespace == self.namespace => {
                let pod = user.extra.get(POD_NAME).and_then(|names| names.first());
                Service::of_caller(account, pod.map(String::as_str), self.shared_account.as_deref())
            }
            _ => None,
        };
        service.map_or_else(|| Identity::Human(user), Identity::Service)
    }

    /// The verdict, and whether this caller is to have it renewed.
    fn remembered(&self, key: &[u8; 32]) -> Option<(Verdict, bool)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let entry = known.get_mut(key).filter(|entry| now < entry.until)?;
        let renews = entry.verdict.is_ok() && entry.renew_at <= now;
        if renews {
            entry.renew_at = now + RENEWAL_PAUSE;
        }
        Some((entry.verdict.clone(), renews))
    }

    fn remember(&self, key: [u8; 32], token: &str, verdict: Verdict) -> Verdict {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if known.len() >= MOST_ENTRIES {
            known.retain(|_, entry| now < entry.until);
        }
        if known.len() >= MOST_ENTRIES {
            // Good tokens are few and stay: to have one forgotten must not be in the hands of strangers.
            known.retain(|_, entry| entry.verdict.is_ok());
        }
        let believed =
            if verdict.is_ok() { remaining(token).clamp(BELIEVED_AT_LEAST, BELIEVED) } else { DISBELIEVED };
        let entry = Known { until: now + believed, renew_at: now + RENEWED_AFTER, verdict: verdict.clone() };
        known.insert(key, entry);
        verdict
    }
}

fn hash(token: &str) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// What a token says of itself. Read without checking its signature: that is for the API server to do.
fn claims(token: &str) -> Option<serde_json::Value> {
    let mut parts = token.split('.');
    let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}

/// Whether it is worth asking the API server about this token.
fn plausible(token: &str, audience: &str) -> Result<(), String> {
    let claims = claims(token).ok_or("it is no ServiceAccount token")?;
    let is_ours = match &claims["aud"] {
        serde_json::Value::String(only) => only == audience,
        serde_json::Value::Array(all) => all.iter().any(|one| one == audience),
        _ => false,
    };
    if !is_ours {
        return Err(format!("its audience is not {audience}"));
    }
    let now = jiff::Timestamp::now().as_second();
    match claims["exp"].as_i64() {
        Some(at) if at.saturating_add(CLOCK_SKEW) < now => Err("it has expired".to_owned()),
        Some(_) => Ok(()),
        None => Err("it does not expire".to_owned()),
    }
}

fn remaining(token: &str) -> Duration {
    let expiry = claims(token).and_then(|claims| claims["exp"].as_i64()).unwrap_or_default();
    Duration::from_secs(u64::try_from(expiry.saturating_sub(jiff::Timestamp::now().as_second())).unwrap_or(0))
}
