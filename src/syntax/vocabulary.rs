//! The names, texts and numbers of a program, each with the part it plays where it stands. Pure.
//!
//! One walk serves all languages: [`place`] says which part a child plays in its parent, and what it says holds for all
//! that lies below until it says something else. Docstrings and comments are no part of a program.

use tree_sitter::Node;

use super::{children, is_comment, parse, row};

/// What a name is where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    Function,
    /// Class, structure, enumeration, trait, interface, alias.
    Type,
    Method,
    Module,
    /// A field, property or variant as its type declares it, or set on an object.
    Attribute,
    /// An attribute that a method sets on its own object.
    OwnAttribute,
    Parameter,
    /// A variable of a module.
    Constant,
    /// A variable of a function, or another name for something imported.
    Local,
    /// Read off an object, a module or a path; imported.
    Member,
    /// An argument or a field that is given by name.
    Keyword,
    /// The key of an object literal, which is given and defined at once.
    Key,
    /// Any other use.
    Free,
    /// What an assignment sets, until its place says what that is; never returned.
    Assigned,
}

/// A name where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub part: Part,
    pub text: String,
    /// From 1.
    pub line: u32,
    /// The definition around it, dotted; empty at the top level.
    pub owner: String,
}

/// A string literal: the texts between what is filled in when the program runs, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    pub parts: Vec<String>,
    /// From 1.
    pub line: u32,
    pub last_line: u32,
}

/// Everything that a program's text names, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    pub words: Vec<Word>,
    pub texts: Vec<Literal>,
    /// As they are written.
    pub numbers: Vec<Word>,
}

/// Returns a program's vocabulary; `None` where its language is not known or it has a syntax error.
pub fn vocabulary(path: &[u8], text: &[u8]) -> Option<Vocabulary> {
    let tree = parse(path, text)?;
    let mut walk = Walk { text, found: Vocabulary::default() };
    walk.node(tree.root_node(), &Context { part: Part::Free, scope: Scope::Module, owner: String::new() });
    Some(walk.found)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Module,
    Type,
    Function,
}

/// What holds below a node until a child says something else.
#[derive(Clone, Debug)]
struct Context {
    part: Part,
    scope: Scope,
    owner: String,
}

struct Walk<'t> {
    text: &'t [u8],
    found: Vocabulary,
}

impl Walk<'_> {
    fn node(&mut self, node: Node, context: &Context) {
        if is_comment(node) || is_docstring(node) {
            return;
        }
        if is_string(node.kind()) {
            return self.string(node, context);
        }
        if is_number(node.kind()) {
            self.found.numbers.push(self.word(node, Part::Free, context));
            return;
        }
        if is_name(node.kind()) {
            let part = settle(node, context);
            let word = self.word(node, part, context);
            self.found.words.push(word);
            return;
        }
        if node.kind() == "token_tree" {
            return self.tokens(node, context);
        }
        let mut cursor = node.walk();
        let mut more = cursor.goto_first_child();
        while more {
            let child = cursor.node();
            let context = self.below(node, cursor.field_name(), child, context);
            self.node(child, &context);
            more = cursor.goto_next_sibling();
        }
    }

    /// Returns what holds for a child.
    fn below(&self, node: Node, field: Option<&str>, child: Node, context: &Context) -> Context {
        let mut below = context.clone();
        let place = place(node.kind(), field, child.kind());
        if let Some(part) = place {
            below.part = match (part, context.part) {
                (Part::Member, Part::Assigned) if self.is_of_own_object(node) => Part::OwnAttribute,
                (Part::Member, Part::Assigned) if is_access(node.kind()) => Part::Attribute,
                (Part::Function, _) if context.scope == Scope::Type => Part::Method,
                (part, _) => part,
            };
        }
        if let Some(scope) = scope(node, field) {
            below.scope = scope;
            if place.is_none() {
                below.part = Part::Free;
            }
            let name = node.child_by_field_name("name").or_else(|| node.child_by_field_name("type"));
            if let Some(name) = name {
                // Without a generic type's parameters.
                let name = self.read(name).split('<').next().unwrap_or_default().to_owned();
                below.owner = if context.owner.is_empty() { name } else { format!("{}.{name}", context.owner) };
            }
        }
        below
    }

    fn is_of_own_object(&self, node: Node) -> bool {
        let object = node.child_by_field_name("object").or_else(|| node.child_by_field_name("value"));
        object.is_some_and(|object| ["self", "this", "cls"].contains(&self.read(object).as_str()))
    }

    /// Reads the tokens of a macro call, of which no more is known than their order.
    fn tokens(&mut self, node: Node, context: &Context) {
        let list = children(node);
        for (n, token) in list.iter().enumerate() {
            let kind_at = |at: Option<usize>| at.and_then(|at| list.get(at)).map_or("", |token| token.kind());
            let part = match (kind_at(n.checked_sub(1)), kind_at(Some(n + 1))) {
                ("." | "::", _) => Part::Member,
                (_, ":") => Part::Keyword,
                ("let" | "|" | "mut", _) => Part::Local,
                _ => Part::Free,
            };
            self.node(*token, &Context { part, ..context.clone() });
        }
    }

    fn string(&mut self, node: Node, context: &Context) {
        let mut parts = vec![String::new()];
        self.string_parts(node, &mut parts, context);
        let last_line = row(node.end_position().row);
        self.found.texts.push(Literal { parts, line: line(node), last_line });
    }

    fn string_parts(&mut self, node: Node, parts: &mut Vec<String>, context: &Context) {
        let start = node.child(0).filter(|child| child.kind() == "string_start").map(|start| self.read(start));
        let is_raw = node.kind().starts_with("raw") || start.is_some_and(|start| start.contains(['r', 'R']));
        for child in children(node) {
            match child.kind() {
                "string" => self.string_parts(child, parts, context),
                "interpolation" | "template_substitution" => {
                    parts.push(String::new());
                    self.node(child, &Context { part: Part::Free, ..context.clone() });
                }
                kind if kind.ends_with("content") || kind == "string_fragment" || kind == "escape_sequence" => {
                    let text = self.read(child);
                    let text = if is_raw { text } else { unescaped(&text) };
                    parts.last_mut().expect("there is at least one part").push_str(&text);
                }
                _ => {}
            }
        }
    }

    fn word(&self, node: Node, part: Part, context: &Context) -> Word {
        Word { part, text: self.read(node), line: line(node), owner: context.owner.clone() }
    }

    fn read(&self, node: Node) -> String {
        String::from_utf8_lossy(&self.text[node.byte_range()]).into_owned()
    }
}

/// Returns what a name is that plays a part where it stands.
fn settle(node: Node, context: &Context) -> Part {
    match (context.part, context.scope) {
        (Part::Assigned, Scope::Module) if node.parent().is_some_and(|parent| has_function_value(parent)) => {
            Part::Function
        }
        (Part::Assigned, Scope::Module) => Part::Constant,
        (Part::Assigned, Scope::Type) => Part::Attribute,
        (Part::Assigned, Scope::Function) => Part::Local,
        (part, _) => part,
    }
}

fn line(node: Node) -> u32 {
    row(node.start_position().row)
}

fn is_name(kind: &str) -> bool {
    matches!(
        kind,
        "identifier"
            | "property_identifier"
            | "private_property_identifier"
            | "shorthand_property_identifier"
            | "shorthand_property_identifier_pattern"
            | "type_identifier"
            | "field_identifier"
            | "package_identifier"
    )
}

fn is_string(kind: &str) -> bool {
    matches!(
        kind,
        "string"
            | "concatenated_string"
            | "template_string"
            | "string_literal"
            | "raw_string_literal"
            | "interpreted_string_literal"
    )
}

fn is_number(kind: &str) -> bool {
    matches!(kind, "integer" | "float" | "number" | "integer_literal" | "float_literal" | "int_literal")
}

/// Whether a node reads or sets something of an object.
fn is_access(kind: &str) -> bool {
    matches!(kind, "attribute" | "member_expression" | "field_expression" | "selector_expression")
}

/// Whether a statement is a text that nothing uses.
fn is_docstring(node: Node) -> bool {
    node.kind() == "expression_statement"
        && node.child_count() == 1
        && node.child(0).is_some_and(|child| matches!(child.kind(), "string" | "concatenated_string"))
}

/// Whether a variable is declared as a function (`const f = () => 1`).
fn has_function_value(declaration: Node) -> bool {
    let value = declaration.child_by_field_name("value");
    value.is_some_and(|value| matches!(value.kind(), "arrow_function" | "function_expression" | "generator_function"))
}

/// Returns the part that a child plays in its parent, where that differs from what holds around the parent.
#[expect(
    clippy::unnested_or_patterns,
    clippy::match_same_arms,
    reason = "it is a table, a row for each kind of thing, in an order that counts"
)]
fn place(parent: &str, field: Option<&str>, child: &str) -> Option<Part> {
    Some(match (parent, field.unwrap_or_default()) {
        // Python, JavaScript, Rust, Go.
        (
            "function_definition"
            | "function_declaration"
            | "generator_function_declaration"
            | "function_item"
            | "function_signature_item"
            | "macro_definition",
            "name",
        ) => Part::Function,
        (
            "method_definition"
            | "method_signature"
            | "abstract_method_signature"
            | "method_declaration"
            | "method_elem",
            "name",
        ) => Part::Method,
        (
            "class_definition"
            | "class_declaration"
            | "abstract_class_declaration"
            | "interface_declaration"
            | "type_alias_declaration"
            | "enum_declaration"
            | "struct_item"
            | "enum_item"
            | "union_item"
            | "trait_item"
            | "type_item"
            | "type_spec"
            | "type_alias",
            "name",
        ) => Part::Type,
        ("mod_item", "name") => Part::Module,
        ("field_declaration" | "public_field_definition" | "property_signature" | "enum_variant", "name")
        | ("field_definition", "property")
        | ("enum_body", _) => Part::Attribute,

        ("parameters", _) if child != "parameter" && child != "self_parameter" => Part::Parameter,
        ("formal_parameters", _) | ("arrow_function", "parameter") => Part::Parameter,
        ("lambda_parameters" | "closure_parameters", _)
        | ("parameter" | "let_declaration" | "let_condition" | "for_expression" | "match_arm", "pattern")
        | ("parameter_declaration" | "variadic_parameter_declaration" | "type_parameter_declaration", "name")
        | ("short_var_declaration" | "range_clause" | "for_statement" | "for_in_clause" | "for_in_statement", "left")
        | ("catch_clause", "parameter")
        | ("aliased_import" | "use_as_clause" | "import_specifier", "alias")
        | ("import_spec", "name")
        | ("named_expression", "name")
        | ("as_pattern", "alias")
        | ("as_pattern_target" | "import_clause" | "namespace_import" | "type_parameters", _) => Part::Local,
        ("assignment" | "assignment_expression" | "type_alias_statement", "left")
        | ("variable_declarator" | "var_spec" | "const_spec" | "const_item" | "static_item", "name") => Part::Assigned,

        ("attribute", "attribute")
        | ("member_expression", "property")
        | ("field_expression" | "selector_expression", "field")
        | ("scoped_identifier" | "scoped_type_identifier" | "qualified_type", "name")
        | ("import_specifier" | "export_specifier", "name")
        | ("import_from_statement" | "import_statement" | "aliased_import" | "use_declaration", _) => Part::Member,
        // `const { strict } = options` reads an option, `({ strict })` takes one.
        ("object_pattern", _) if child == "shorthand_property_identifier_pattern" => Part::Member,
        ("object_assignment_pattern", "left") | ("pair_pattern", "key") => Part::Member,

        ("keyword_argument", "name")
        | ("field_initializer", "field")
        | ("shorthand_field_initializer", _)
        | ("field_pattern", "name")
        | ("keyed_element", "key") => Part::Keyword,
        ("pair", "key") if child == "property_identifier" => Part::Key,
        ("object", _) if child == "shorthand_property_identifier" => Part::Key,

        ("attribute" | "member_expression", "object")
        | ("field_expression", "value")
        | ("selector_expression", "operand")
        | ("subscript" | "subscript_expression" | "index_expression", _)
        | ("default_parameter" | "typed_default_parameter" | "variable_declarator", "value")
        | ("assignment_pattern" | "object_assignment_pattern", "right")
        | ("match_arm" | "keyed_element" | "pair" | "field_initializer", "value")
        | (_, "type" | "return_type" | "result" | "body" | "condition") => Part::Free,
        ("call" | "call_expression", _) => Part::Free,
        _ => return None,
    })
}

/// Returns the scope that begins with a child of a definition.
fn scope(node: Node, field: Option<&str>) -> Option<Scope> {
    let is_inside = matches!(field, Some("body" | "parameters" | "type" | "parameter" | "value"));
    match node.kind() {
        "class_definition"
        | "class_declaration"
        | "abstract_class_declaration"
        | "interface_declaration"
        | "enum_declaration"
        | "class"
        | "struct_item"
        | "enum_item"
        | "trait_item"
        | "impl_item"
        | "type_spec"
            if is_inside =>
        {
            Some(Scope::Type)
        }
        "function_definition"
        | "function_declaration"
        | "generator_function_declaration"
        | "method_definition"
        | "function_item"
        | "function_signature_item"
        | "method_declaration"
        | "lambda"
        | "arrow_function"
        | "function_expression"
        | "generator_function"
        | "closure_expression"
        | "func_literal"
            if is_inside =>
        {
            Some(Scope::Function)
        }
        "variable_declarator" if field == Some("value") && has_function_value(node) => Some(Scope::Function),
        _ => None,
    }
}

/// Decodes the escapes that the four languages share; others stay as they are.
fn unescaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            result.push(character);
            continue;
        }
        match rest.next() {
            Some('n') => result.push('\n'),
            Some('t') => result.push('\t'),
            Some('r') => result.push('\r'),
            Some('\n') => {}
            Some(quote @ ('\\' | '"' | '\'' | '`' | '$')) => result.push(quote),
            Some(other) => result.extend(['\\', other]),
            None => result.push('\\'),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names that play a part, without repetition.
    fn names(path: &str, text: &str, part: Part) -> Vec<String> {
        let found = vocabulary(path.as_bytes(), text.as_bytes()).unwrap();
        let mut names: Vec<String> =
            found.words.into_iter().filter(|word| word.part == part).map(|word| word.text).collect();
        names.sort();
        names.dedup();
        names
    }

    #[test]
    fn python_names_have_their_parts() {
        let text = "import re\nfrom lib.core import parse as p, Thing\nLIMIT = 5\n\nclass A(Thing):\n    kind = 'x'\n\n    def run(self, data, *, strict=LIMIT, **more):\n        \"\"\"Doc `gone`.\"\"\"\n        self.state = p(data, deep=True)\n        for one in data.items():\n            total, other.size = one, 2\n        return lambda q: q\n";
        assert_eq!(names("a.py", text, Part::Function), [""; 0]);
        assert_eq!(names("a.py", text, Part::Method), ["run"]);
        assert_eq!(names("a.py", text, Part::Type), ["A"]);
        assert_eq!(names("a.py", text, Part::Parameter), ["data", "more", "self", "strict"]);
        assert_eq!(names("a.py", text, Part::Attribute), ["kind", "size"]);
        assert_eq!(names("a.py", text, Part::OwnAttribute), ["state"]);
        assert_eq!(names("a.py", text, Part::Constant), ["LIMIT"]);
        assert_eq!(names("a.py", text, Part::Local), ["one", "p", "q", "total"]);
        assert_eq!(names("a.py", text, Part::Member), ["Thing", "core", "items", "lib", "parse", "re"]);
        assert_eq!(names("a.py", text, Part::Keyword), ["deep"]);
        let owner = vocabulary(b"a.py", text.as_bytes()).unwrap().words.into_iter().find(|word| word.text == "strict");
        assert_eq!(owner.unwrap().owner, "A.run");
    }

    #[test]
    fn javascript_and_typescript_names_have_their_parts() {
        let text = "const { parse, Range: R } = require('../lib')\nconst wide = (a, { strict = false }) => a.deep\nclass Box extends R {\n  size = 1\n  open(key) { this.state = key; const own = { loose: true, key } }\n}\nexports.shut = function () {}\nmodule.exports = { wide }\n";
        assert_eq!(names("a.js", text, Part::Function), ["wide"]);
        assert_eq!(names("a.js", text, Part::Method), ["open"]);
        assert_eq!(names("a.js", text, Part::Type), ["Box"]);
        assert_eq!(names("a.js", text, Part::Attribute), ["exports", "shut", "size"]);
        assert_eq!(names("a.js", text, Part::OwnAttribute), ["state"]);
        assert_eq!(names("a.js", text, Part::Local), ["own"]);
        assert_eq!(names("a.js", text, Part::Key), ["key", "loose", "wide"]);
        assert_eq!(names("a.js", text, Part::Member), ["Range", "deep", "parse", "strict"]);
        assert_eq!(names("a.js", text, Part::Parameter), ["a", "key"]);
        let text = "export interface Options { strict?: boolean }\nexport enum Mode { Fast, Slow = 2 }\nexport function run(options: Options): Mode { return Mode.Fast }\n";
        assert_eq!(names("a.ts", text, Part::Type), ["Mode", "Options"]);
        assert_eq!(names("a.ts", text, Part::Function), ["run"]);
        assert_eq!(names("a.ts", text, Part::Parameter), ["options"]);
        assert!(names("a.ts", text, Part::Attribute).contains(&"strict".to_owned()));
    }

    #[test]
    fn rust_names_have_their_parts_also_in_macros() {
        let text = "use crate::core::{Thing, parse as p};\npub const LIMIT: u32 = 5;\npub struct Config { pub strict: bool }\npub enum Mode { Fast }\nimpl Config {\n    pub fn run(&self, data: &str) -> u32 {\n        let total = self.strict;\n        let made = Config { deep: true };\n        assert_eq!(data.widen(other), Mode::Slow { size: 1 });\n        p(|q| q)\n    }\n}\npub fn free() {}\n";
        assert_eq!(names("a.rs", text, Part::Function), ["free"]);
        assert_eq!(names("a.rs", text, Part::Method), ["run"]);
        assert_eq!(names("a.rs", text, Part::Type), ["Config", "Mode"]);
        assert_eq!(names("a.rs", text, Part::Attribute), ["Fast", "strict"]);
        assert_eq!(names("a.rs", text, Part::Constant), ["LIMIT"]);
        assert_eq!(names("a.rs", text, Part::Local), ["data", "made", "p", "q", "total"]);
        assert_eq!(names("a.rs", text, Part::Keyword), ["deep", "size"]);
        let members = names("a.rs", text, Part::Member);
        for name in ["Thing", "parse", "strict", "widen", "Slow"] {
            assert!(members.contains(&name.to_owned()), "{name}: {members:?}");
        }
    }

    #[test]
    fn go_names_have_their_parts() {
        let text = "package a\n\nimport lib \"example.org/lib\"\n\nconst Limit = 5\n\ntype Config struct {\n\tStrict bool\n}\n\ntype Runner interface {\n\tRun(data string) error\n}\n\nfunc (c *Config) Open(data string) (err error) {\n\ttotal, err := lib.Parse(data)\n\t_ = Config{Strict: true}\n\treturn total.Deep\n}\n\nfunc Free() {}\n";
        assert_eq!(names("a.go", text, Part::Function), ["Free"]);
        assert_eq!(names("a.go", text, Part::Method), ["Open", "Run"]);
        assert_eq!(names("a.go", text, Part::Type), ["Config", "Runner"]);
        assert_eq!(names("a.go", text, Part::Attribute), ["Strict"]);
        assert_eq!(names("a.go", text, Part::Constant), ["Limit"]);
        assert_eq!(names("a.go", text, Part::Keyword), ["Strict"]);
        assert_eq!(names("a.go", text, Part::Member), ["Deep", "Parse"]);
        assert!(names("a.go", text, Part::Local).contains(&"total".to_owned()));
    }

    #[test]
    fn texts_are_read_with_what_is_filled_in_left_out() {
        let texts = |path: &str, text: &str| -> Vec<Vec<String>> {
            let found = vocabulary(path.as_bytes(), text.as_bytes()).unwrap();
            found.texts.into_iter().map(|literal| literal.parts).collect()
        };
        let python = "'''Doc.'''\nx = f'got {size!r} of' \" it\\n\" + r'a\\n'\n";
        assert_eq!(texts("a.py", python), [vec!["got ".to_owned(), " of it\n".to_owned()], vec!["a\\n".to_owned()]]);
        assert_eq!(
            texts("a.js", "x(`a ${b} c`, 'd\\'e')"),
            [vec!["a ".to_owned(), " c".to_owned()], vec!["d'e".to_owned()]]
        );
        assert_eq!(texts("a.rs", "fn f() { panic!(\"bad {}\", r#\"a\\b\"#) }"), [["bad {}"], ["a\\b"]]);
        assert_eq!(texts("a.go", "package a\nvar x = \"a\\tb\" + `c\\d`\n"), [["a\tb"], ["c\\d"]]);
        let numbers = vocabulary(b"a.py", b"x = 42 + 1.5\n").unwrap().numbers;
        assert_eq!(numbers.iter().map(|number| number.text.as_str()).collect::<Vec<_>>(), ["42", "1.5"]);
    }
}
