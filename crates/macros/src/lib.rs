//! The attribute of `dynamodb-idempotency`. Use it through that crate's feature `macros`, which documents it.

mod expand;

use proc_macro::TokenStream;

/// See `dynamodb_idempotency::idempotent`, under which name it is documented with its expansion.
#[proc_macro_attribute]
pub fn idempotent(arguments: TokenStream, function: TokenStream) -> TokenStream {
    expand::expand(arguments.into(), function.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
