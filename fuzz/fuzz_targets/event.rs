//! Events of AWS services.
//!
//! The types that records are read as are another crate's, and a panic in one makes its record
//! unreadable, which is as it should be: so the hook that ends the process at any panic is taken
//! away. One that is not caught still ends it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(init: drop(std::panic::take_hook()), |input: &[u8]| {
    dynamodb_idempotency_fuzz::event(input);
});
