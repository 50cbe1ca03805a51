//! Reads one file: the paths in its code, and the names that its `use` lines define.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The segments of a path: of a module from the crate root, or of a path in the source text.
pub(super) type Path = Vec<String>;

#[derive(Debug, Default)]
pub(super) struct Source {
    /// The names that `use` defines. With features, one name can have two definitions.
    pub(super) names: Vec<Use>,
    /// Paths of more than one segment outside of `use`.
    pub(super) paths: Vec<Named>,
    /// The first segments of paths outside of `use`, and single names.
    pub(super) used: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct Use {
    pub(super) name: String,
    pub(super) path: Named,
    /// Any form of `pub`: a re-export, unless the file uses the name itself.
    pub(super) public: bool,
}

#[derive(Debug)]
pub(super) struct Named {
    /// The module that contains the path: that of the file, or one inside the file.
    pub(super) within: Path,
    pub(super) path: Path,
    pub(super) line: usize,
}

impl Source {
    pub(super) fn read(module: &[String], text: &str) -> Result<Self> {
        let tokens: TokenStream = text
            .parse()
            .map_err(|error| anyhow::anyhow!("{error}"))
            .with_context(|| format!("{} is not valid Rust", module.join("::")))?;
        let mut source = Self::default();
        source.walk(module, tokens);
        Ok(source)
    }

    fn walk(&mut self, within: &[String], tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at += self.step(within, &tokens, at);
        }
    }

    /// Reads the item that starts at this token, and returns its number of tokens.
    fn step(&mut self, within: &[String], tokens: &[TokenTree], at: usize) -> usize {
        let rest = &tokens[at..];
        match &rest[0] {
            TokenTree::Punct(punct) if punct.as_char() == '#' => attribute(rest),
            TokenTree::Group(group) => {
                if !is_restriction(tokens, at) {
                    self.walk(within, group.stream());
                }
                1
            }
            TokenTree::Ident(word) if word == "use" => self.imports(within, tokens, at),
            TokenTree::Ident(word) if word == "mod" => self.module(within, rest),
            TokenTree::Ident(_) => self.path(within, tokens, at),
            TokenTree::Punct(_) | TokenTree::Literal(_) => 1,
        }
    }

    /// `mod x;` is not an import, and the contents of `mod x {}` belong to the file.
    fn module(&mut self, within: &[String], rest: &[TokenTree]) -> usize {
        let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) =
            (rest.get(1), rest.get(2))
        else {
            return 2;
        };
        let inner: Path = within.iter().cloned().chain([name.to_string()]).collect();
        self.walk(&inner, body.stream());
        3
    }

    fn imports(&mut self, within: &[String], tokens: &[TokenTree], at: usize) -> usize {
        let rest = &tokens[at..];
        let length = rest.iter().position(|token| is_punct(token, ';')).unwrap_or(1);
        let public = match at.checked_sub(1).map(|before| &tokens[before]) {
            Some(TokenTree::Ident(word)) => word == "pub",
            Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Parenthesis,
            _ => false,
        };
        self.tree(within, &mut Vec::new(), &rest[1..length.max(1)], public);
        length
    }

    /// One tree of a `use`: `a::{self, b as c, d::*}`.
    fn tree(&mut self, within: &[String], prefix: &mut Path, tree: &[TokenTree], public: bool) {
        let depth = prefix.len();
        let mut rest = tree;
        while let Some((first, more)) = rest.split_first() {
            match first {
                TokenTree::Ident(word) if word == "as" => {
                    let name = more.first().map(ToString::to_string).unwrap_or_default();
                    self.name(name, within, prefix, first, public);
                    break;
                }
                TokenTree::Ident(word) => {
                    prefix.push(word.to_string());
                    if more.is_empty() {
                        self.last(within, prefix, first, public);
                    }
                }
                TokenTree::Group(group) => {
                    let members: Vec<_> = group.stream().into_iter().collect();
                    for member in members.split(|token| is_punct(token, ',')) {
                        self.tree(within, prefix, member, public);
                    }
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    self.paths.push(named(within, prefix, first));
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            rest = more;
        }
        prefix.truncate(depth);
    }

    fn last(&mut self, within: &[String], path: &mut Path, at: &TokenTree, public: bool) {
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = path.last().cloned().unwrap_or_default();
        self.name(name, within, path, at, public);
    }

    fn name(
        &mut self,
        name: String,
        within: &[String],
        path: &[String],
        at: &TokenTree,
        public: bool,
    ) {
        let path = named(within, path, at);
        if name == "_" {
            self.paths.push(path);
        } else {
            self.names.push(Use { name, path, public });
        }
    }

    fn path(&mut self, within: &[String], tokens: &[TokenTree], at: usize) -> usize {
        let (path, length) = written(&tokens[at..]);
        if begins(&tokens[..at]) {
            self.used.extend(path.first().cloned());
            if path.len() > 1 {
                self.paths.push(named(within, &path, &tokens[at]));
            }
        }
        length
    }
}

/// Whether a path can start here: not after `.` or `::`, but after `..`.
fn begins(before: &[TokenTree]) -> bool {
    let twice = |wanted| {
        before.len() > 1 && before[before.len() - 2..].iter().all(|token| is_punct(token, wanted))
    };
    let field = before.last().is_some_and(|token| is_punct(token, '.')) && !twice('.');
    !field && !twice(':')
}

/// Returns the path at the start of the tokens, and its number of tokens.
fn written(tokens: &[TokenTree]) -> (Path, usize) {
    let mut path = vec![tokens[0].to_string()];
    let mut length = 1;
    while let [first, second, TokenTree::Ident(next), ..] = &tokens[length..]
        && is_punct(first, ':')
        && is_punct(second, ':')
    {
        path.push(next.to_string());
        length += 3;
    }
    (path, length)
}

fn named(within: &[String], path: &[String], at: &TokenTree) -> Named {
    Named { within: within.to_vec(), path: path.to_vec(), line: at.span().start().line }
}

/// Returns the length of an attribute, including its item if that is only for tests.
fn attribute(rest: &[TokenTree]) -> usize {
    let open = rest.iter().position(|token| matches!(token, TokenTree::Group(_)));
    let Some(open) = open.filter(|open| *open <= 2) else { return 1 };
    let written = rest[open].to_string().replace(char::is_whitespace, "");
    if !written.starts_with("[cfg(test") && !written.starts_with("[cfg(all(test") {
        return open + 1;
    }
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is_punct(token, ';'),
    };
    rest.iter().position(ends).map_or(rest.len(), |end| end + 1)
}

/// Skips the `(in crate::x)` of a visibility.
fn is_restriction(tokens: &[TokenTree], at: usize) -> bool {
    matches!(at.checked_sub(1).map(|before| &tokens[before]), Some(TokenTree::Ident(word)) if word == "pub")
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}
