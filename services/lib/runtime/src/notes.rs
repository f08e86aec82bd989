//! Tells people about a replica's notes where they look first: an Event about its Pod when a note begins, when its text changes,
//! and when it ends. `/readyz` shows the same notes at any time. It is not for conditions of objects that users write.

use k8s_openapi::api::core::v1::ObjectReference;
use tokio_util::sync::CancellationToken;

use crate::Readiness;
use crate::events::{Event, Recorder};
use crate::readiness::Notes;

/// Runs until `stop`.
pub(crate) async fn tell(
    readiness: Readiness,
    about: ObjectReference,
    events: Recorder,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut seen = readiness.watch_notes();
    let mut told = Notes::new();
    loop {
        let now = seen.borrow_and_update().clone();
        for event in news(&told, &now, &about) {
            events.publish(event);
        }
        told = now;
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            Ok(()) = seen.changed() => {}
        }
    }
}

/// What became known between two looks.
fn news(before: &Notes, now: &Notes, about: &ObjectReference) -> Vec<Event> {
    let begun = now.iter().filter(|(name, text)| before.get(*name) != Some(*text));
    let begun = begun.map(|(name, text)| {
        let message = format!("{name}: {text}");
        Event::warning(about.clone(), "Degraded", message).distinct([name.to_string(), text.clone()])
    });
    let ended = before.keys().filter(|name| !now.contains_key(*name)).map(|name| {
        let message = format!("{name}: works again");
        Event::normal(about.clone(), "Recovered", message).distinct([name.to_string()])
    });
    begun.chain(ended).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::events::Severity;

    fn notes(all: &[(&str, &str)]) -> Notes {
        all.iter().map(|(name, text)| (Arc::from(*name), (*text).to_owned())).collect()
    }

    fn told(before: &[(&str, &str)], now: &[(&str, &str)]) -> Vec<(Severity, String)> {
        let events = news(&notes(before), &notes(now), &crate::events::pod("kube-system", "a-0", ""));
        events.into_iter().map(|event| (event.severity, event.message)).collect()
    }

    #[test]
    fn a_note_is_told_when_it_begins_changes_and_ends_and_not_in_between() {
        let missing = [("queue", "there is no such queue")];
        assert_eq!(told(&[], &missing), [(Severity::Warning, "queue: there is no such queue".to_owned())]);
        assert_eq!(told(&missing, &missing), []);
        let forbidden = [("queue", "this role may not read it")];
        assert_eq!(
            told(&missing, &forbidden),
            [(Severity::Warning, "queue: this role may not read it".to_owned())]
        );
        assert_eq!(told(&forbidden, &[]), [(Severity::Normal, "queue: works again".to_owned())]);
    }
}
