//! The `grpc-timeout` header: at most eight digits and a unit. A call without one still gets a deadline from whoever
//! handles it.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};

const HEADER: &str = "grpc-timeout";

pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(HEADER)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 3600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

/// Returns what was set: the header knows no parts of a millisecond.
pub(crate) fn set(headers: &mut HeaderMap, deadline: Duration) -> Duration {
    let millis = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX).max(1);
    // Eight digits of milliseconds are 27 hours; whoever wants more gets whole seconds.
    let (text, set) = if millis < 100_000_000 {
        (format!("{millis}m"), Duration::from_millis(millis))
    } else {
        let seconds = deadline.as_secs().min(99_999_999);
        (format!("{seconds}S"), Duration::from_secs(seconds))
    };
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(HEADER, value);
    }
    set
}

/// A server gives up a little before its caller does, so that the answer still finds somebody listening.
pub(crate) fn for_server(asked: Option<Duration>, longest: Duration) -> Duration {
    match asked {
        Some(asked) if asked < longest => asked - (asked / 20).min(Duration::from_millis(5)),
        _ => longest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Duration> {
        from_headers(&HeaderMap::from_iter([(HEADER.parse().unwrap(), text.parse().unwrap())]))
    }

    #[test]
    fn every_unit_is_read_and_nonsense_is_no_deadline() {
        assert_eq!(read("2S"), Some(Duration::from_secs(2)));
        assert_eq!(read("150m"), Some(Duration::from_millis(150)));
        assert_eq!(read("1H"), Some(Duration::from_secs(3600)));
        assert_eq!(read("3M"), Some(Duration::from_secs(180)));
        assert_eq!(read("7u"), Some(Duration::from_micros(7)));
        for text in ["", "S", "-1S", "1", "123456789S", "1s", "1.5S", "1é"] {
            assert_eq!(text.parse::<HeaderValue>().ok().and_then(|_| read(text)), None, "{text}");
        }
    }

    #[test]
    fn what_is_set_is_what_is_read() {
        for deadline in [1, 250, 5_000, 99_999_999, 200_000_000].map(Duration::from_millis) {
            let mut headers = HeaderMap::new();
            assert_eq!(set(&mut headers, deadline), deadline);
            assert_eq!(from_headers(&headers), Some(deadline));
        }
        let mut headers = HeaderMap::new();
        let rounded = set(&mut headers, Duration::from_micros(1_999));
        assert_eq!((rounded, from_headers(&headers)), (Duration::from_millis(1), Some(rounded)));
    }
}
