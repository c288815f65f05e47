//! Small faults to plant into a program, found in its syntax tree. Pure.
//!
//! What no test can be asked to notice is left alone: comments, docstrings, types, imports, version numbers, what is
//! written to a log, and the words of an error.

mod inert;
mod results;
mod rules;
#[cfg(test)]
mod tests;

use std::ops::Range;

use tree_sitter::Node;

use super::{children, parse, test_items};

/// Longest piece of program in a description, characters.
const MAX_SHOWN: usize = 40;

/// One fault: some bytes of a text in the place of others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mutant {
    start: usize,
    end: usize,
    with: String,
    /// Where it begins, from 1.
    pub line: u32,
    /// `` `==` → `!=` ``.
    pub what: String,
}

impl Mutant {
    /// Returns the text with the fault; `None` where that cannot be parsed.
    pub fn apply(&self, path: &[u8], text: &[u8]) -> Option<Vec<u8>> {
        let mutated = [&text[..self.start], self.with.as_bytes(), &text[self.end..]].concat();
        parse(path, &mutated).is_some().then_some(mutated)
    }
}

/// Returns the faults that begin on some lines (from 1), by place; none where the text cannot be parsed.
pub fn mutants(path: &[u8], text: &[u8], is_wanted: &dyn Fn(u32) -> bool) -> Vec<Mutant> {
    let Some(tree) = parse(path, text) else { return Vec::new() };
    let dialect = Dialect::of(path);
    let tests = if dialect == Dialect::Rust { test_items(text).unwrap_or_default() } else { Vec::new() };
    let tests = tests.iter().map(|item| item.start..item.end).collect();
    let mut finder = Finder { dialect, text, is_wanted, tests, found: Vec::new() };
    finder.visit(tree.root_node(), false);
    finder.found.sort();
    finder.found.dedup_by(|a, b| (a.start, a.end, &a.with) == (b.start, b.end, &b.with));
    finder.found
}

/// Where the grammars' rules differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Python,
    /// JavaScript and TypeScript.
    Script,
    Rust,
    Go,
}

impl Dialect {
    fn of(path: &[u8]) -> Dialect {
        let has = |ending: &[u8]| path.ends_with(ending);
        match () {
            () if has(b".rs") => Dialect::Rust,
            () if has(b".go") => Dialect::Go,
            () if has(b".py") || has(b".pyi") => Dialect::Python,
            () => Dialect::Script,
        }
    }
}

struct Finder<'t> {
    dialect: Dialect,
    text: &'t [u8],
    is_wanted: &'t dyn Fn(u32) -> bool,
    /// Tests among the program's items.
    tests: Vec<Range<usize>>,
    found: Vec<Mutant>,
}

impl<'t> Finder<'t> {
    fn visit(&mut self, node: Node, is_message: bool) {
        let is_test = self.tests.iter().any(|test| test.start <= node.start_byte() && node.end_byte() <= test.end);
        if is_test || self.is_inert(node) {
            return;
        }
        let is_message = is_message || self.is_message(node);
        self.operators(node);
        self.signs(node);
        self.literals(node, is_message);
        self.conditions(node);
        self.jumps(node);
        self.results(node);
        self.statements(node);
        for child in children(node) {
            self.visit(child, is_message);
        }
    }

    fn source(&self, node: Node) -> &'t str {
        std::str::from_utf8(&self.text[node.byte_range()]).unwrap_or_default()
    }

    /// Returns what a call or a macro calls.
    fn callee(&self, node: Node) -> Option<&'t str> {
        let name = match node.kind() {
            "await" | "await_expression" | "try_expression" => return self.callee(node.named_child(0)?),
            "call" | "call_expression" => "function",
            "new_expression" => "constructor",
            "macro_invocation" => "macro",
            _ => return None,
        };
        node.child_by_field_name(name).map(|callee| self.source(callee))
    }

    fn replace(&mut self, node: Node, with: &str) {
        let what = format!("`{}` → `{}`", shortened(self.source(node)), shortened(with));
        self.add(node, node.byte_range(), with, what);
    }

    fn add(&mut self, node: Node, range: Range<usize>, with: &str, what: String) {
        let line = u32::try_from(node.start_position().row + 1).unwrap_or(u32::MAX);
        if &self.text[range.clone()] != with.as_bytes() && (self.is_wanted)(line) {
            self.found.push(Mutant { start: range.start, end: range.end, with: with.to_owned(), line, what });
        }
    }
}

fn last_named(node: Node<'_>) -> Option<Node<'_>> {
    children(node).into_iter().rfind(Node::is_named)
}

fn enclosing<'n>(node: Node<'n>, kinds: &[&str]) -> Option<Node<'n>> {
    std::iter::successors(node.parent(), Node::parent).find(|parent| kinds.contains(&parent.kind()))
}

/// Returns a piece of program on one line.
fn shortened(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= MAX_SHOWN {
        return text;
    }
    text.chars().take(MAX_SHOWN - 1).chain(['…']).collect()
}
