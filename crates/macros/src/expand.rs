//! Expands the attribute and its function to the plain call.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    AttrStyle, Attribute, Error, Expr, FnArg, Ident, ItemFn, Pat, Result, ReturnType, Token,
};

/// One argument of the attribute: `name = value`, or a name alone.
struct Argument {
    name: Ident,
    value: Option<Expr>,
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name: Ident = input.parse()?;
        if name == NO_PAYLOAD {
            return Ok(Self { name, value: None });
        }
        input.parse::<Token![=]>()?;
        Ok(Self { name, value: Some(input.parse()?) })
    }
}

pub(crate) fn expand(arguments: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(function)?;
    let arguments = Arguments::of(arguments)?;
    let Some(_) = function.sig.asyncness else {
        return Err(Error::new(function.sig.fn_token.span, NOT_ASYNC));
    };
    if let Some(span) = instrumented(function.block.to_token_stream()) {
        let message = "`#[idempotent]` must be above `#[tracing::instrument]`: the other way round, the \
                       body already has the return type of the function";
        return Err(Error::new(span, message));
    }
    let ReturnType::Type(_, answer) = &function.sig.output else {
        let message = "an idempotent function returns `Result<T, RunError<E>>`";
        return Err(Error::new(function.sig.ident.span(), message));
    };
    let idempotency = arguments.idempotency(&function)?;
    let Arguments { scope, key, payload, execution, of_operation, of_call, .. } = &arguments;
    let execution = execution.as_ref().map_or_else(|| quote!(_), |name| quote!(#name));
    let key = quote_spanned! {at(key)=> ::std::string::ToString::to_string(&(#key)) };
    let ItemFn { attrs, vis, sig, block } = &function;
    // An inner attribute of the body has the same meaning before the function.
    let attrs = attrs.iter().map(|attr| Attribute { style: AttrStyle::Outer, ..attr.clone() });
    // Has the span of the return type, so that an error about the type points at it.
    let own = quote_spanned! {at(answer)=>
        <#answer as ::dynamodb_idempotency::__macros::Answer>::Own
    };
    let statements = &block.stmts;
    Ok(quote! {
        #(#attrs)*
        #vis #sig {
            (#idempotency)
                .operation(#scope)
                #(#of_operation)*
                .key(#key)
                #payload
                #(#of_call)*
                .run(async move |#execution: ::dynamodb_idempotency::Execution| -> #own { #(#statements)* })
                .await
        }
    })
}

/// The argument that has no value.
const NO_PAYLOAD: &str = "no_payload";

/// The arguments of which a call has exactly one: the methods of `CallNeedsPayload`.
const PAYLOADS: [&str; 4] = ["payload", "payload_bytes", "fingerprint", NO_PAYLOAD];

const PAYLOAD_MISSING: &str = "`payload = ..` is missing: add it, or `no_payload` if the key alone identifies \
                               the request";

/// `#[async_trait]` removes the `async` before this attribute sees the function.
const NOT_ASYNC: &str = "an idempotent function is `async`; in an `#[async_trait]` impl, write the plain call, \
                         or call a function that has this attribute";

/// Returns where the body was changed by `#[tracing::instrument]`, which was expanded before. All names
/// of its own begin alike.
fn instrumented(body: TokenStream) -> Option<Span> {
    body.into_iter().find_map(|tree| match tree {
        TokenTree::Group(group) => instrumented(group.stream()),
        TokenTree::Ident(name) if name.to_string().starts_with("__tracing_") => Some(name.span()),
        TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => None,
    })
}

/// A span at the user's code, for errors. Lints still treat it as expanded code.
fn at(written: &impl Spanned) -> Span {
    Span::mixed_site().located_at(written.span())
}

struct Arguments {
    scope: Expr,
    key: Expr,
    /// The method of `CallNeedsPayload`.
    payload: TokenStream,
    idempotency: Option<Expr>,
    execution: Option<Ident>,
    /// The methods of `Operation`, in the order of the arguments.
    of_operation: Vec<TokenStream>,
    /// The methods of `Call`, in the order of the arguments.
    of_call: Vec<TokenStream>,
}

impl Arguments {
    fn of(tokens: TokenStream) -> Result<Self> {
        let parse = Punctuated::<Argument, Token![,]>::parse_terminated;
        let (mut scope, mut key, mut idempotency, mut execution) = (None, None, None, None);
        let mut payload = None;
        let (mut of_operation, mut of_call) = (Vec::new(), Vec::new());
        let mut seen: Vec<Ident> = Vec::new();
        for Argument { name, value } in syn::parse::Parser::parse2(parse, tokens)? {
            if seen.contains(&name) {
                return Err(Error::new(name.span(), format!("`{name}` is given twice")));
            }
            if PAYLOADS.iter().any(|payload| name == payload) && payload.is_some() {
                let message = format!("`{name}` is a second payload: a call has one");
                return Err(Error::new(name.span(), message));
            }
            let Some(value) = value else {
                payload = Some(quote! { .#name() });
                continue;
            };
            match name.to_string().as_str() {
                "scope" => scope = Some(value),
                "key" => key = Some(value),
                "idempotency" => idempotency = Some(value),
                "execution" => execution = Some(named(&value)?),
                "policy" => of_operation.push(quote! { .#name(#value)? }),
                "segment" => of_operation.push(quote! { .#name(#value) }),
                "payload" => payload = Some(quote_spanned! {at(&value)=> .payload(&(#value)) }),
                "payload_bytes" | "fingerprint" => payload = Some(quote! { .#name(#value) }),
                "run" | "run_with_outcome" | "run_transaction" | "run_transaction_with_outcome" => {
                    let message = format!("`{name}` ends the call: write the plain call instead");
                    return Err(Error::new(name.span(), message));
                }
                _ => of_call.push(quote! { .#name(#value) }),
            }
            seen.push(name);
        }
        let missing = |what| Error::new(Span::call_site(), format!("`{what} = ..` is missing"));
        let scope = scope.ok_or_else(|| missing("scope"))?;
        let key = key.ok_or_else(|| missing("key"))?;
        let payload = payload.ok_or_else(|| Error::new(Span::call_site(), PAYLOAD_MISSING))?;
        Ok(Self { scope, key, payload, idempotency, execution, of_operation, of_call })
    }

    /// The expression for the `Idempotency`: that of the attribute, or the function's argument of that name.
    fn idempotency(&self, function: &ItemFn) -> Result<TokenStream> {
        if let Some(idempotency) = &self.idempotency {
            return Ok(quote!(#idempotency));
        }
        let arguments = function.sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(argument) => match &*argument.pat {
                Pat::Ident(pattern) => Some(&pattern.ident),
                _ => None,
            },
            FnArg::Receiver(_) => None,
        });
        let found = arguments.into_iter().find(|name| *name == "idempotency");
        found.map(|name| quote!(#name)).ok_or_else(|| {
            let message = "no argument is named `idempotency`: add one, or name it with \
                           `idempotency = self.idempotency`";
            Error::new(function.sig.ident.span(), message)
        })
    }
}

/// Parses the name of the execution in the body.
fn named(value: &Expr) -> Result<Ident> {
    match value {
        Expr::Path(path) if path.path.get_ident().is_some() => path.path.require_ident().cloned(),
        other => {
            Err(Error::new(other.span(), "expected a name: the body uses it for its Execution"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    fn tokens(text: &str) -> TokenStream {
        TokenStream::from_str(text).expect("the text is valid Rust")
    }

    /// Returns the message of the error, and the code that it points at.
    fn rejected(arguments: &str, function: &str) -> (String, String) {
        let error =
            expand(tokens(arguments), tokens(function)).expect_err("the arguments are invalid");
        (error.to_string(), error.span().source_text().unwrap_or_default())
    }

    const PAY: &str = "async fn pay(idempotency: &Idempotency, order: &Order) -> Answer { body() }";

    #[test]
    fn an_error_points_at_what_is_wrong() {
        let good = "scope = \"charge\", key = order.id, no_payload";
        for (arguments, function, message, at) in [
            ("scope = \"a\", key = b, scope = \"c\"", PAY, "`scope` is given twice", "scope"),
            (
                "scope = \"a\", key = b, execution = 1 + 1",
                PAY,
                "expected a name: the body uses it for its Execution",
                "1 + 1",
            ),
            (
                "scope = \"a\", key = b, run = c",
                PAY,
                "`run` ends the call: write the plain call instead",
                "run",
            ),
            ("scope \"a\"", PAY, "expected `=`", "\"a\""),
            (
                "scope = \"a\", key = b, payload = c, no_payload",
                PAY,
                "`no_payload` is a second payload: a call has one",
                "no_payload",
            ),
            (
                "scope = \"a\", key = b, no_payload, fingerprint = c",
                PAY,
                "`fingerprint` is a second payload: a call has one",
                "fingerprint",
            ),
            ("scope = \"a\", key = b, no_payload = c", PAY, "expected `,`", "="),
            (good, "fn pay(idempotency: &Idempotency) -> Answer {}", NOT_ASYNC, "fn"),
            (
                good,
                "async fn pay(idempotency: &Idempotency) {}",
                "an idempotent function returns `Result<T, RunError<E>>`",
                "pay",
            ),
            (good, "struct Pay;", "expected `fn`", "struct"),
        ] {
            let (said, pointed) = rejected(arguments, function);
            assert_eq!((said.as_str(), pointed.as_str()), (message, at), "{arguments}");
        }
        for (arguments, missing) in [("key = a", "scope"), ("scope = \"a\"", "key"), ("", "scope")]
        {
            assert_eq!(rejected(arguments, PAY).0, format!("`{missing} = ..` is missing"));
        }
        assert_eq!(rejected("scope = \"a\", key = b", PAY).0, PAYLOAD_MISSING);
        let (said, at) = rejected(good, "async fn pay(order: &Order) -> Answer {}");
        assert!(said.starts_with("no argument is named `idempotency`"), "{said}");
        assert_eq!(at, "pay");
    }

    /// What `#[tracing::instrument]` 0.1 makes of a function when it is above this attribute.
    #[test]
    fn an_instrumented_body_is_rejected_with_the_right_order() {
        let function = "async fn pay(idempotency: &Idempotency) -> Answer {
            let __tracing_attr_span = span!();
            Instrument::instrument(async move { body() }, __tracing_attr_span).await
        }";
        let (said, at) = rejected("scope = \"charge\", key = 7, no_payload", function);
        assert!(
            said.starts_with("`#[idempotent]` must be above `#[tracing::instrument]`"),
            "{said}"
        );
        assert_eq!(at, "__tracing_attr_span");
    }

    #[test]
    fn it_expands_to_the_plain_call() {
        let arguments = "scope = \"charge\", key = order.id, deadline = end, payload = order, execution = execution, policy = patient";
        let expanded = expand(tokens(arguments), tokens(PAY)).expect("it expands");
        let expected = tokens(
            "async fn pay(idempotency: &Idempotency, order: &Order) -> Answer {
                (idempotency)
                    .operation(\"charge\")
                    .policy(patient)?
                    .key(::std::string::ToString::to_string(&(order.id)))
                    .payload(&(order))
                    .deadline(end)
                    .run(async move |execution: ::dynamodb_idempotency::Execution|
                        -> <Answer as ::dynamodb_idempotency::__macros::Answer>::Own { body() })
                    .await
            }",
        );
        let text = |tokens: TokenStream| tokens.to_string().replace(' ', "");
        assert_eq!(text(expanded), text(expected));
    }

    #[test]
    fn each_way_to_set_the_payload_directly_follows_the_key() {
        for (argument, method) in [
            ("no_payload", ".no_payload()"),
            ("payload = order", ".payload(&(order))"),
            ("payload_bytes = order.bytes()", ".payload_bytes(order.bytes())"),
            ("fingerprint = print", ".fingerprint(print)"),
        ] {
            let arguments = format!("scope = \"charge\", deadline = end, {argument}, key = 7");
            let expanded = expand(tokens(&arguments), tokens(PAY)).expect("it expands");
            let text = expanded.to_string().replace(' ', "");
            let call = format!("::to_string(&(7))){method}.deadline(end).run(");
            assert!(text.contains(&call), "{text}");
        }
    }

    #[test]
    fn an_inner_attribute_of_the_body_moves_to_the_function() {
        let arguments = "scope = \"charge\", key = order.id, no_payload";
        let expand = |function: &str| {
            expand(tokens(arguments), tokens(function)).expect("it expands").to_string()
        };
        let signature = "async fn pay(idempotency: &Idempotency, order: &Order) -> Answer";
        assert_eq!(
            expand(&format!("#[inline] {signature} {{ #![allow(unused)] body() }}")),
            expand(&format!("#[inline] #[allow(unused)] {signature} {{ body() }}")),
        );
    }

    /// So the compiler's errors about a value point at that value.
    #[test]
    fn a_value_keeps_its_span() {
        let arguments = "scope = \"charge\", key = order.id, payload = other";
        let expanded = expand(tokens(arguments), tokens(PAY)).expect("it expands");
        let places = |text: &str, of: TokenStream| {
            flat(of).into_iter().filter(|(token, ..)| token == text).collect::<Vec<_>>()
        };
        for value in ["\"charge\"", "id", "other"] {
            let here = places(value, tokens(arguments));
            let there = places(value, expanded.clone());
            // Lines and columns are relative to each parsed text.
            assert_eq!(here[0].1, there[0].1, "{value}");
        }
    }

    fn flat(tokens: TokenStream) -> Vec<(String, usize)> {
        let each = tokens.into_iter().flat_map(|tree| match tree {
            proc_macro2::TokenTree::Group(group) => flat(group.stream()),
            other => vec![(other.to_string(), other.span().start().column)],
        });
        each.collect()
    }
}
