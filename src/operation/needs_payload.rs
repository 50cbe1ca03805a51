//! An operation with a key, which needs a payload to become a call.

use std::sync::Arc;

use serde::Serialize;

use super::call::Call;
use super::config::OperationConfig;
use crate::fingerprint::Fingerprint;

/// A call that has a key and does not run before it has a payload. [`Operation::key`](crate::Operation::key) creates
/// it. If the compiler finds no method `run` here, call [`payload`](Self::payload) or [`no_payload`](Self::no_payload)
/// first.
///
/// Set the [`payload`](Self::payload): whatever decides the effect. A different request with the same key is
/// then a [`Mismatch`](crate::ErrorKind::Mismatch). If the key alone identifies the request, say
/// [`no_payload`](Self::no_payload).
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// use dynamodb_idempotency::ErrorKind;
///
/// let charge = |amount: u32| idempotency.operation("charge").key("order-42").payload(&amount);
/// charge(1200).run(async |_| Ok::<_, std::io::Error>("paid".to_owned())).await?;
/// let other = charge(1300).run(async |_| Ok::<_, std::io::Error>("paid".to_owned())).await;
/// assert_eq!(other.unwrap_err().idempotency().unwrap().kind(), ErrorKind::Mismatch);
/// # Ok(()) });
/// ```
///
/// An operation that makes neither choice does not compile:
///
/// ```compile_fail,E0599
/// # doc_examples::run(async |_, idempotency| {
/// idempotency.operation("charge").key("order-42").run(async |_| Ok::<_, std::io::Error>(1200)).await?;
/// # Ok(()) });
/// ```
///
/// Neither does one that makes two:
///
/// ```compile_fail,E0599
/// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
/// let call = idempotency.operation("charge").key("order-42").payload(&1200).payload(&1300);
/// # }
/// ```
#[derive(Clone, derive_more::Debug)]
// Without the key, which may be personal data.
#[debug("CallNeedsPayload {{ config: {config:?}, .. }}")]
#[must_use = "give it a payload, or say `no_payload()`"]
pub struct CallNeedsPayload {
    config: OperationConfig,
    key: String,
}

impl CallNeedsPayload {
    pub(crate) fn new(config: OperationConfig, key: String) -> Self {
        Self { config, key }
    }

    /// Sets the payload. A repeat must have the same payload. Payloads are compared by their JSON values.
    ///
    /// The order of a map's members does not matter, but the order of a sequence does. Do not include a
    /// `HashSet`: its order changes with every process. A payload that JSON cannot represent, such as one with an
    /// infinite number or a NaN, is [`InvalidInput`](crate::ErrorKind::InvalidInput), and nothing runs.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let call = idempotency.operation("charge").key("order-42").payload(&("order-42", 1200));
    /// # Ok(()) });
    /// ```
    pub fn payload<P: Serialize + ?Sized>(self, payload: &P) -> Call {
        let fingerprint = Fingerprint::by_value(payload).map_err(Arc::new);
        Call::new(self.config, self.key, fingerprint)
    }

    /// Sets the payload as bytes, which are compared unchanged.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let call = idempotency.operation("charge").key("order-42").payload_bytes(b"order-42:1200");
    /// # Ok(()) });
    /// ```
    pub fn payload_bytes(self, payload: &[u8]) -> Call {
        self.fingerprint(Fingerprint::builder().bytes(payload).finish())
    }

    /// Sets a fingerprint that you built from chosen parts of the request.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::Fingerprint;
    ///
    /// let fingerprint = Fingerprint::builder().bytes(b"eur").json(b"1200").finish();
    /// let call = idempotency.operation("charge").key("order-42").fingerprint(fingerprint);
    /// # }
    /// ```
    pub fn fingerprint(self, fingerprint: Fingerprint) -> Call {
        Call::new(self.config, self.key, Ok(fingerprint))
    }

    /// Says that the key alone identifies the request. A different request with the same key gets the answer
    /// to the first one.
    ///
    /// Choose it if there is nothing else to compare, as for the report of a month:
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let report = |month: &str| idempotency.operation("report").key(month).no_payload();
    /// let first = report("2026-11").run(async |_| Ok::<_, std::io::Error>("report 1".to_owned()));
    /// assert_eq!(first.await?, "report 1");
    /// let second = report("2026-11").run(async |_| Ok::<_, std::io::Error>("report 2".to_owned()));
    /// assert_eq!(second.await?, "report 1");
    /// # Ok(()) });
    /// ```
    pub fn no_payload(self) -> Call {
        self.fingerprint(Fingerprint::empty())
    }
}

#[cfg(test)]
mod tests {
    use crate::idempotency::Idempotency;

    #[test]
    fn a_call_without_a_payload_is_shown_without_its_key() {
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
            .build();
        let idempotency = Idempotency::new(aws_sdk_dynamodb::Client::from_conf(config), "t");
        let shown = format!("{:?}", idempotency.operation("charge").key("canary"));
        assert!(shown.contains("charge") && !shown.contains("canary"), "{shown}");
    }
}
