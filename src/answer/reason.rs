//! The reasons that are stored instead of answers. Repeats get them with
//! [`AnswerUnavailable`](crate::ErrorKind::AnswerUnavailable).

/// Without the codec's own message, which could reveal the content.
pub(crate) const NOT_ENCODED: &str = "its AnswerCodec could not encode it";
pub(crate) const NOT_SERIALIZABLE: &str = "it could not be serialized";
pub(crate) const PARTS_NOT_WRITTEN: &str = "its parts could not be written";
pub(crate) const REJECTED: &str = "DynamoDB rejected it";

/// The reasons of HTTP responses.
#[cfg(feature = "http")]
pub(crate) mod http {
    pub(crate) const CLIENT_LEFT: &str = "its client left before it was read, and it is longer than \
                                          Policy::max_answer_bytes or takes longer than a lease";
    pub(crate) const BODY_FAILED: &str = "reading its body failed";
    pub(crate) const INTERIM: &str = "its status is 1xx, and an interim response is not an answer";
    pub(crate) const INVALID: &str = "it is not a valid HTTP response";
    pub(crate) const ON_STORE_PANICKED: &str = "Http::on_store panicked";
    pub(crate) const STORED_PANICKED: &str = "Http::store_if panicked";
    pub(crate) const STREAMED: &str =
        "it is longer than Policy::max_answer_bytes, and was sent as it arrived";
}

/// Why an answer is not read.
pub(crate) fn too_large(bytes: usize, limit: usize) -> String {
    format!("it has {bytes} bytes, and Policy::max_answer_bytes is {limit}")
}
