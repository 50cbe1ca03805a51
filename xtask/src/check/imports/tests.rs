use super::*;

fn module(path: &str) -> Path {
    path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn imports_of(files: &[(&str, &str)]) -> Imports {
    let read = |(path, text): &(&str, &str)| {
        let module = module(path);
        let source = Source::read(&module, text).unwrap();
        (module, source)
    };
    imports(&files.iter().map(read).collect())
}

/// `from -> to` of all that the files import.
fn arrows(files: &[(&str, &str)]) -> Vec<String> {
    let imports = imports_of(files);
    let each = imports.iter().flat_map(|(from, to)| to.keys().map(move |to| (from, to)));
    each.map(|(from, to)| format!("{} -> {}", shown(from), shown(to))).collect()
}

#[test]
fn an_adapter_imports_no_other_but_lambda_imports_http() {
    let files = [
        ("http", ""),
        ("http::layer", "use super::Http;"),
        ("lambda", "use crate::http::layer::Layer;"),
        ("messages::work", "\nfn f() { crate::http::layer::g(); }"),
    ];
    assert_eq!(
        findings(&imports_of(&files)),
        [
            "messages::work imports http::layer (2: crate::http::layer::g): an adapter imports another one"
        ]
    );
}

#[test]
fn an_adapter_that_comes_through_the_root_is_another_one_too() {
    let files = [
        ("", "mod event;\npub use crate::event::Event;"),
        ("event", "pub struct Event;"),
        ("http", "use crate::Event;"),
    ];
    assert_eq!(
        findings(&imports_of(&files)),
        ["http imports event (1: crate::Event): an adapter imports another one"]
    );
}

#[test]
fn braces_other_names_and_parents_are_followed() {
    let text = "use super::super::{x::{Y, z::W as V}, u::{self, *}};\nfn f() -> crate::d::D { self::q::g() }";
    let files = [
        ("p::a::b", text),
        ("p::x", ""),
        ("p::x::z", ""),
        ("p::u", ""),
        ("d", ""),
        ("p::a::b::q", ""),
    ];
    let expected = [
        "p::a::b -> d",
        "p::a::b -> p::a::b::q",
        "p::a::b -> p::u",
        "p::a::b -> p::x",
        "p::a::b -> p::x::z",
    ];
    assert_eq!(arrows(&files), expected);
}

#[test]
fn a_path_goes_on_from_a_name_that_was_imported_and_from_a_module_below() {
    let files = [
        (
            "a",
            "mod own;\nuse crate::store;\nfn f() { store::fault::g(); own::deep::h(); http::i(); x.store::<u8>() }",
        ),
        ("a::own", ""),
        ("a::own::deep", ""),
        ("http", ""),
        ("store", ""),
        ("store::fault", ""),
    ];
    assert_eq!(arrows(&files), ["a -> a::own::deep", "a -> store", "a -> store::fault"]);
}

#[test]
fn what_is_exported_again_counts_where_it_is_defined() {
    let files = [
        (
            "",
            "mod error;\nmod key;\npub use crate::error::Error;\npub use key::inner::Key as Name;",
        ),
        ("error", "pub struct Error;"),
        ("key", "mod inner;\npub use self::inner::*;\npub(crate) use inner::Key;"),
        ("key::inner", "use super::super::Error;"),
        ("user", "use crate::{Error, Name};\nuse crate::key::Key;"),
    ];
    // Neither the root nor `key` has a line of code that needs what they hand on; a glob is one.
    let expected =
        ["key -> key::inner", "key::inner -> error", "user -> error", "user -> key::inner"];
    assert_eq!(arrows(&files), expected);
    let named = [("a", "pub use crate::b::B;\nfn f() -> B { B }"), ("b", "")];
    assert_eq!(arrows(&named), ["a -> b"]);
}

#[test]
fn comments_strings_visibilities_and_unit_tests_import_nothing() {
    let text = r#"
        // use crate::b;
        /// [`crate::b::B`]
        pub(in crate::b) fn f(x: &str) { let _ = "crate::b"; x.b() }
        #[cfg(test)]
        use crate::b;
        #[cfg(test)]
        mod tests { use crate::b; }
        #[cfg(all(test, feature = "x"))]
        #[allow(unused)]
        fn g() { crate::b::g() }
        mod inner { fn h() { super::f(1) } }
    "#;
    assert_eq!(arrows(&[("a", text), ("b", "")]), [""; 0]);
    let after = format!("{text}\nfn i() {{ 0..crate::b::MOST }}");
    assert_eq!(arrows(&[("a", &after), ("b", "")]), ["a -> b"]);
}

#[test]
fn macros_import_what_they_name() {
    let text = "macro_rules! m { () => { $crate::b::f() } }\nfn g() { tokio::select! { x = crate::c::f() => x } }";
    assert_eq!(arrows(&[("a", text), ("b", ""), ("c", "")]), ["a -> b", "a -> c"]);
}

#[test]
fn two_files_may_import_each_other_and_three_may_not() {
    let two = [("a", "use crate::b::B;"), ("b", "use crate::a::A;"), ("c", "use crate::a::A;")];
    assert_eq!(findings(&imports_of(&two)), [""; 0]);
    let three = [
        ("a", "use crate::b::B;"),
        ("b", "fn f() {}\nuse crate::c::C;"),
        ("c", "use crate::a::A;\nuse crate::d::D;"),
        ("d", ""),
    ];
    assert_eq!(
        findings(&imports_of(&three)),
        [
            "3 files import each other: a, b, c",
            "  a circle over 3:",
            "    a imports b (1: crate::b::B)",
            "    b imports c (2: crate::c::C)",
            "    c imports a (1: crate::a::A)",
        ]
    );
}

#[test]
fn each_file_of_a_knot_is_shown_in_its_shortest_circle() {
    let knot =
        [("a", "use crate::b::B;"), ("b", "use crate::{a::A, c::C};"), ("c", "use crate::b::B;")];
    let found = findings(&imports_of(&knot));
    assert_eq!(found[0], "3 files import each other: a, b, c");
    assert_eq!(found.iter().filter(|line| line.contains("circle over 2")).count(), 2, "{found:?}");
}
