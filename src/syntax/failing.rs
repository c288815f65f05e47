//! Test files whose tests fail at once, whatever the program does.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::{children, is_comment, line_start, parse};

/// Something to put into a text.
type Insertion = (usize, Vec<u8>);

/// Returns a test file in which each test begins with a failure. `None` where there is no such test, or the language is
/// neither Python nor JavaScript.
///
/// `names`: the functions that are tests, for Python. Tests of JavaScript are what is given to `test` and `it`.
pub fn with_failing_tests(path: &[u8], text: &[u8], names: &BTreeSet<&str>) -> Option<Vec<u8>> {
    let is_python = path.ends_with(b".py");
    let tree = parse(path, text)?;
    let mut insertions = Vec::new();
    visit(tree.root_node(), &mut |node| {
        if is_python { python(node, text, names, &mut insertions) } else { javascript(node, text, &mut insertions) }
    });
    if insertions.is_empty() {
        return None;
    }
    let mut result = text.to_vec();
    insertions.sort_by_key(|(at, _)| *at);
    for (at, bytes) in insertions.into_iter().rev() {
        result.splice(at..at, bytes);
    }
    Some(result)
}

/// Goes through a tree, and below each node for which `enter` is true.
fn visit<'t>(node: Node<'t>, enter: &mut dyn FnMut(Node<'t>) -> bool) {
    if enter(node) {
        for child in children(node) {
            visit(child, enter);
        }
    }
}

fn python(node: Node, text: &[u8], names: &BTreeSet<&str>, insertions: &mut Vec<Insertion>) -> bool {
    if node.kind() != "function_definition" {
        return true;
    }
    let name = node.child_by_field_name("name").and_then(|name| std::str::from_utf8(&text[name.byte_range()]).ok());
    let body = node.child_by_field_name("body").filter(|_| name.is_some_and(|name| names.contains(name)));
    if let Some(first) = body.and_then(|body| children(body).into_iter().find(|child| !is_comment(*child))) {
        let at = first.start_byte();
        let indentation = &text[line_start(text, at)..at];
        let is_alone = indentation.iter().all(u8::is_ascii_whitespace);
        let end: &[u8] = if is_alone { &[b"\n", indentation].concat() } else { b"; " };
        insertions.push((at, [b"raise AssertionError", end].concat()));
    }
    // Functions inside of functions are no tests.
    false
}

fn javascript(node: Node, text: &[u8], insertions: &mut Vec<Insertion>) -> bool {
    const FAILURE: &[u8] = b" throw new Error();";
    let called = node.child_by_field_name("function").filter(|_| node.kind() == "call_expression");
    if !called.is_some_and(|called| is_test_call(called, text)) {
        return true;
    }
    let functions = ["arrow_function", "function_expression", "generator_function"];
    let arguments = node.child_by_field_name("arguments").map(children).unwrap_or_default();
    let Some(test) = arguments.into_iter().rev().find(|child| functions.contains(&child.kind())) else { return true };
    let Some(body) = test.child_by_field_name("body") else { return true };
    if body.kind() == "statement_block" {
        insertions.push((body.start_byte() + 1, FAILURE.to_vec()));
    } else {
        insertions.push((body.start_byte(), [b"{", FAILURE, b" return ("].concat()));
        insertions.push((body.end_byte(), b") }".to_vec()));
    }
    // What is inside is not reached any more.
    false
}

/// Says whether a function is `test`, `it`, or one of their kinds: `test.only`, `it.each(…)`, `t.test`.
fn is_test_call(called: Node, text: &[u8]) -> bool {
    let is_test = |name: Node| [&b"test"[..], b"it", b"specify"].contains(&&text[name.byte_range()]);
    match called.kind() {
        "identifier" => is_test(called),
        "member_expression" => {
            called.child_by_field_name("property").is_some_and(is_test)
                || called.child_by_field_name("object").is_some_and(|object| is_test_call(object, text))
        }
        "call_expression" => called.child_by_field_name("function").is_some_and(|inner| is_test_call(inner, text)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(path: &str, text: &str, names: &[&str]) -> Option<String> {
        let names = names.iter().copied().collect();
        let bytes = with_failing_tests(path.as_bytes(), text.as_bytes(), &names)?;
        assert!(parse(path.as_bytes(), &bytes).is_some(), "{}", String::from_utf8_lossy(&bytes));
        Some(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn tests_of_python_begin_with_a_failure() {
        for (text, expected) in [
            ("def test_a():\n    assert f()\n", "def test_a():\n    raise AssertionError\n    assert f()\n"),
            ("def test_a(): assert f()\n", "def test_a(): raise AssertionError; assert f()\n"),
            (
                "class T(B):\n\t@mark\n\tasync def test_a(self):\n\t\t# why\n\t\twith a:\n\t\t\tpass\n",
                "class T(B):\n\t@mark\n\tasync def test_a(self):\n\t\t# why\n\t\traise AssertionError\n\t\twith a:\n\t\t\tpass\n",
            ),
            ("def test_a(x=[\n  1]):\n  '''d'''\n", "def test_a(x=[\n  1]):\n  raise AssertionError\n  '''d'''\n"),
            (
                "if a:\r\n  def test_a():\r\n    b\r\n",
                "if a:\r\n  def test_a():\r\n    raise AssertionError\n    b\r\n",
            ),
        ] {
            assert_eq!(failing("t.py", text, &["test_a"]).as_deref(), Some(expected));
        }
        for text in ["def test_b():\n    pass\n", "def test_a(:\n", "def f():\n    def test_a():\n        pass\n"] {
            assert_eq!(failing("t.py", text, &["test_a"]), None);
        }
    }

    #[test]
    fn tests_of_javascript_begin_with_a_failure() {
        let full = " throw new Error();";
        for (path, text) in [
            ("t.js", "test('a', () => {@ f() })"),
            ("t.js", "describe('a', function () { it('b', async function (done) {@ f() }) })"),
            ("t.mjs", "t.test('a', t => {@ t.test('b', t => { f() }) })"),
            ("t.ts", "it.each<number>([1])('a %s', (a: number) => {@ f(a) }, 500)"),
            ("t.ts", "test.only('a', (): void => {@})"),
        ] {
            assert_eq!(failing(path, &text.replace('@', ""), &[]).as_deref(), Some(text.replace('@', full).as_str()));
        }
        let arrow = "test('a', t => t.is(f(), 1))";
        assert_eq!(
            failing("t.js", arrow, &[]).as_deref(),
            Some("test('a', t => { throw new Error(); return (t.is(f(), 1)) })")
        );
        for text in ["f(() => {})", "/x/.test('a')", "test('todo')", "test('a', run)", "before(() => { f() })"] {
            assert_eq!(failing("t.js", text, &[]), None, "{text}");
        }
        assert_eq!(failing("t.rs", "#[test]\nfn test() {}", &["test"]), None);
    }
}
