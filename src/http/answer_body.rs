//! The body of an answer: whole, or longer than what is stored and still on its way.

use std::collections::VecDeque;
use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Either;

use super::answer::WholeBody;
use crate::answer::{BodyRef, HttpBody};

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// The handler's own body if a request passed through, which streams as it does without the layer;
/// otherwise the answer's.
pub(crate) type ResponseBody<B> = Either<B, AnswerBody<B>>;

/// The body of a stored or replayed answer. It is whole in memory, except for an answer that is too
/// long to be stored and that [`Http::stream_large_answers`](super::Http::stream_large_answers)
/// sends as it arrives.
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
pub struct AnswerBody<B>(State<B>);

enum State<B> {
    Whole(Bytes),
    /// What was read of it before it was too long, and the rest. The lock makes it `Sync`: nobody waits
    /// for it.
    Flowing(VecDeque<Bytes>, Mutex<Pin<Box<B>>>),
}

impl<B> AnswerBody<B> {
    pub(super) const fn whole(bytes: Bytes) -> Self {
        Self(State::Whole(bytes))
    }

    pub(super) const fn is_whole(&self) -> bool {
        matches!(self.0, State::Whole(..))
    }
}

impl<B> AnswerBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    /// Reads a body to its end, or to where it has more than `most` bytes.
    pub(super) async fn read(body: B, most: usize) -> Result<Self, BoxError> {
        let (mut body, mut frames, mut bytes) = (Box::pin(body), VecDeque::new(), 0_usize);
        // Of a body that tells its length beforehand nothing has to be read.
        let least = |body: &Pin<Box<B>>| usize::try_from(body.size_hint().lower());
        while least(&body).is_ok_and(|rest| rest.saturating_add(bytes) <= most) {
            let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await else {
                return Ok(Self(State::Whole(joined(frames, bytes))));
            };
            // Trailers are not stored, and not sent: a repeat could not get them.
            if let Ok(data) = frame.map_err(Into::into)?.into_data() {
                let data = taken(data);
                bytes = bytes.saturating_add(data.len());
                frames.push_back(data);
            }
        }
        Ok(Self(State::Flowing(frames, Mutex::new(body))))
    }
}

fn taken(mut data: impl Buf) -> Bytes {
    data.copy_to_bytes(data.remaining())
}

fn joined(mut frames: VecDeque<Bytes>, bytes: usize) -> Bytes {
    if frames.len() < 2 {
        return frames.pop_front().unwrap_or_default();
    }
    let mut whole = Vec::with_capacity(bytes);
    for frame in &frames {
        whole.extend_from_slice(frame);
    }
    whole.into()
}

impl<B> Body for AnswerBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            State::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            State::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            State::Flowing(frames, rest) => {
                if let Some(frame) = frames.pop_front() {
                    return Poll::Ready(Some(Ok(Frame::data(frame))));
                }
                let rest = rest.get_mut().unwrap_or_else(PoisonError::into_inner);
                let frame = rest.as_mut().poll_frame(context);
                frame.map(|frame| {
                    frame.map(|frame| frame.map(|f| f.map_data(taken)).map_err(Into::into))
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            State::Whole(bytes) => bytes.is_empty(),
            State::Flowing(frames, rest) => {
                let rest = rest.lock().unwrap_or_else(PoisonError::into_inner);
                frames.is_empty() && rest.is_end_stream()
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            State::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            State::Flowing(frames, rest) => {
                let held = frames.iter().map(|frame| frame.len() as u64).sum::<u64>();
                let rest = rest.lock().unwrap_or_else(PoisonError::into_inner).size_hint();
                let mut all = SizeHint::new();
                if let Some(most) = rest.upper() {
                    all.set_upper(most.saturating_add(held));
                }
                all.set_lower(rest.lower().saturating_add(held));
                all
            }
        }
    }
}

impl<B> WholeBody for AnswerBody<B> {
    fn as_stored(&self) -> BodyRef<'_> {
        match &self.0 {
            State::Whole(bytes) => bytes.as_stored(),
            State::Flowing(..) => BodyRef::Empty,
        }
    }

    fn from_stored(body: HttpBody) -> Self {
        Self::whole(Bytes::from_stored(body))
    }
}

impl<B> fmt::Debug for AnswerBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerBody").field("is_whole", &self.is_whole()).finish_non_exhaustive()
    }
}

pub(crate) fn whole<B: Body>(response: Response<Bytes>) -> Response<ResponseBody<B>> {
    response.map(|body| Either::Right(AnswerBody::whole(body)))
}
