//! Generates owner ids.

use crate::clock::entropy;
use crate::error::Error;
use crate::protocol::OwnerId;

/// 128 random bits from the operating system.
pub(crate) fn random_owner() -> Result<OwnerId, Error> {
    Ok(OwnerId(u128::from_be_bytes(entropy()?)))
}
