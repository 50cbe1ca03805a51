//! The attribute of `dynamodb-idempotency`. Use it through that crate's feature `macros`.
