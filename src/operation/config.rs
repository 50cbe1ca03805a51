//! The settings that all calls of an operation share.

use std::sync::Arc;

use crate::call::core::Core;
use crate::error::Error;
use crate::idempotency::Idempotency;
use crate::policy::Policy;
use crate::store::key::Scope;

/// The table, scope and policy of an operation, of HTTP requests, of events or of messages.
#[derive(Clone, Debug)]
pub(crate) struct OperationConfig {
    pub(crate) idempotency: Idempotency,
    pub(crate) scope: Scope,
    pub(crate) policy: Arc<Policy>,
}

impl OperationConfig {
    pub(crate) fn new(idempotency: &Idempotency, scope: Scope) -> Self {
        let policy = Arc::clone(&idempotency.core.policy);
        Self { idempotency: idempotency.clone(), scope, policy }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.idempotency.core
    }

    /// Changes the policy without checking it.
    pub(crate) fn change_policy(self, change: impl FnOnce(Policy) -> Policy) -> Self {
        let policy = Arc::new(change(Arc::unwrap_or_clone(self.policy)));
        Self { policy, ..self }
    }

    /// Checks the policy.
    pub(crate) fn checked(self) -> Result<Self, Error> {
        self.policy.validate(self.core().clock_tolerance)?;
        Ok(self)
    }
}
