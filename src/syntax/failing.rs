//! Test files whose tests fail whatever the program does: at once, or because they expect something else.

use std::{collections::BTreeSet, ops::Range};

use tree_sitter::Node;

use super::{children, is_comment, line_start, parse};

/// What takes the place of some bytes of a text.
type Change = (Range<usize>, Vec<u8>);

fn insertion(at: usize, bytes: impl Into<Vec<u8>>) -> Change {
    (at..at, bytes.into())
}

/// Returns a test file in which each test begins with a failure. `None` where there is no such test, or the language is
/// neither Python nor JavaScript.
///
/// `names`: the functions that are tests, for Python. Tests of JavaScript are what is given to `test` and `it`.
pub fn with_failing_tests(path: &[u8], text: &[u8], names: &BTreeSet<&str>) -> Option<Vec<u8>> {
    let is_python = path.ends_with(b".py");
    let tree = parse(path, text)?;
    let mut changes = Vec::new();
    visit(tree.root_node(), &mut |node| {
        if is_python { python(node, text, names, &mut changes) } else { javascript(node, text, &mut changes) }
    });
    with(text, changes)
}

/// Returns a test file of Python in which tests that expect a text or an exception's text expect another, and those that
/// expect another value expect a pair with that in it. `None` where there is no such test. JavaScript's values cannot say what they are equal to.
///
/// `names`: the functions that are tests.
pub fn with_other_expectations(path: &[u8], text: &[u8], names: &BTreeSet<&str>) -> Option<Vec<u8>> {
    let tree = parse(path, text).filter(|_| path.ends_with(b".py"))?;
    let mut changes = Vec::new();
    visit(tree.root_node(), &mut |node| {
        let Some(body) = test_body(node, text, names) else { return node.kind() != "function_definition" };
        visit(body, &mut |node| {
            // What a helper or a stand-in inside of a test compares is no expectation.
            if node.kind() == "function_definition" || node.kind() == "lambda" {
                return false;
            }
            if let Some(pattern) = pattern(node, text) {
                changes.push((pattern.byte_range(), b"'(?!)'".to_vec()));
                return false;
            }
            let Some(expected) = expected(node, text) else { return true };
            let is_number = ["integer", "float"].contains(&expected.kind());
            match other_text(expected, text) {
                Some(change) => changes.push(change),
                None if is_number => {
                    changes.extend([insertion(expected.start_byte(), "("), insertion(expected.end_byte(), " + 1)")]);
                }
                None => changes.extend([insertion(expected.start_byte(), "("), insertion(expected.end_byte(), ", 1)")]),
            }
            true
        });
        false
    });
    with(text, changes)
}

/// Returns a text with changes; `None` where there are none.
fn with(text: &[u8], mut changes: Vec<Change>) -> Option<Vec<u8>> {
    let mut result = text.to_vec();
    changes.sort_by_key(|(range, _)| range.start);
    for (range, bytes) in changes.iter().rev() {
        result.splice(range.clone(), bytes.iter().copied());
    }
    (!changes.is_empty()).then_some(result)
}

/// Goes through a tree, and below each node for which `enter` is true.
fn visit<'t>(node: Node<'t>, enter: &mut dyn FnMut(Node<'t>) -> bool) {
    if enter(node) {
        for child in children(node) {
            visit(child, enter);
        }
    }
}

fn python(node: Node, text: &[u8], names: &BTreeSet<&str>, changes: &mut Vec<Change>) -> bool {
    if node.kind() != "function_definition" {
        return true;
    }
    let body = test_body(node, text, names);
    if let Some(first) = body.and_then(|body| children(body).into_iter().find(|child| !is_comment(*child))) {
        let at = first.start_byte();
        let indentation = &text[line_start(text, at)..at];
        let is_alone = indentation.iter().all(u8::is_ascii_whitespace);
        let end: &[u8] = if is_alone { &[b"\n", indentation].concat() } else { b"; " };
        changes.push(insertion(at, [b"raise AssertionError", end].concat()));
    }
    // Functions inside of functions are no tests.
    false
}

/// Returns the body of a function of Python that is a test.
fn test_body<'t>(node: Node<'t>, text: &[u8], names: &BTreeSet<&str>) -> Option<Node<'t>> {
    let name = node.child_by_field_name("name").filter(|_| node.kind() == "function_definition")?;
    let is_test = std::str::from_utf8(&text[name.byte_range()]).is_ok_and(|name| names.contains(name));
    node.child_by_field_name("body").filter(|_| is_test)
}

/// Returns what something is expected to equal: a side of `==` or an argument of `assertEqual`, the one that calls nothing
/// if the other does.
fn expected<'t>(node: Node<'t>, text: &[u8]) -> Option<Node<'t>> {
    let [left, right] = match node.kind() {
        "comparison_operator" if children(node).len() == 3 && node.child(1)?.kind() == "==" && is_asserted(node) => {
            [node.child(0)?, node.child(2)?]
        }
        "call" => {
            let function = node.child_by_field_name("function")?;
            let name = text[function.byte_range()].rsplit(|byte| *byte == b'.').next()?;
            if ![&b"assertEqual"[..], b"assertEquals", b"assert_equal", b"eq_"].contains(&name) {
                return None;
            }
            let arguments = node.child_by_field_name("arguments")?;
            [arguments.named_child(0)?, arguments.named_child(1)?]
        }
        _ => return None,
    };
    if [left, right].iter().any(|side| side.kind() == "keyword_argument" || side.kind().ends_with("splat")) {
        return None;
    }
    Some(if calls(right) && !calls(left) { left } else { right })
}

/// Says whether a comparison is a part of what `assert` asserts.
fn is_asserted(node: Node) -> bool {
    let parents = std::iter::successors(node.parent(), Node::parent);
    parents.take_while(|parent| parent.kind() != "block").any(|parent| parent.kind() == "assert_statement")
}

/// Returns what an exception's text is to match: `raises(E, match=…)`.
fn pattern<'t>(node: Node<'t>, text: &[u8]) -> Option<Node<'t>> {
    let name = node.child_by_field_name("name").filter(|_| node.kind() == "keyword_argument")?;
    node.child_by_field_name("value").filter(|_| &text[name.byte_range()] == b"match")
}

/// Returns what makes another text of its kind of a string: one letter or digit, in the middle, is the one after it.
fn other_text(string: Node, text: &[u8]) -> Option<Change> {
    let inner = children(string).into_iter().filter(|_| string.kind() == "string").collect::<Vec<_>>();
    let [_, content, _] = inner[..] else { return None };
    let bytes = &text[content.byte_range()];
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_alphanumeric()).collect();
    let place = *places.get(places.len() / 2).filter(|_| !bytes.contains(&b'\\'))?;
    let at = content.start_byte() + place;
    let other = if matches!(bytes[place], b'9' | b'z' | b'Z') { bytes[place] - 1 } else { bytes[place] + 1 };
    (content.kind() == "string_content").then(|| (at..at + 1, vec![other]))
}

fn calls(node: Node) -> bool {
    let mut found = false;
    visit(node, &mut |inner| {
        found |= inner.kind() == "call";
        !found
    });
    found
}

fn javascript(node: Node, text: &[u8], changes: &mut Vec<Change>) -> bool {
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
        changes.push(insertion(body.start_byte() + 1, FAILURE));
    } else {
        changes.push(insertion(body.start_byte(), [b"{", FAILURE, b" return ("].concat()));
        changes.push(insertion(body.end_byte(), ") }"));
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
    fn tests_of_python_expect_something_else() {
        let text = "def helper():\n    assert f() == 1\n\ndef test_a(self, x):\n    HERE\n";
        let change = |line: &str| {
            let names = ["test_a"].into_iter().collect();
            let bytes = with_other_expectations(b"t.py", text.replace("HERE", line).as_bytes(), &names)?;
            assert!(parse(b"t.py", &bytes).is_some());
            let (_, rest) = std::str::from_utf8(&bytes).unwrap().split_once("x):\n    ").unwrap();
            Some(rest.trim_end().to_owned())
        };
        for (line, expected) in [
            ("assert f() == 1", "assert f() == (1 + 1)"),
            ("assert [1, 2] == f(x)", "assert ([1, 2], 1) == f(x)"),
            ("assert f(x) == g(1).h", "assert f(x) == (g(1).h, 1)"),
            ("assert a == b and f() == (1, 2)", "assert a == (b, 1) and f() == ((1, 2), 1)"),
            ("assert f() == (g() == 1)", "assert f() == ((g() == (1 + 1)), 1)"),
            ("self.assertEqual(f(), a)", "self.assertEqual(f(), (a, 1))"),
            ("self.assertEqual('9!', f())", "self.assertEqual('8!', f())"),
            ("assert f() == b'00a'", "assert f() == b'01a'"),
            ("assert f() == f'{a}1'", "assert f() == (f'{a}1', 1)"),
            ("assert f() == ''", "assert f() == ('', 1)"),
            ("with raises(E, match='a'):\n        f()", "with raises(E, match='(?!)'):\n        f()"),
        ] {
            assert_eq!(change(line).as_deref(), Some(expected));
        }
        let fake = "def fake(url):\n        if url == 'a':\n            f(url)\n        assert url == 'b'\n    g(fake)";
        for line in [
            fake,
            "if f() == 1:\n        g()",
            "assert f() != 1",
            "assert 1 == f() == 2",
            "self.assertEqual(*pair)",
            "with raises(E):\n        f()",
        ] {
            assert_eq!(change(line), None, "{line}");
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
