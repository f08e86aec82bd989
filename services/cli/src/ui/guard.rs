//! Who may see the page: requests that were meant for it, and beyond loopback only with the token. Pure but for the token's
//! making.
//!
//! A browser tells the truth about `Host` and `Origin`: a foreign site that had its name resolved to this address, or that
//! sends requests across, is recognised by them.

use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::{Result, anyhow};
use axum::http::{HeaderMap, header};

pub(super) const SHORTEST_TOKEN: usize = 16;
const COOKIE: &str = "karpenter-page";

#[derive(Clone, Debug)]
pub(super) struct Guard {
    address: SocketAddr,
    token: Option<String>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// `Host` is not this page.
    Host,
    /// Another site's page asks.
    Origin,
    Token,
}

impl Refusal {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Host => "this page is not served under that name",
            Self::Origin => "another site may not ask this page",
            Self::Token => "open the address that the command printed: it has the token",
        }
    }
}

impl Guard {
    pub(super) fn new(address: SocketAddr, token: Option<String>) -> Self {
        Self { address, token }
    }

    /// `query` is the request's.
    pub(super) fn check(&self, headers: &HeaderMap, query: Option<&str>) -> Result<(), Refusal> {
        let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(header::HOST).ok_or(Refusal::Host)?;
        if !self.is_ours(host) {
            return Err(Refusal::Host);
        }
        let elsewhere = |origin: &str| origin != format!("http://{host}");
        if headers.contains_key(header::ORIGIN) && text(header::ORIGIN).is_none_or(elsewhere) {
            return Err(Refusal::Origin);
        }
        if let Some(site) = headers.get("sec-fetch-site")
            && !["same-origin", "none"].iter().any(|allowed| site == allowed)
            // A link to the page may be followed from anywhere.
            && headers.get("sec-fetch-mode").is_none_or(|mode| mode != "navigate")
        {
            return Err(Refusal::Origin);
        }
        let Some(token) = &self.token else { return Ok(()) };
        let in_cookie = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let in_cookie = in_cookie.flat_map(|all| all.split(';')).filter_map(|one| one.trim().split_once('='));
        let shown =
            in_cookie.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value).chain(in_query(query));
        let right = shown.fold(false, |right, each| right | same(each, token));
        if right { Ok(()) } else { Err(Refusal::Token) }
    }

    /// Where a token guards the page it may have any name; elsewhere only those of loopback.
    fn is_ours(&self, host: &str) -> bool {
        if self.token.is_some() {
            return true;
        }
        let port = self.address.port();
        [
            self.address.to_string(),
            format!("localhost:{port}"),
            format!("127.0.0.1:{port}"),
            format!("[::1]:{port}"),
        ]
        .iter()
        .any(|own| own == host)
    }

    /// What keeps the token out of the address bar: shown once in the address, then in a cookie.
    pub(super) fn cookie(&self, query: Option<&str>) -> Option<String> {
        let token = self.token.as_ref().filter(|token| in_query(query).any(|each| same(each, token)))?;
        Some(format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"))
    }
}

fn in_query(query: Option<&str>) -> impl Iterator<Item = &str> {
    query.into_iter().flat_map(|query| query.split('&')).filter_map(|pair| pair.strip_prefix("token="))
}

fn same(a: &str, b: &str) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a.as_bytes(), b.as_bytes()).is_ok()
}

/// 128 bits that nobody can guess.
pub(super) fn new_token() -> Result<String> {
    let mut bytes = [0_u8; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| anyhow!("the system gives no random bytes"))?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn on_loopback() -> Guard {
        Guard::new("127.0.0.1:4000".parse().unwrap(), None)
    }

    #[test]
    fn a_name_that_was_resolved_to_loopback_is_refused() {
        let check = |host: &str| on_loopback().check(&headers(&[("host", host)]), None);
        for own in ["127.0.0.1:4000", "localhost:4000", "[::1]:4000"] {
            assert_eq!(check(own), Ok(()), "{own}");
        }
        for other in ["evil.example:4000", "localhost:4001", "localhost", "localhost:4000.evil.example"] {
            assert_eq!(check(other), Err(Refusal::Host), "{other}");
        }
        assert_eq!(on_loopback().check(&HeaderMap::new(), None), Err(Refusal::Host));
    }

    #[test]
    fn another_site_may_link_to_the_page_and_not_ask_it() {
        let check = |more: &[(&'static str, &str)]| {
            let all: Vec<_> = [("host", "localhost:4000")].iter().chain(more).copied().collect();
            on_loopback().check(&headers(&all), None)
        };
        assert_eq!(check(&[("origin", "http://localhost:4000")]), Ok(()));
        assert_eq!(check(&[("origin", "http://evil.example")]), Err(Refusal::Origin));
        assert_eq!(check(&[("origin", "null")]), Err(Refusal::Origin));
        assert_eq!(check(&[("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")]), Ok(()));
        assert_eq!(check(&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]), Ok(()));
        assert_eq!(
            check(&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")]),
            Err(Refusal::Origin)
        );
    }

    #[test]
    fn beyond_loopback_only_the_token_opens_the_page() {
        let guard = Guard::new("10.0.0.1:80".parse().unwrap(), Some(TOKEN.to_owned()));
        let check = |cookie: Option<&str>, query: Option<&str>| {
            let mut all = headers(&[("host", "wall.example")]);
            if let Some(cookie) = cookie {
                all.insert("cookie", cookie.parse().unwrap());
            }
            guard.check(&all, query)
        };
        assert_eq!(check(None, None), Err(Refusal::Token));
        assert_eq!(check(None, Some("token=0123456789abcdeX")), Err(Refusal::Token));
        assert_eq!(check(None, Some("token=")), Err(Refusal::Token));
        assert_eq!(check(None, Some("token=0123456789abcdef")), Ok(()));
        assert_eq!(check(Some("other=1; karpenter-page=0123456789abcdef"), None), Ok(()));
        assert_eq!(check(Some("karpenter-page=0123"), None), Err(Refusal::Token));
        assert!(guard.cookie(Some("token=0123456789abcdef")).unwrap().contains("HttpOnly"));
        assert_eq!(guard.cookie(Some("token=wrong")), None);
    }

    #[test]
    fn tokens_differ() {
        let (a, b) = (new_token().unwrap(), new_token().unwrap());
        assert!(a != b && a.len() >= SHORTEST_TOKEN, "{a} {b}");
    }
}
