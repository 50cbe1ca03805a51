//! The body of an answer: in memory, or streaming because it is too long to be stored.

use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Either;

use crate::answer;

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// The handler's own body if the request passed through, otherwise the body of the answer.
pub(crate) type ResponseBody<B> = Either<B, AnswerBody<B>>;

/// The body of a stored or replayed answer.
///
/// It is in memory, unless [`Http::stream_large_answers`](super::Http::stream_large_answers) streams an
/// answer that is too long to be stored.
///
/// ```
/// use bytes::Bytes;
/// use dynamodb_idempotency::http::AnswerBody;
/// use http_body_util::{BodyExt, Full};
///
/// async fn read(body: AnswerBody<Full<Bytes>>) -> Option<Bytes> {
///     body.collect().await.ok().map(|body| body.to_bytes())
/// }
/// ```
#[derive(derive_more::Debug)]
#[debug("AnswerBody {{ is_whole: {}, .. }}", rest.is_none())]
pub struct AnswerBody<B> {
    held: Bytes,
    /// The rest of a body that was found to be too long. The lock makes the type `Sync`; it is never
    /// contended.
    rest: Option<Mutex<Pin<Box<B>>>>,
}

impl<B: Body<Error: Into<BoxError>>> AnswerBody<B> {
    /// Reads a body to its end. Stops before the end if the body has more than `limit` bytes. A body of
    /// fewer bytes than `announced` is an error.
    pub(super) async fn read(
        body: B,
        announced: Option<usize>,
        limit: impl Fn() -> usize,
    ) -> Result<Result<Bytes, Self>, BoxError> {
        let (mut body, mut held) = (Box::pin(body), Collected::default());
        // A body that announces more than `limit` bytes is not read.
        let min_len = |body: &Pin<Box<B>>| usize::try_from(body.size_hint().lower());
        while min_len(&body).is_ok_and(|rest| rest.saturating_add(held.len()) <= limit()) {
            let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await else {
                let held = held.into_bytes();
                return if let Some(announced) = announced.filter(|bytes| held.len() < *bytes) {
                    let bytes = held.len();
                    Err(format!("it ended after {bytes} of {announced} bytes").into())
                } else {
                    Ok(Ok(held))
                };
            };
            // Trailers are neither stored nor sent, because a repeat could not get them.
            if let Ok(data) = frame.map_err(Into::into)?.into_data() {
                held.push(data, limit());
            }
            // A body whose frames are always there must not keep its task from being stopped.
            tokio::task::coop::consume_budget().await;
        }
        Ok(Err(Self { held: held.into_bytes(), rest: Some(Mutex::new(body)) }))
    }
}

/// The length of a message's body according to its head. An HTTP/2 stream that is reset with `NO_ERROR`
/// looks like the end of its body, and hyper does not compare the lengths.
pub(super) fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Collects the frames of a body in a buffer of at most twice their size. A body of one frame is
/// not copied.
#[derive(Default)]
struct Collected {
    only: Bytes,
    several: Vec<u8>,
}

impl Collected {
    fn len(&self) -> usize {
        self.only.len() + self.several.len()
    }

    /// Adds a frame. `limit` bounds the buffer's growth, because the body read so far has about
    /// `limit` bytes at most.
    fn push(&mut self, data: impl Buf, limit: usize) {
        if self.len() == 0 {
            self.only = taken(data);
            return;
        }
        let needed = self.len().saturating_add(data.remaining());
        if needed > self.several.capacity() {
            let capacity = needed.max(self.len().saturating_mul(2).min(limit));
            self.several.reserve_exact(capacity - self.several.len());
        }
        self.several.extend_from_slice(&std::mem::take(&mut self.only));
        self.several.put(data);
    }

    fn into_bytes(self) -> Bytes {
        if self.several.is_empty() { self.only } else { self.several.into() }
    }
}

fn taken(mut data: impl Buf) -> Bytes {
    data.copy_to_bytes(data.remaining())
}

impl<B: Body<Error: Into<BoxError>>> Body for AnswerBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.held.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.held)))));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let rest = rest.get_mut().unwrap_or_else(PoisonError::into_inner);
        let frame = rest.as_mut().poll_frame(context);
        frame.map_ok(|frame| frame.map_data(taken)).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        let has_ended = |rest: &Mutex<Pin<Box<B>>>| {
            rest.lock().unwrap_or_else(PoisonError::into_inner).is_end_stream()
        };
        self.held.is_empty() && self.rest.as_ref().is_none_or(has_ended)
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.len() as u64;
        let Some(rest) = &self.rest else { return SizeHint::with_exact(held) };
        let rest = rest.lock().unwrap_or_else(PoisonError::into_inner).size_hint();
        let mut all = SizeHint::new();
        if let Some(upper) = rest.upper() {
            all.set_upper(upper.saturating_add(held));
        }
        all.set_lower(rest.lower().saturating_add(held));
        all
    }
}

impl<B> From<answer::Body> for AnswerBody<B> {
    fn from(body: answer::Body) -> Self {
        Self { held: body.bytes, rest: None }
    }
}

pub(crate) fn whole<B>(response: Response<AnswerBody<B>>) -> Response<ResponseBody<B>> {
    response.map(Either::Right)
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;

    use super::*;

    #[test]
    fn frames_of_one_byte_take_at_most_twice_their_size_and_at_most_the_limit() {
        for (frames, limit) in [(3, 5), (1000, 1500), (1500, 1500), (1501, 1500)] {
            let mut held = Collected::default();
            (0..frames).for_each(|_| held.push(&b"x"[..], limit));
            let capacity = held.several.capacity();
            assert!(
                capacity <= 2 * frames && capacity <= limit.max(frames),
                "{frames}: {capacity}"
            );
            assert_eq!(held.into_bytes(), vec![b'x'; frames]);
        }
    }

    #[tokio::test]
    async fn a_body_that_is_shorter_than_announced_is_an_error() {
        for (announced, bytes, is_whole) in [
            (None, 3, true),
            (Some("3"), 3, true),
            (Some("2"), 3, true),
            (Some("4"), 3, false),
            (Some("1"), 0, false),
            (Some("0"), 0, true),
            (Some("4, 4"), 3, true),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(announced.map(|length| (CONTENT_LENGTH, length.parse().unwrap())));
            // Without an exact size, as after a reset stream.
            let frames = vec![Ok::<_, BoxError>(Frame::data(Bytes::from(vec![b'x'; bytes])))];
            let body = StreamBody::new(futures_util::stream::iter(frames));
            let read = AnswerBody::read(body, content_length(&headers), || 100).await;
            let read = read.map(|read| read.map(|read| read.len()).ok());
            assert_eq!(read.ok(), is_whole.then_some(Some(bytes)), "{announced:?} {bytes}");
        }
    }

    /// Otherwise nothing could stop the task of an endless body on a runtime with one thread.
    #[tokio::test]
    async fn reading_a_body_whose_frames_are_always_there_lets_other_tasks_run() {
        let frames = (0..10_000).map(|_| Ok::<_, BoxError>(Frame::data(&b"x"[..])));
        let body = StreamBody::new(futures_util::stream::iter(frames));
        let mut reading = Box::pin(AnswerBody::read(body, None, || usize::MAX));
        let first = poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await;
        assert!(first.is_pending());
        assert_eq!(reading.await.unwrap().ok().unwrap().len(), 10_000);
    }

    #[test]
    fn a_body_of_one_frame_is_not_copied() {
        let frame = Bytes::from(vec![b'x'; 100]);
        let mut held = Collected::default();
        held.push(frame.clone(), 100);
        assert_eq!(held.into_bytes().as_ptr(), frame.as_ptr());
    }
}
