//! x
#![allow(dead_code, unused_imports)]
#[path = "../../src/mutant.rs"]
mod mutant;
#[path = "../../src/policy/choices.rs"]
mod policy;
mod record {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub(crate) struct Owner(pub(crate) u8);
    impl Owner {
        pub(crate) fn nobody(&self) -> Self {
            Self(self.0 + 100)
        }
    }
}
#[path = "../../src/protocol/mod.rs"]
mod protocol;
fn main() {}
