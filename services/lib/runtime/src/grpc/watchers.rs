//! Streams that callers hold open for long: how many there may be, and those that only the leader answers.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tokio::sync::Semaphore;
use tonic::{Code, Status};

use super::errors;
use crate::Leadership;

/// What a handler returns for a method that streams.
type Answers<T> = BoxStream<'static, Result<T, Status>>;

/// The places of one method's streams. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Watchers {
    places: Arc<Semaphore>,
    most: usize,
}

impl Watchers {
    pub fn new(most: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(most)), most }
    }

    /// Takes a place, which is given back when the stream ends or its reader leaves; refuses when all are taken.
    pub fn admit<T: 'static>(&self, stream: Answers<T>) -> Result<Answers<T>, Status> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let message = format!(
                "{} watch this replica already, which is as many as may; watch another replica or try again later",
                self.most
            );
            errors::status(Code::ResourceExhausted, "TOO_MANY_WATCHERS", message, [])
        })?;
        let holding = stream.map(move |answer| {
            let _ = &place;
            answer
        });
        Ok(holding.boxed())
    }
}

/// Refuses where this replica does not lead, and ends with the same refusal when it ceases to.
pub fn while_leading<T: Send + 'static>(
    leadership: &Leadership,
    stream: Answers<T>,
) -> Result<Answers<T>, Status> {
    let refusal = |message: &str| errors::status(Code::FailedPrecondition, "NOT_LEADER", message, []);
    let lost = leadership
        .until_lost()
        .ok_or_else(|| refusal("this replica does not lead; ask the others which does"))?;
    let ended = lost.clone();
    let end = async move {
        ended.is_cancelled().then(|| Err(refusal("this replica leads no more; ask the others which does")))
    };
    let end = stream::once(end).filter_map(std::future::ready);
    Ok(stream.take_until(lost.cancelled_owned()).chain(end).boxed())
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn endless() -> Answers<u32> {
        stream::once(std::future::ready(Ok(1))).chain(stream::pending()).boxed()
    }

    #[tokio::test]
    async fn a_place_is_given_back_when_its_reader_leaves_and_when_the_stream_ends() {
        let watchers = Watchers::new(2);
        let first = watchers.admit(endless()).unwrap();
        let mut second = watchers.admit(stream::once(std::future::ready(Ok(1))).boxed()).unwrap();
        let refused = watchers.admit(endless()).err().expect("both places are taken");
        assert_eq!(
            (refused.code(), errors::reason(&refused).as_deref()),
            (Code::ResourceExhausted, Some("TOO_MANY_WATCHERS"))
        );
        drop(first);
        let third = watchers.admit(endless()).expect("the place of the first");
        assert!(watchers.admit(endless()).is_err());
        while second.next().await.is_some() {}
        drop(second);
        assert!(watchers.admit(endless()).is_ok(), "the place of the second");
        drop(third);
    }

    #[tokio::test]
    async fn only_the_leader_answers_and_only_as_long_as_it_leads() {
        let term = CancellationToken::new();
        let leadership = Leadership::always(&term);
        let mut answers = while_leading(&leadership, endless()).unwrap();
        assert_eq!(answers.next().await.unwrap().unwrap(), 1);
        term.cancel();
        let end = answers.next().await.unwrap().unwrap_err();
        assert_eq!(errors::reason(&end).as_deref(), Some("NOT_LEADER"));
        assert!(answers.next().await.is_none());
        let refused = while_leading(&leadership, endless()).err().expect("it does not lead");
        assert_eq!(errors::reason(&refused).as_deref(), Some("NOT_LEADER"));
    }

    #[tokio::test]
    async fn a_leaders_stream_that_ends_by_itself_ends_well() {
        let leadership = Leadership::always(&CancellationToken::new());
        let one = stream::once(std::future::ready(Ok(1))).boxed();
        let answers: Vec<Result<u32, Status>> = while_leading(&leadership, one).unwrap().collect().await;
        assert!(matches!(answers.as_slice(), [Ok(1)]), "{answers:?}");
    }
}
