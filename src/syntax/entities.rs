//! The functions and types of a program: where they stand, how they are called, what is said of them. Pure.

use tree_sitter::Node;

use super::{children, is_comment, is_test_attribute, parse, row};

/// Longest signature and description that are kept, bytes.
const MAX_SIGNATURE: usize = 160;
const MAX_DOC: usize = 400;

/// A function or type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// With the types and functions around it, dotted.
    pub name: String,
    /// From 1, with decorators and attributes.
    pub first_line: u32,
    /// The last of its lines.
    pub last_line: u32,
    pub is_function: bool,
    /// Whether it is a test by its name or mark, or inside of one.
    pub is_test: bool,
    /// Whether a runner runs it as a test of its own, by the rules of Python, Rust and Go.
    pub is_case: bool,
    /// Name, parameters and result on one line; `None` for a type, and where that is too long.
    pub signature: Option<String>,
    /// First paragraph of its docstring or of the comment before it, on one line.
    pub doc: Option<String>,
}

impl Entity {
    pub fn holds(&self, line: u32) -> bool {
        (self.first_line..=self.last_line).contains(&line)
    }

    /// Returns the name without what is around it.
    pub fn own_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }
}

/// Returns the entities of a text, outer ones before those inside them; none where it has a syntax error.
pub fn entities(path: &[u8], text: &[u8]) -> Vec<Entity> {
    let mut found = Vec::new();
    if let Some(tree) = parse(path, text) {
        let top = Around { path, name: String::new(), is_test: false };
        collect(tree.root_node(), text, &top, &mut found);
    }
    found
}

/// Returns the innermost entity around a line.
pub fn innermost(entities: &[Entity], line: u32) -> Option<&Entity> {
    entities.iter().rev().find(|entity| entity.holds(line))
}

struct Around<'p> {
    path: &'p [u8],
    name: String,
    is_test: bool,
}

fn collect(node: Node, text: &[u8], around: &Around, found: &mut Vec<Entity>) {
    let list = children(node);
    for (n, child) in list.iter().enumerate() {
        let is_marked = || marks(&list[..n]).any(|mark| is_test_attribute(&text[mark.byte_range()]));
        let Some(name) = name_of(*child) else {
            let is_test = around.is_test || (child.kind() == "mod_item" && is_marked());
            collect(*child, text, &Around { name: around.name.clone(), is_test, ..*around }, found);
            continue;
        };
        // Without a generic type's parameters.
        let own = String::from_utf8_lossy(&text[name.byte_range()]);
        let own = own.split('<').next().unwrap_or_default().to_owned();
        let is_case = is_marked()
            || (around.path.ends_with(b".py") && own.starts_with("test"))
            || (around.path.ends_with(b".go") && own.starts_with("Test"));
        let is_test = around.is_test || is_case || own.to_ascii_lowercase().starts_with("test");
        let name = if around.name.is_empty() { own } else { format!("{}.{own}", around.name) };
        // A container without a text of its own (Rust's `impl`) only lends its name.
        if child.kind() != "impl_item" {
            let whole = if node.kind() == "decorated_definition" { node } else { *child };
            let first = marks(&list[..n]).last().map_or(whole, |mark| *mark);
            found.push(Entity {
                name: name.clone(),
                first_line: row(first.start_position().row),
                last_line: row(whole.end_position().row),
                is_function: is_function(*child),
                is_test,
                is_case,
                signature: signature(*child, text),
                doc: doc(*child, text),
            });
        }
        collect(*child, text, &Around { name, is_test, ..*around }, found);
    }
}

/// Returns the attributes right before an item, nearest first.
fn marks<'l, 't>(before: &'l [Node<'t>]) -> impl Iterator<Item = &'l Node<'t>> {
    before
        .iter()
        .rev()
        .take_while(|node| node.kind() == "attribute_item" || is_comment(**node))
        .filter(|node| node.kind() == "attribute_item")
}

fn name_of(node: Node<'_>) -> Option<Node<'_>> {
    match node.kind() {
        "impl_item" => node.child_by_field_name("type"),
        "class_definition"
        | "class_declaration"
        | "abstract_class_declaration"
        | "interface_declaration"
        | "enum_declaration"
        | "struct_item"
        | "enum_item"
        | "union_item"
        | "trait_item"
        | "type_spec" => node.child_by_field_name("name"),
        _ if is_function(node) => node.child_by_field_name("name"),
        _ => None,
    }
}

fn is_function(node: Node) -> bool {
    match node.kind() {
        "function_definition"
        | "function_declaration"
        | "generator_function_declaration"
        | "method_definition"
        | "method_declaration"
        | "function_item"
        | "function_signature_item"
        | "macro_definition" => true,
        "variable_declarator" => node.child_by_field_name("value").is_some_and(|value| {
            matches!(value.kind(), "arrow_function" | "function_expression" | "generator_function")
        }),
        _ => false,
    }
}

fn signature(node: Node, text: &[u8]) -> Option<String> {
    let name = node.child_by_field_name("name")?;
    let own = node.child_by_field_name("value").filter(|_| is_function(node)).unwrap_or(node);
    let parameters = own.child_by_field_name("parameters")?;
    let result = own.child_by_field_name("return_type").or_else(|| own.child_by_field_name("result"));
    let read = |from: usize, to: usize| String::from_utf8_lossy(&text[from..to]).into_owned();
    let parameters = read(parameters.start_byte(), result.unwrap_or(parameters).end_byte());
    let parameters = parameters.split_whitespace().collect::<Vec<_>>().join(" ");
    let parameters = parameters.replace("( ", "(").replace(", )", ")").replace(" )", ")");
    let signature = format!("{}{parameters}", read(name.start_byte(), name.end_byte()));
    (signature.len() <= MAX_SIGNATURE).then_some(signature)
}

fn doc(node: Node, text: &[u8]) -> Option<String> {
    let read = |node: Node| String::from_utf8_lossy(&text[node.byte_range()]).into_owned();
    let docstring = || {
        let first = node.child_by_field_name("body")?.named_child(0)?;
        let string = first.named_child(0).filter(|_| first.kind() == "expression_statement")?;
        let content = children(string).into_iter().find(|child| child.kind() == "string_content")?;
        Some(read(content))
    };
    let comment = || {
        let mut whole = node;
        while let Some(parent) = whole.parent().filter(|parent| is_wrapper(parent.kind())) {
            whole = parent;
        }
        let before = std::iter::successors(whole.prev_sibling(), Node::prev_sibling);
        let before = before.take_while(|node| is_comment(*node) || node.kind() == "attribute_item");
        let mut lines: Vec<String> = before.filter(|node| is_comment(*node)).map(read).collect();
        lines.reverse();
        (!lines.is_empty()).then(|| lines.join("\n"))
    };
    paragraph(&docstring().or_else(comment)?)
}

/// Whether a node stands for the one definition in it.
fn is_wrapper(kind: &str) -> bool {
    matches!(
        kind,
        "decorated_definition"
            | "export_statement"
            | "lexical_declaration"
            | "variable_declaration"
            | "type_declaration"
    )
}

/// Returns the first paragraph of a comment without its marks, on one line.
fn paragraph(comment: &str) -> Option<String> {
    let plain = |line: &str| {
        let line = line.trim().trim_start_matches("/**").trim_start_matches("/*").trim_end_matches("*/");
        line.trim_start_matches(['/', '*', '!', '#']).trim().to_owned()
    };
    let lines: Vec<String> = comment.trim().lines().map(plain).collect();
    let lines = lines.iter().skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
    let text = lines.map(String::as_str).collect::<Vec<_>>().join(" ");
    (!text.is_empty() && text.len() <= MAX_DOC).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, text: &str) -> Vec<(String, u32, u32)> {
        let found = entities(path.as_bytes(), text.as_bytes());
        found.into_iter().map(|entity| (entity.name, entity.first_line, entity.last_line)).collect()
    }

    fn owned(list: &[(&str, u32, u32)]) -> Vec<(String, u32, u32)> {
        list.iter().map(|(name, first, last)| ((*name).to_owned(), *first, *last)).collect()
    }

    #[test]
    fn every_language_has_functions_and_types() {
        let python = "class A:\n    @property\n    def b(self):\n        pass\n\ndef c():\n    pass\n";
        assert_eq!(named("a.py", python), owned(&[("A", 1, 4), ("A.b", 2, 4), ("c", 6, 7)]));
        let script = "class A {\n  b() {\n  }\n}\nconst c = () => {\n}\nfunction d() {}\n";
        assert_eq!(named("a.js", script), owned(&[("A", 1, 4), ("A.b", 2, 3), ("c", 5, 6), ("d", 7, 7)]));
        let rust = "struct A;\nimpl A {\n    #[inline]\n    fn b() {}\n}\n";
        assert_eq!(named("a.rs", rust), owned(&[("A", 1, 1), ("A.b", 3, 4)]));
        let go = "package a\n\ntype A struct{}\n\nfunc (a A) B() {\n}\n";
        assert_eq!(named("a.go", go), owned(&[("A", 3, 3), ("B", 5, 6)]));
    }

    #[test]
    fn signature_and_description_are_on_one_line_and_tests_are_told() {
        let python = "def parse(\n    text,\n    *,\n    strict=False,\n) -> int:\n    \"\"\"Read a text\n    as a number.\n\n    More.\n    \"\"\"\n";
        let found = entities(b"a.py", python.as_bytes());
        assert_eq!(found[0].signature.as_deref(), Some("parse(text, *, strict=False) -> int"));
        assert_eq!(found[0].doc.as_deref(), Some("Read a text as a number."));
        let rust = "/// Reads a text.\n///\n/// More.\npub fn parse(text: &str) -> u32 {\n    0\n}\n\n#[test]\nfn reads() {}\n\n#[cfg(test)]\nmod tests {\n    fn inner() {}\n}\n";
        let found = entities(b"a.rs", rust.as_bytes());
        assert_eq!(found[0].doc.as_deref(), Some("Reads a text."));
        assert_eq!(found[0].signature.as_deref(), Some("parse(text: &str) -> u32"));
        assert_eq!(found.iter().map(|entity| entity.is_test).collect::<Vec<_>>(), [false, true, true]);
        let go = "package a\n\n// Parse reads\n// a text.\nfunc Parse(text string) (int, error) { return 0, nil }\n";
        let found = entities(b"a.go", go.as_bytes());
        assert_eq!(found[0].doc.as_deref(), Some("Parse reads a text."));
        assert_eq!(found[0].signature.as_deref(), Some("Parse(text string) (int, error)"));
        let script = "/**\n * Reads a text.\n */\nconst parse = (text, { strict }) => 0\n";
        let found = entities(b"a.js", script.as_bytes());
        assert_eq!(found[0].signature.as_deref(), Some("parse(text, { strict })"));
        assert_eq!(found[0].doc.as_deref(), Some("Reads a text."));
        assert_eq!(innermost(&found, 4).map(Entity::own_name), Some("parse"));
    }
}
