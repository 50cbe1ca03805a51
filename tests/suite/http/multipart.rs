//! The recipe of `Http::fingerprint` for uploads, whose repeats have another boundary.

use bytes::Bytes;
use http::Request;

use super::message::{is_replay, post, problem, with};
use super::site::everywhere;

include!("multipart/recipe.rs");

const SOURCE: &str = include_str!("../../../src/http/mod.rs");
const RECIPE: &str = include_str!("multipart/recipe.rs");

#[test]
fn the_documentation_has_this_code() {
    let commented =
        |line: &str| format!("    ///{}{line}\n", if line.is_empty() { "" } else { " " });
    let recipe: String = RECIPE.lines().map(commented).collect();
    assert!(SOURCE.contains(&recipe), "copy tests/suite/http/multipart/recipe.rs into it");
}

/// A form with one file.
fn form(key: &str, boundary: &str, name: &str, file: &[u8]) -> Request<Bytes> {
    let head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
    let body = [head.as_bytes(), file, format!("\r\n--{boundary}--\r\n").as_bytes()].concat();
    with(post(key, body), "content-type", &format!("multipart/form-data; boundary={boundary}"))
}

#[tokio::test]
async fn a_form_with_another_boundary_is_a_repeat_and_one_with_another_part_is_not() {
    for site in everywhere().await {
        let api = site.paying(uploads(&site.store.over(&site.link))).await;
        let (key, file) = (site.scope(), b"\xff\0--b--a");
        assert!(!is_replay(&api.send(form(key, "b1", "photo", file)).await));
        for same in [form(key, "b1", "photo", file), form(key, "b2", "photo", file)] {
            assert!(is_replay(&api.send(same).await));
        }
        let typed =
            with(form(key, "b1", "photo", file), "content-type", "multipart/mixed; boundary=b1");
        let others =
            [form(key, "b2", "photo", b"\xff\0--b--c"), form(key, "b2", "picture", file), typed];
        for other in others {
            problem(&api.send(other).await, 422, "Mismatch");
        }
        assert_eq!(site.runs.count(), 1);
    }
}
