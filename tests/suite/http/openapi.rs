//! `docs/openapi.yaml` says what is sent.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{Request, Response};
use yaml_rust2::{Yaml, YamlLoader};

use super::message::{is_replay, post, values, with, without};
use super::site::{Site, everywhere};
use crate::support::{Act, Gate, Link};

const TEXT: &str = include_str!("../../../docs/openapi.yaml");

fn document() -> Yaml {
    YamlLoader::load_from_str(TEXT).expect("it is YAML").remove(0)
}

/// The node that a `$ref` leads to, or the node itself.
fn resolved<'a>(document: &'a Yaml, node: &'a Yaml) -> &'a Yaml {
    let Some(reference) = node["$ref"].as_str() else { return node };
    let path = reference.strip_prefix("#/").expect("a reference into the document");
    let found = path.split('/').fold(document, |node, name| &node[name]);
    assert!(!found.is_badvalue(), "{reference} leads nowhere");
    found
}

/// What the document says about a status of the example's operations.
fn response<'a>(document: &'a Yaml, status: &str) -> &'a Yaml {
    let path = if status == "401" { "/webhooks" } else { "/payments" };
    let responses = &document["paths"][path]["post"]["responses"];
    let said = resolved(document, &responses[status]);
    assert!(!said.is_badvalue(), "nothing is said about {status}");
    said
}

fn names(yaml: &Yaml) -> BTreeSet<&str> {
    yaml.as_hash().into_iter().flatten().filter_map(|(name, _)| name.as_str()).collect()
}

/// Holds an answer of the crate's own against the document.
fn assert_documented(document: &Yaml, answer: &Response<Bytes>) {
    let status = answer.status();
    let said = response(document, status.as_str());
    let content = &said["content"];
    assert_eq!(values(answer.headers(), "content-type"), Vec::from_iter(names(content)));
    let is_announced = !names(&said["headers"]).is_empty();
    assert_eq!(answer.headers().contains_key("retry-after"), is_announced, "{status}");
    for name in names(&said["headers"]) {
        let header = &resolved(document, &said["headers"][name])["schema"];
        let sent = values(answer.headers(), "retry-after");
        assert_eq!((name, sent.len()), ("Retry-After", 1));
        assert!(
            sent[0].parse::<i64>().expect("a number") >= header["minimum"].as_i64().expect("one")
        );
    }
    let schemas = &content["application/problem+json"]["schema"]["allOf"];
    let (every, this) = (resolved(document, &schemas[0]), &schemas[1]["properties"]);
    let body: serde_json::Value = serde_json::from_slice(answer.body()).expect("JSON");
    let members = body.as_object().expect("an object");
    let sent: BTreeSet<_> = members.keys().map(String::as_str).collect();
    let required = every["required"].as_vec().expect("a list");
    assert_eq!(sent, required.iter().filter_map(Yaml::as_str).collect());
    assert_eq!(
        (every["additionalProperties"].as_bool(), &sent),
        (Some(false), &names(&every["properties"]))
    );
    for (name, value) in members {
        let kind = every["properties"][name.as_str()]["type"].as_str();
        assert_eq!(kind, Some(if value.is_string() { "string" } else { "integer" }), "{name}");
    }
    assert_eq!(body["status"].as_i64(), this["status"]["enum"][0].as_i64());
    let types = this["type"]["enum"].as_vec().expect("a list");
    assert!(types.iter().any(|known| known.as_str() == body["type"].as_str()), "{body}");
}

#[tokio::test]
async fn keys_are_accepted_as_the_document_says() {
    let document = document();
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        let parameter = &document["paths"]["/payments"]["post"]["parameters"][0];
        let parameter = resolved(&document, parameter);
        let name = parameter["name"].as_str().expect("a name").to_lowercase();
        assert_eq!(
            (name.as_str(), parameter["required"].as_bool()),
            ("idempotency-key", Some(true))
        );
        let pattern = parameter["schema"]["pattern"].as_str().expect("a pattern");
        assert_eq!(pattern, r#"^([^",][^,]{0,254}|"([^"\\]|\\["\\]){1,255}")$"#);
        let key = |bytes| "k".repeat(bytes);
        let in_quotes = |bytes| format!("\"{}\"", key(bytes));

        assert_documented(&document, &api.send(without(post("k", "{}"), "idempotency-key")).await);
        for (key, status) in [
            (key(1), 201),
            (key(255), 201),
            (in_quotes(254), 201),
            (in_quotes(255), 201),
            (format!("\"{}\"", r"\\".repeat(255)), 201),
            (key(0), 400),
            (key(256), 400),
            (in_quotes(0), 400),
            (in_quotes(256), 400),
        ] {
            let answer = api.send(with(post("k", "{}"), "idempotency-key", &key)).await;
            assert_eq!(answer.status(), status, "{key}");
            if status == 400 {
                assert_documented(&document, &answer);
            }
        }
    }
}

#[tokio::test]
async fn what_is_sent_is_what_the_document_says() {
    let document = document();
    for site in everywhere().await {
        let site = Site { link: Link::without_retries(), ..site };
        let gate = Gate::default();
        let (held, runs) = (gate.clone(), site.runs.clone());
        let handler = move |request: Request<Bytes>| {
            let (held, run) = (held.clone(), runs.add());
            async move {
                assert_ne!(request.body(), "panic", "as the test wants");
                if request.body() == "held" {
                    held.pass().await;
                }
                super::site::paid(run)
            }
        };
        let api = site.serve(site.http().max_body_bytes(1000), handler).await;
        let said = &response(&document, "201")["headers"];
        assert_eq!(api.send(post("k2", "{}")).await.status(), 201);
        let replay = api.send(post("k2", "{}")).await;
        assert!(is_replay(&replay));
        let marker = names(said).into_iter().next().expect("a header").to_lowercase();
        let value = &resolved(&document, &said["Idempotency-Replayed"])["schema"]["enum"][0];
        assert_eq!(replay.headers()[&marker], value.as_str().expect("a text"));
        assert_documented(&document, &api.send(post("k2", "[]")).await);
        assert_documented(&document, &api.send(post("large", "x".repeat(2000))).await);
        let grpc = with(post("grpc", "{}"), "content-type", "application/grpc");
        assert_documented(&document, &api.send(grpc).await);
        assert_documented(&document, &api.send(post("panic", "panic")).await);

        let concurrent = async {
            gate.reached().await;
            let concurrent = api.send(post("held", "held")).await;
            gate.open();
            concurrent
        };
        let (first, concurrent) = tokio::join!(api.send(post("held", "held")), concurrent);
        assert_eq!((first.status().as_u16(), concurrent.status().as_u16()), (201, 409));
        assert_documented(&document, &concurrent);

        site.link.wire.down(Act::LoseRequest);
        let down = api.send(post("down", "{}")).await;
        assert_eq!(down.status(), 503);
        assert_documented(&document, &down);
    }
}

/// utoipa knows no references to parameters and headers, and no schema without a type that has
/// properties. Of alternatives without a type, openapi-typescript makes `unknown`.
#[test]
fn generators_understand_the_document() {
    fn check(node: &Yaml) {
        for (name, value) in node.as_hash().into_iter().flatten() {
            match (name.as_str().unwrap_or_default(), value.as_str()) {
                ("$ref", Some(to)) => assert!(
                    to.starts_with("#/components/schemas/")
                        || to.starts_with("#/components/responses/"),
                    "{to}"
                ),
                ("properties" | "enum", _) => assert!(node["type"].as_str().is_some(), "{node:?}"),
                (keyword, _) => {
                    assert!(!matches!(keyword, "anyOf" | "oneOf" | "const"), "{node:?}");
                }
            }
            check(value);
        }
        node.as_vec().into_iter().flatten().for_each(check);
    }
    check(&document());
}

/// By the statuses in the documentation of `ProblemKind`.
#[test]
fn the_document_lists_every_problem() {
    let document = document();
    let source = include_str!("../../../src/http/problem.rs");
    let (_, source) = source.split_once("pub enum ProblemKind {").expect("the enum");
    let source = source.split("\n}").next().expect("its end");
    let mut status = "";
    let mut found = 0;
    for line in source.lines().map(str::trim) {
        if let Some(said) = line.strip_prefix("/// ").filter(|said| said.as_bytes()[..3].is_ascii())
        {
            if said[..3].bytes().all(|byte| byte.is_ascii_digit()) {
                status = &said[..3];
            }
        } else if let Some(kind) = line.strip_suffix(',') {
            let uri = format!("problem:{kind}");
            let types = &response(&document, status)["content"]["application/problem+json"];
            let types = types["schema"]["allOf"][1]["properties"]["type"]["enum"].as_vec();
            let types = types.expect("a list");
            let is_listed = |one: &Yaml| one.as_str().is_some_and(|one| one.ends_with(&uri));
            assert!(types.iter().any(is_listed), "{kind}");
            found += 1;
        }
    }
    assert!(found >= 26, "{found}");
}

#[cfg(feature = "webhook")]
#[tokio::test]
async fn an_unsigned_webhook_gets_what_the_document_says() {
    let document = document();
    for site in everywhere().await {
        let unsigned = dynamodb_idempotency::http::Webhook::signed(|_, _| false);
        let api = site.paying(site.http().webhook(unsigned)).await;
        let answer = api.send(without(post("k", "{}"), "idempotency-key")).await;
        assert_eq!(answer.status(), 401);
        assert_documented(&document, &answer);
    }
}
