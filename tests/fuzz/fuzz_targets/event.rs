//! Events of AWS services.
//!
//! The types of records belong to another crate. A panic in one of them makes its record unreadable, as
//! intended. So the hook that ends the process at any panic is removed. An uncaught panic still ends it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(init: drop(std::panic::take_hook()), |input: &[u8]| {
    dynamodb_idempotency_fuzz::event(input);
});
