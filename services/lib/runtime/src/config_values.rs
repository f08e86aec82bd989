//! Parsers of single flag values, in the grammars that Karpenter's users know: Go durations, Go booleans.

use std::time::Duration;

use tracing_subscriber::EnvFilter;

/// Go's duration grammar (`1m30s`, `0`), without its sign: no setting of ours can be negative.
pub fn go_duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    // kube's parser takes nothing at all for zero, Go's does not.
    if text.is_empty() {
        return Err("empty, expected a duration such as 1m30s".to_owned());
    }
    let parsed: kube::core::Duration = text.parse().map_err(|error| format!("{error}, e.g. 1m30s"))?;
    if parsed.is_negative() {
        return Err("a duration below zero has no meaning here".to_owned());
    }
    Ok(parsed.into())
}

pub(crate) fn at_least_a_minute(text: &str) -> Result<Duration, String> {
    let parsed = go_duration(text)?;
    if parsed < Duration::from_secs(60) { Err("must be at least 1m".to_owned()) } else { Ok(parsed) }
}

/// What Go's `strconv.ParseBool` takes.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

pub fn non_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        Ok(_) => Err("must be a number of at least 0".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A level, or a filter with at least one `target=level`. A lone unknown word is refused: the filter grammar would take it
/// for a target and silence everything.
pub fn log_filter(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "off"];
    for part in text.split(',').map(str::trim) {
        if !part.contains('=') && !LEVELS.contains(&part.to_ascii_lowercase().as_str()) {
            return Err(format!("{part:?} is neither debug, info, warn, error nor target=level"));
        }
    }
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(crate) fn absolute_url(text: &str) -> Result<String, String> {
    match text.parse::<http::Uri>() {
        Ok(uri) if uri.scheme().is_some() && uri.host().is_some() => Ok(text.to_owned()),
        Ok(_) => Err("not an absolute URL, e.g. https://api.example.com".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_follow_gos_grammar() {
        let ok =
            [("10s", 10_000), ("1m30s", 90_000), ("1.5h", 5_400_000), ("100ms", 100), ("0", 0), ("0s", 0)];
        for (text, millis) in ok {
            assert_eq!(go_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "1d", "-1s", "s", "ten"] {
            assert!(go_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_misspelt_level_is_refused_and_a_filter_is_taken() {
        for text in ["info", "DEBUG", "warn,provisioner=debug", "runtime::lease=trace"] {
            assert!(log_filter(text).is_ok(), "{text}");
        }
        for text in ["inof", "info,debgu", "a=loud", ""] {
            assert!(log_filter(text).is_err(), "{text}");
        }
    }
}
