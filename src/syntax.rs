//! Source text as a syntax tree: the only tree-sitter. Pure.
//!
//! A text that does not parse without errors gives no answer, and callers then take the careful way.

pub mod entities;
pub mod failing;
pub mod mutants;
pub mod vocabulary;

use tree_sitter::{Language, Node, Parser, Tree};

/// The grammar for a path, by its ending.
fn grammar(path: &[u8]) -> Option<Language> {
    let ending = path.rsplit(|&byte| byte == b'.').next().filter(|ending| ending.len() < path.len())?;
    Some(match ending {
        b"rs" => tree_sitter_rust::LANGUAGE.into(),
        b"go" => tree_sitter_go::LANGUAGE.into(),
        b"js" | b"mjs" | b"cjs" | b"jsx" => tree_sitter_javascript::LANGUAGE.into(),
        b"ts" | b"mts" | b"cts" => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
        b"tsx" => tree_sitter_typescript::LANGUAGE_TSX.into(),
        b"py" | b"pyi" => tree_sitter_python::LANGUAGE.into(),
        _ => return None,
    })
}

/// Parses a text; `None` where there is no grammar or the text has a syntax error.
fn parse(path: &[u8], text: &[u8]) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&grammar(path)?).ok()?;
    parser.parse(text, None).filter(|tree| !tree.root_node().has_error())
}

/// Says whether two texts differ in comments and layout alone. In doubt they do not.
///
/// Python's docstrings are comments here, its indentation is none.
pub fn is_same_code(path: &[u8], old: &[u8], new: &[u8]) -> bool {
    let (Some(left), Some(right)) = (parse(path, old), parse(path, new)) else { return false };
    let (mut one, mut other) = (Vec::new(), Vec::new());
    leaves(left.root_node(), old, &mut one);
    leaves(right.root_node(), new, &mut other);
    one == other
}

/// Returns a text with blanks for its comments and Python's docstrings; as it is where it does not parse.
pub fn without_comments(path: &[u8], text: &[u8]) -> Vec<u8> {
    fn blank(node: Node, into: &mut [u8]) {
        if is_comment(node) || is_docstring(node) {
            into[node.byte_range()].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        } else {
            for child in children(node) {
                blank(child, into);
            }
        }
    }
    let mut result = text.to_vec();
    if let Some(tree) = parse(path, text) {
        blank(tree.root_node(), &mut result);
    }
    result
}

/// Collects kind and text of what a program is made of.
fn leaves<'t>(node: Node, text: &'t [u8], into: &mut Vec<(u16, &'t [u8])>) {
    if is_comment(node) || is_docstring(node) {
        return;
    }
    // Strings and template texts have leaves that leave out what lies between them.
    if node.child_count() == 0 || node.kind().contains("string") {
        into.push((node.kind_id(), &text[node.byte_range()]));
        return;
    }
    for child in children(node) {
        leaves(child, text, into);
    }
    // Where a block ends shows in nothing but the layout.
    if node.kind() == "block" {
        into.push((node.kind_id(), b""));
    }
}

/// Says whether a statement of Python is nothing but a string.
fn is_docstring(node: Node) -> bool {
    let only = node.named_child(0).filter(|_| node.named_child_count() == 1);
    node.kind() == "expression_statement"
        && only.is_some_and(|only| {
            only.kind() == "concatenated_string" || only.child(0).is_some_and(|start| start.kind() == "string_start")
        })
}

fn is_comment(node: Node) -> bool {
    node.kind().ends_with("comment")
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).collect()
}

/// Returns the number of a line, from 1.
fn row(row: usize) -> u32 {
    u32::try_from(row + 1).unwrap_or(u32::MAX)
}

/// An item of a Rust file with the attributes and comments that belong to it.
#[derive(Debug)]
struct Item {
    /// Whole lines.
    start: usize,
    end: usize,
    /// Kind and name, the same on both sides of a change.
    key: String,
}

/// Returns the test items of a Rust file: what `#[cfg(test)]` guards and `#[test]` marks, at the top level.
fn test_items(text: &[u8]) -> Option<Vec<Item>> {
    let tree = parse(b"x.rs", text)?;
    let mut items: Vec<Item> = Vec::new();
    let (mut start, mut is_test) = (None, false);
    for node in children(tree.root_node()) {
        let source = &text[node.byte_range()];
        match node.kind() {
            "attribute_item" => {
                start.get_or_insert(node.start_byte());
                is_test |= is_test_attribute(source);
            }
            // A comment belongs to the item that follows it at once.
            "line_comment" | "block_comment" => {
                if start.is_none() && !is_followed_by_blank_line(text, node.end_byte()) {
                    start = Some(node.start_byte());
                } else if !is_test && is_followed_by_blank_line(text, node.end_byte()) {
                    start = None;
                }
            }
            kind => {
                if is_test {
                    let name = node.child_by_field_name("name").or_else(|| node.child_by_field_name("type"));
                    let name = name.map_or(source, |name| &text[name.byte_range()]);
                    let mut key = format!("{kind} {}", String::from_utf8_lossy(name));
                    let n = items.iter().filter(|item| item.key == key).count();
                    key.push_str(&"'".repeat(n));
                    let start = line_start(text, start.unwrap_or(node.start_byte()));
                    items.push(Item { start, end: line_end(text, node.end_byte()), key });
                }
                (start, is_test) = (None, false);
            }
        }
    }
    Some(items)
}

fn is_test_attribute(attribute: &[u8]) -> bool {
    let text: String = String::from_utf8_lossy(attribute).split_whitespace().collect();
    let inner = text.trim_start_matches("#[").trim_end_matches(']');
    let name = inner.split(['(', '=']).next().unwrap_or_default();
    let guards = |inner: &str| inner == "cfg(test)" || inner.starts_with("cfg(all(test,");
    guards(inner) || matches!(name.rsplit("::").next(), Some("test" | "rstest" | "test_case" | "quickcheck"))
}

fn is_followed_by_blank_line(text: &[u8], end: usize) -> bool {
    let rest = &text[line_end(text, end)..];
    rest.split(|&byte| byte == b'\n').next().is_none_or(|line| line.iter().all(u8::is_ascii_whitespace))
}

fn line_start(text: &[u8], at: usize) -> usize {
    text[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1)
}

/// Returns the end of the line that holds the byte before `at`, its newline included.
fn line_end(text: &[u8], at: usize) -> usize {
    if at > 0 && text[at - 1] == b'\n' {
        return at;
    }
    text[at..].iter().position(|&byte| byte == b'\n').map_or(text.len(), |newline| at + newline + 1)
}

/// Returns a Rust file with the program of `code` and the test items of `tests`; `None` where that cannot be told.
///
/// A test item keeps its place where `code` has one of its name, and goes to the end where it has not. Applied to two
/// versions of a file that differ in tests alone it gives exactly the other version.
pub fn with_tests_of(code: &[u8], tests: &[u8]) -> Option<Vec<u8>> {
    let (own, wanted) = (test_items(code)?, test_items(tests)?);
    let text_of = |item: &Item| &tests[item.start..item.end];
    // The same items in the same places differ by nothing else than their texts, also in the gaps between them.
    let mut result = Vec::new();
    let mut at = 0;
    let mut placed = vec![false; wanted.len()];
    for item in &own {
        result.extend_from_slice(&code[at..item.start]);
        at = item.end;
        let Some(n) = wanted.iter().position(|other| other.key == item.key) else {
            // What is gone takes the blank line before it along.
            if result.ends_with(b"\n\n") {
                result.pop();
            }
            continue;
        };
        result.extend_from_slice(text_of(&wanted[n]));
        placed[n] = true;
        for (follower, done) in wanted[n + 1..].iter().zip(placed[n + 1..].iter_mut()) {
            if *done || own.iter().any(|other| other.key == follower.key) {
                break;
            }
            separate(&mut result);
            result.extend_from_slice(text_of(follower));
            *done = true;
        }
    }
    result.extend_from_slice(&code[at..]);
    for (item, _) in wanted.iter().zip(&placed).filter(|(_, done)| !**done) {
        separate(&mut result);
        result.extend_from_slice(text_of(item));
    }
    Some(result)
}

/// Ends with a blank line, so that an item can follow.
fn separate(text: &mut Vec<u8>) {
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    if !text.is_empty() && !text.ends_with(b"\n\n") {
        text.push(b'\n');
    }
}

/// Something that does not compile: a line, from 1, and the names that its message quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub line: u32,
    pub names: Vec<String>,
}

/// Returns a test file without what does not compile: the smallest test function, import or other item around each
/// span. `None` where nothing can be taken out.
pub fn without_spans(path: &[u8], text: &[u8], spans: &[Span]) -> Option<Vec<u8>> {
    let tree = parse(path, text)?;
    let mut cuts: Vec<(usize, usize)> = Vec::new();
    for span in spans {
        let row = usize::try_from(span.line.checked_sub(1)?).ok()?;
        if let Some(cut) = cut(tree.root_node(), text, row, &span.names) {
            cuts.push(cut);
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut result = text.to_vec();
    for (start, end) in cuts.iter().rev() {
        if *end <= result.len() {
            // Lines stay where they are, so that later spans and frames still mean the same.
            for byte in &mut result[*start..*end] {
                if *byte != b'\n' && *byte != b'\r' {
                    *byte = b' ';
                }
            }
        }
    }
    (!cuts.is_empty() && result != text).then_some(result)
}

/// Returns the bytes to take out for an error on a row.
fn cut(node: Node, text: &[u8], row: usize, names: &[String]) -> Option<(usize, usize)> {
    let list = children(node);
    for (n, child) in list.iter().enumerate() {
        if child.start_position().row > row || child.end_position().row < row {
            continue;
        }
        if is_comment(*child) {
            continue;
        }
        let inner = match child.kind() {
            "mod_item"
            | "declaration_list"
            | "impl_item"
            | "token_tree"
            | "macro_invocation"
            | "expression_statement" => cut(*child, text, row, names),
            "use_declaration" => imported(*child, text, names),
            // One of several imports; a lone one goes with its keyword.
            "import_declaration" => {
                let list = children(*child).into_iter().find(|inner| inner.kind() == "import_spec_list");
                list.and_then(|list| cut(list, text, row, names))
            }
            _ => None,
        };
        if inner.is_some() {
            return inner;
        }
        if is_item(child.kind()) {
            return Some((with_attributes(&list, n), child.end_byte()));
        }
        if node.kind() == "token_tree"
            && let Some(cut) = function_in_macro(&list, row, text)
        {
            return Some(cut);
        }
    }
    None
}

fn is_item(kind: &str) -> bool {
    matches!(
        kind,
        "function_item"
            | "use_declaration"
            | "import_declaration"
            | "import_spec"
            | "struct_item"
            | "enum_item"
            | "impl_item"
            | "trait_item"
            | "const_item"
            | "static_item"
            | "type_item"
            | "macro_definition"
            | "macro_invocation"
            | "function_declaration"
            | "method_declaration"
            | "type_declaration"
            | "var_declaration"
            | "const_declaration"
    )
}

/// Returns where the attributes begin that precede an item.
fn with_attributes(list: &[Node], n: usize) -> usize {
    let attributes = list[..n].iter().rev().take_while(|node| node.kind() == "attribute_item");
    attributes.last().map_or(list[n].start_byte(), Node::start_byte)
}

/// Returns the one name of a list of imports that the message quotes.
fn imported(declaration: Node, text: &[u8], names: &[String]) -> Option<(usize, usize)> {
    let mut stack = vec![declaration];
    while let Some(node) = stack.pop() {
        if node.kind() == "use_list" {
            let parts = children(node);
            for (n, part) in parts.iter().enumerate().filter(|(_, part)| part.is_named()) {
                let source = String::from_utf8_lossy(&text[part.byte_range()]);
                let last = source.split(" as ").next().unwrap_or_default().rsplit("::").next().unwrap_or_default();
                if names.iter().any(|name| name.rsplit("::").next() == Some(last.trim())) {
                    let comma = parts.get(n + 1).filter(|next| next.kind() == ",");
                    return Some((part.start_byte(), comma.map_or(part.end_byte(), Node::end_byte)));
                }
            }
        }
        stack.extend(children(node));
    }
    None
}

/// Returns a function among the tokens of a macro (`quickcheck! { fn a() {} }`), with its attributes.
fn function_in_macro(tokens: &[Node], row: usize, text: &[u8]) -> Option<(usize, usize)> {
    let mut n = 0;
    while n < tokens.len() {
        if &text[tokens[n].byte_range()] == b"fn" {
            let body = (n..tokens.len())
                .find(|&m| tokens[m].kind() == "token_tree" && text[tokens[m].start_byte()] == b'{')?;
            if tokens[n].start_position().row <= row && row <= tokens[body].end_position().row {
                let mut first = n;
                while first >= 2 && &text[tokens[first - 2].byte_range()] == b"#" {
                    first -= 2;
                }
                return Some((tokens[first].start_byte(), tokens[body].end_byte()));
            }
            n = body;
        }
        n += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "//! Crate.\nuse std::fmt;\n\nfn add(a: u8) -> u8 {\n    a\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn adds() {\n        assert_eq!(add(1), 1);\n    }\n}\n";

    fn text(bytes: Option<Vec<u8>>) -> String {
        String::from_utf8(bytes.unwrap()).unwrap()
    }

    #[test]
    fn tests_in_a_file_part_from_its_program() {
        let new = OLD.replace("    a\n", "    a + 1\n").replace("add(1), 1", "add(1), 2");
        let before = text(with_tests_of(OLD.as_bytes(), new.as_bytes()));
        assert_eq!(before, OLD.replace("add(1), 1", "add(1), 2"));
        assert_eq!(text(with_tests_of(new.as_bytes(), OLD.as_bytes())), OLD.replace("    a\n", "    a + 1\n"));
        assert_eq!(text(with_tests_of(before.as_bytes(), new.as_bytes())), before);
        assert_eq!(text(with_tests_of(new.as_bytes(), before.as_bytes())), new);
    }

    #[test]
    fn new_and_removed_test_items_keep_what_stands_around_them() {
        let program = "fn a() {}\n";
        let tests = "fn a() {}\n\n// About b.\n#[test]\nfn b() {}\n\n#[tokio::test]\nasync fn c() {}\n";
        assert_eq!(text(with_tests_of(program.as_bytes(), tests.as_bytes())), tests);
        assert_eq!(text(with_tests_of(tests.as_bytes(), program.as_bytes())), program);
        let one = "fn a() {}\n\n#[test]\nfn b() {}\n\nfn d() {}\n";
        let two = "fn a() {}\n\n#[test]\nfn b() {}\n\n#[test]\nfn c() {}\n\nfn d() {}\n";
        assert_eq!(text(with_tests_of(one.as_bytes(), two.as_bytes())), two);
        assert!(with_tests_of(b"fn a( {", tests.as_bytes()).is_none());
    }

    #[test]
    fn comments_and_layout_are_no_code() {
        for (path, old, new) in [
            ("a.rs", "fn a() { b(1) }", "/// Doc.\nfn a() {\n    b(1) // one\n}"),
            ("a.go", "package a\nfunc b() {}\n", "// Package a.\npackage a\n\nfunc b() {\n}\n"),
            ("a.js", "f(1)", "/* x */ f( 1 )"),
            ("a.ts", "const a: number = 1;", "const a :number = 1; // one"),
            ("a.py", "def f(a):\n    return a\n", "def f( a ):\n  \"\"\"Doc.\"\"\"\n\n  return a  # one\n"),
        ] {
            assert!(is_same_code(path.as_bytes(), old.as_bytes(), new.as_bytes()), "{path}");
        }
        for (path, old, new) in [
            ("a.rs", "fn a() { b(\"x y\") }", "fn a() { b(\"x  y\") }"),
            ("a.js", "f(`a${b} c`)", "f(`a${b}  c`)"),
            ("a.js", "f(1)", "f(2)"),
            ("a.txt", "a", "a "),
            ("a.py", "if a:\n    b()\n    c()\n", "if a:\n    b()\nc()\n"),
            ("a.py", "a = 'b'\n", "a = 'c'\n"),
        ] {
            assert!(!is_same_code(path.as_bytes(), old.as_bytes(), new.as_bytes()), "{path}: {new}");
        }
    }

    #[test]
    fn comments_are_blanked_and_lines_stay() {
        let python = "def f():\n    '''Use:\n\n    import x\n    '''\n    return 'a # b'  # c\n";
        let left = text(Some(without_comments(b"a.py", python.as_bytes())));
        assert_eq!(
            left.lines().map(str::trim_end).collect::<Vec<_>>(),
            ["def f():", "", "", "", "", "    return 'a # b'"]
        );
        assert_eq!(without_comments(b"a.py", b"def f(: # a"), b"def f(: # a");
        assert_eq!(without_comments(b"a.js", b"f() // a\n"), b"f()     \n");
    }

    #[test]
    fn what_does_not_compile_is_taken_out_and_lines_stay() {
        let span = |line, names: &[&str]| Span { line, names: names.iter().map(|name| (*name).to_owned()).collect() };
        let rust = "use a::{b, c, d};\n\n#[test]\nfn one() {\n    c();\n}\n\n#[test]\nfn two() {\n    b();\n}\n";
        let left = text(without_spans(b"t.rs", rust.as_bytes(), &[span(1, &["a::c"]), span(5, &[])]));
        assert!(left.starts_with("use a::{b,    d};\n"), "{left}");
        assert!(!left.contains("one") && left.contains("fn two") && left.lines().count() == rust.lines().count());
        let go = "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tmissing()\n}\n\nfunc TestB(t *testing.T) {}\n";
        let left = text(without_spans(b"a_test.go", go.as_bytes(), &[span(6, &[])]));
        assert!(!left.contains("TestA") && left.contains("TestB"));
        let imports = "package a\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n\nimport \"os\"\n";
        let left = text(without_spans(b"a_test.go", imports.as_bytes(), &[span(4, &[]), span(8, &[])]));
        assert!(
            !left.contains("fmt")
                && left.contains("\"testing\"")
                && !left.contains("import \"")
                && !left.contains("os")
        );
        let check = "quickcheck! {\n    fn one(a: u8) -> bool {\n        gone(a)\n    }\n\n    fn two(a: u8) -> bool {\n        true\n    }\n}\n";
        let left = text(without_spans(b"t.rs", check.as_bytes(), &[span(3, &[])]));
        assert!(!left.contains("fn one") && left.contains("fn two"), "{left}");
        assert!(without_spans(b"t.rs", b"// nothing\n", &[span(1, &[])]).is_none());
    }
}
