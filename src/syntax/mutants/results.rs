//! Faults in what functions return: a value that says nothing, where one is sure to compile.

use tree_sitter::Node;

use super::{super::children, Dialect, Finder, enclosing, last_named, shortened};

const RUST_FUNCTIONS: [&str; 2] = ["function_item", "closure_expression"];
const GO_FUNCTIONS: [&str; 3] = ["function_declaration", "method_declaration", "func_literal"];

impl Finder<'_> {
    pub(super) fn results(&mut self, node: Node) {
        match (self.dialect, node.kind()) {
            (Dialect::Python, "return_statement") => self.nothing(node.named_child(0), "None"),
            (Dialect::Script, "return_statement") => self.nothing(node.named_child(0), "undefined"),
            (Dialect::Script, "arrow_function") => {
                let body = node.child_by_field_name("body");
                self.nothing(body.filter(|body| body.kind() != "statement_block"), "undefined");
            }
            (Dialect::Rust, "return_expression") => self.rust_result(node.named_child(0)),
            (Dialect::Rust, "function_item") => {
                let last = node.child_by_field_name("body").and_then(last_named);
                self.rust_result(last.filter(|last| is_value(last.kind())));
            }
            (Dialect::Go, "return_statement") => self.go_result(node),
            _ => {}
        }
    }

    fn nothing(&mut self, value: Option<Node>, with: &str) {
        if let Some(value) = value.filter(|value| !matches!(self.source(*value), "None" | "undefined" | "null")) {
            self.replace(value, with);
        }
    }

    fn rust_result(&mut self, value: Option<Node>) {
        let Some(value) = value else { return };
        let result = enclosing(value, &RUST_FUNCTIONS).and_then(|node| node.child_by_field_name("return_type"));
        if let Some(with) = result.and_then(|result| rust_zero(self.source(result))) {
            self.replace(value, &with);
        }
    }

    fn go_result(&mut self, node: Node) {
        let function = enclosing(node, &GO_FUNCTIONS);
        let result = function.and_then(|function| function.child_by_field_name("result"));
        let (Some(values), Some(result)) = (node.named_child(0), result) else { return };
        let types = if result.kind() == "parameter_list" { parameter_types(result) } else { vec![result] };
        let zeros = types.iter().map(|name| go_zero(self.source(*name))).collect::<Option<Vec<&str>>>();
        let Some(zeros) = zeros.map(|zeros| zeros.join(", ")).filter(|zeros| *zeros != self.source(values)) else {
            return;
        };
        let used: Vec<&str> = children(values)
            .into_iter()
            .filter(|value| value.is_named() && value.kind() != "nil")
            .map(|value| self.source(value))
            .collect();
        // What a function computes must be used, or it does not compile.
        let n_used = if values.named_child_count() == 1 { types.len() } else { used.len() };
        let with = match used.as_slice() {
            [] => format!("return {zeros}"),
            _ => format!("{{ {} = {}; return {zeros} }}", vec!["_"; n_used].join(", "), used.join(", ")),
        };
        let what = format!("`{}` → `return {zeros}`", shortened(self.source(node)));
        self.add(node, node.byte_range(), &with, what);
    }
}

/// Says whether the last node of a Rust block is what the block is worth.
fn is_value(kind: &str) -> bool {
    kind.ends_with("expression") || kind.ends_with("literal") || kind.ends_with("identifier")
}

/// Returns the type of each value of a Go function.
fn parameter_types(list: Node<'_>) -> Vec<Node<'_>> {
    let mut types = Vec::new();
    for parameter in children(list).into_iter().filter(Node::is_named) {
        let Some(of) = parameter.child_by_field_name("type") else { continue };
        let n_names = children(parameter).iter().filter(|node| node.kind() == "identifier").count();
        types.extend(vec![of; n_names.max(1)]);
    }
    types
}

/// Returns an expression for a Rust type.
fn rust_zero(name: &str) -> Option<String> {
    const PLAIN: [&str; 4] = ["bool", "char", "String", "()"];
    const GENERIC: [&str; 7] = ["Option", "Vec", "HashMap", "HashSet", "BTreeMap", "BTreeSet", "VecDeque"];
    let name = name.trim();
    let (outer, inner) = match name.split_once('<') {
        Some((outer, inner)) => (outer, inner.strip_suffix('>').unwrap_or(inner)),
        None => (name, ""),
    };
    let outer = outer.rsplit("::").next().unwrap_or(outer);
    if outer == "Result" {
        let ok = first_argument(inner);
        return rust_zero(ok).map(|zero| if ok == "()" { "Ok(())".to_owned() } else { format!("Ok({zero})") });
    }
    if name.starts_with('&') && name.ends_with("str") {
        return Some("\"\"".to_owned());
    }
    let is_number = name
        .strip_prefix(['u', 'i', 'f'])
        .is_some_and(|size| size == "size" || (!size.is_empty() && size.parse::<u8>().is_ok()));
    let is_known = is_number || PLAIN.contains(&name) || (!inner.is_empty() && GENERIC.contains(&outer));
    is_known.then(|| "Default::default()".to_owned())
}

/// Returns the first of a list of type arguments.
fn first_argument(list: &str) -> &str {
    let mut depth = 0;
    for (at, character) in list.char_indices() {
        match character {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => return list[..at].trim(),
            _ => {}
        }
    }
    list.trim()
}

/// Returns an expression for a Go type.
fn go_zero(name: &str) -> Option<&'static str> {
    const NUMBERS: [&str; 15] = [
        "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "uintptr", "byte",
        "rune", "float32", "float64",
    ];
    const REFERENCES: [&str; 6] = ["*", "[]", "map[", "chan ", "func(", "interface{"];
    match name {
        "bool" => Some("false"),
        "string" => Some("\"\""),
        "error" | "any" => Some("nil"),
        _ if NUMBERS.contains(&name) => Some("0"),
        _ => REFERENCES.iter().any(|beginning| name.starts_with(beginning)).then_some("nil"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_that_are_known_have_a_value() {
        for (name, expected) in [
            ("bool", Some("Default::default()")),
            ("usize", Some("Default::default()")),
            ("f64", Some("Default::default()")),
            ("Option<Foo>", Some("Default::default()")),
            ("std::collections::BTreeMap<String, u8>", Some("Default::default()")),
            ("&'static str", Some("\"\"")),
            ("io::Result<()>", Some("Ok(())")),
            ("Result<Vec<(u8, u8)>, Error>", Some("Ok(Default::default())")),
            ("Result<Self, Error>", None),
            ("Self", None),
            ("impl Iterator<Item = u8>", None),
            ("u", None),
        ] {
            assert_eq!(rust_zero(name).as_deref(), expected, "{name}");
        }
        for (name, expected) in [
            ("bool", Some("false")),
            ("uint8", Some("0")),
            ("string", Some("\"\"")),
            ("error", Some("nil")),
            ("*Cart", Some("nil")),
            ("map[string]int", Some("nil")),
            ("Cart", None),
            ("time.Duration", None),
        ] {
            assert_eq!(go_zero(name), expected, "{name}");
        }
    }
}
