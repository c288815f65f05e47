//! Faults in operators, literals, conditions, jumps and statements.

use std::ops::Range;

use tree_sitter::Node;

use super::{super::children, Dialect, Finder, inert::is_log, last_named, shortened};

/// Kinds of nodes whose operator is one of their tokens.
const OPERATIONS: [&str; 11] = [
    "comparison_operator",
    "boolean_operator",
    "binary_operator",
    "augmented_assignment",
    "binary_expression",
    "augmented_assignment_expression",
    "compound_assignment_expr",
    "update_expression",
    "assignment_statement",
    "inc_statement",
    "dec_statement",
];

/// Each is put in the other's place. `%` is left alone: most often it fills in a text.
const SWAPS: [(&str, &str); 18] = [
    ("==", "!="),
    ("===", "!=="),
    ("<", "<="),
    (">", ">="),
    ("in", "not in"),
    ("is", "is not"),
    ("and", "or"),
    ("&&", "||"),
    ("+", "-"),
    ("*", "/"),
    ("&", "|"),
    ("<<", ">>"),
    ("+=", "-="),
    ("*=", "/="),
    ("&=", "|="),
    ("++", "--"),
    ("true", "false"),
    ("True", "False"),
];
/// Operators whose swap is their negation.
const NEGATABLE: [&str; 8] = ["==", "!=", "===", "!==", "in", "not in", "is", "is not"];

fn swapped(text: &str) -> Option<&'static str> {
    SWAPS.iter().find_map(|&(one, other)| match text {
        _ if text == one => Some(other),
        _ if text == other => Some(one),
        _ => None,
    })
}

impl Finder<'_> {
    pub(super) fn operators(&mut self, node: Node) {
        let kind = node.kind();
        let is_step = matches!(kind, "update_expression" | "inc_statement" | "dec_statement" | "assignment_statement")
            || kind.starts_with("augmented_assignment");
        // Another step of a loop is most often one that never ends.
        let is_of_loop = node.parent().is_some_and(|parent| matches!(parent.kind(), "for_statement" | "for_clause"));
        if !OPERATIONS.contains(&kind) || (is_step && is_of_loop) {
            return;
        }
        let operands = ["left", "right"].map(|name| node.child_by_field_name(name));
        let joins_strings = operands.iter().flatten().any(|operand| operand.kind().contains("string"));
        for token in children(node).into_iter().filter(|token| !token.is_named()) {
            // Strings can be joined and nothing else; `not in` is Python's.
            let is_fixed = match token.kind() {
                "+" => joins_strings,
                "in" => self.dialect != Dialect::Python,
                _ => false,
            };
            let with = swapped(token.kind()).filter(|_| !is_fixed);
            if let Some(with) = with {
                self.replace(token, with);
            }
        }
    }

    /// Takes a negation or a minus away.
    pub(super) fn signs(&mut self, node: Node) {
        let is_signed = matches!(node.kind(), "not_operator" | "unary_expression" | "unary_operator")
            && node.child(0).is_some_and(|token| matches!(token.kind(), "not" | "!" | "-"));
        if let Some(operand) = last_named(node).filter(|_| is_signed) {
            self.replace(node, self.source(operand));
        }
    }

    pub(super) fn literals(&mut self, node: Node, is_message: bool) {
        let text = self.source(node);
        match node.kind() {
            "true" | "false" | "boolean_literal" if node.is_named() => {
                if let Some(with) = swapped(text) {
                    self.replace(node, with);
                }
            }
            "integer" | "number" | "integer_literal" | "int_literal" => {
                if let Some(with) = one_more(text) {
                    self.replace(node, &with);
                }
            }
            "string" | "template_string" | "string_literal" | "interpreted_string_literal"
                if node.is_named() && !is_message =>
            {
                if let Some(inner) = self.inner(node) {
                    let (with, what) = if inner.is_empty() { ("XX", "filled") } else { ("", "emptied") };
                    self.add(node, inner, with, format!("`{}` {what}", shortened(text)));
                }
            }
            _ => {}
        }
    }

    /// Returns where a string's content is.
    fn inner(&self, node: Node) -> Option<Range<usize>> {
        let parts = children(node);
        if let [first, .., last] = parts.as_slice()
            && (first.kind(), last.kind()) == ("string_start", "string_end")
        {
            return Some(first.end_byte()..last.start_byte());
        }
        let text = self.source(node);
        let start = text.find(['"', '\'', '`'])?;
        let end = text.rfind(['"', '\'', '`']).filter(|end| *end > start)?;
        Some(node.start_byte() + start + 1..node.start_byte() + end)
    }

    pub(super) fn conditions(&mut self, node: Node) {
        let condition = match node.kind() {
            "if_statement" | "elif_clause" | "if_expression" | "ternary_expression" => {
                node.child_by_field_name("condition")
            }
            // Python: value, condition, alternative.
            "conditional_expression" => node.named_child(1),
            "if_clause" => node.named_child(0),
            _ => None,
        };
        let Some(condition) = condition else { return };
        let is_bracketed = condition.kind() == "parenthesized_expression";
        let inner = condition.named_child(0).filter(|_| is_bracketed).unwrap_or(condition);
        if !is_negated_elsewhere(inner) {
            let text = self.source(condition);
            let with = match self.dialect {
                Dialect::Python => format!("not ({text})"),
                Dialect::Script if is_bracketed => format!("(!{text})"),
                Dialect::Script | Dialect::Rust | Dialect::Go => format!("!({text})"),
            };
            self.replace(condition, &with);
        }
    }

    pub(super) fn jumps(&mut self, node: Node) {
        let with = match node.kind() {
            "break_statement" | "break_expression" if is_in_loop(node) => "continue",
            "continue_statement" | "continue_expression" => "break",
            _ => return,
        };
        // Neither a label nor a value.
        if let (0, Some(token)) = (node.named_child_count(), node.child(0)) {
            self.replace(token, with);
        }
    }

    /// Takes statements away that are there for what they do.
    pub(super) fn statements(&mut self, node: Node) {
        let is_effect = match node.kind() {
            "raise_statement" | "delete_statement" | "throw_statement" | "inc_statement" | "dec_statement" => true,
            "expression_statement" => node.named_child(0).is_some_and(|inner| self.has_effect(inner)),
            "assignment_statement" => writes_into_something(node),
            _ => false,
        };
        let is_of_loop = node.parent().is_some_and(|parent| matches!(parent.kind(), "for_statement" | "for_clause"));
        if !is_effect || (is_of_loop && self.dialect == Dialect::Go) {
            return;
        }
        let with = match self.dialect {
            Dialect::Python => "pass",
            Dialect::Script => ";",
            Dialect::Rust | Dialect::Go => "{}",
        };
        self.add(node, node.byte_range(), with, format!("`{}` removed", shortened(self.source(node))));
    }

    fn has_effect(&self, inner: Node) -> bool {
        match inner.kind() {
            "call" | "call_expression" | "await" | "await_expression" | "try_expression" | "yield" => {
                self.callee(inner).is_none_or(|callee| !is_log(callee))
            }
            "macro_invocation" => self.callee(inner).is_some_and(|callee| callee.starts_with("write")),
            "augmented_assignment"
            | "augmented_assignment_expression"
            | "compound_assignment_expr"
            | "update_expression"
            | "assignment_expression" => true,
            "assignment" => writes_into_something(inner),
            _ => false,
        }
    }
}

/// Says whether an assignment changes an object, or a variable that is there without it.
fn writes_into_something(node: Node) -> bool {
    let is_step = node.child_by_field_name("operator").is_some_and(|operator| operator.kind() != "=");
    let left = node.child_by_field_name("left");
    let first = left.map(|left| left.named_child(0).filter(|_| left.kind() == "expression_list").unwrap_or(left));
    let is_place =
        |left: Node| matches!(left.kind(), "attribute" | "subscript" | "selector_expression" | "index_expression");
    is_step || first.is_some_and(is_place)
}

/// Says whether a condition cannot be negated, or a fault of another kind already does.
fn is_negated_elsewhere(condition: Node) -> bool {
    let tokens: Vec<&str> =
        children(condition).into_iter().filter(|node| !node.is_named()).map(|token| token.kind()).collect();
    match condition.kind() {
        "let_condition" | "let_chain" | "not_operator" | "true" | "false" | "boolean_literal" => true,
        "comparison_operator" => matches!(tokens[..], [one] if NEGATABLE.contains(&one)),
        "binary_expression" => matches!(tokens[..], [one] if one != "in" && NEGATABLE.contains(&one)),
        "unary_expression" => tokens.first() == Some(&"!"),
        _ => false,
    }
}

fn is_in_loop(node: Node) -> bool {
    let is_switch = |kind: &str| kind.contains("switch") || kind == "select_statement";
    let is_loop = |kind: &str| ["for_", "while_", "loop_", "do_"].iter().any(|beginning| kind.starts_with(beginning));
    let mut kinds = std::iter::successors(node.parent(), Node::parent).map(|parent| parent.kind());
    kinds.find(|kind| is_switch(kind) || is_loop(kind)).is_some_and(is_loop)
}

/// Returns the next whole number in the same notation; `None` for other notations than plain digits.
fn one_more(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let is_plain = suffix.is_empty() || suffix.starts_with(['u', 'i']) || suffix == "n";
    let n: u64 = digits.parse().ok().filter(|_| is_plain)?;
    Some(format!("{}{suffix}", n.checked_add(1)?))
}
