use FairnessKind::{Literal, Message, Name};

use super::*;
use crate::git::diff::changed_lines;

fn changed(path: &str, old: &str, new: &str) -> Changed {
    let lines = changed_lines(old.as_bytes(), new.as_bytes()).unwrap();
    Changed { path: path.into(), old: old.into(), new: new.into(), lines, is_new: old.is_empty() }
}

/// Returns the items of one source and one test file's change, whose old sides are the whole base.
fn items(source: Changed, test: Changed, ids: &[&str]) -> Vec<FairnessItem> {
    let base = [&source.old, &test.old].map(|text| String::from_utf8_lossy(text).into_owned());
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    let mut wanted = wanted(&Change { source: vec![source], tests: vec![test] }, &ids);
    wanted.retain_mut(|wanted| !base.iter().any(|text| wanted.is_known(text)));
    wanted.into_iter().map(|wanted| wanted.item).collect()
}

fn shown(items: &[FairnessItem]) -> Vec<(FairnessKind, &str)> {
    items.iter().map(|item| (item.kind, item.text.as_str())).collect()
}

const PY_OLD: &str = "def parse(text):\n    return int(text)\n";
const PY_NEW: &str = "class Range:\n    \"\"\"A span.\"\"\"\n    def widen(self, by):\n        self.edge = by\n\ndef _grown(text):\n    deep = text\n    return deep\n\ndef parse(text, *, strict=False):\n    if strict and not text:\n        raise ValueError(f\"cannot read {text!r} in strict mode\")\n    if text == 'pending-retry':\n        return 4004\n    return int(_grown(text))\n";

#[test]
fn python_items_are_names_literals_and_messages_that_tests_and_fix_share() {
    let old = "from lib import parse\n\ndef test_parse():\n    assert parse('1') == 1\n";
    let new = format!(
        "from lib import Range, parse\n{}\ndef helper(deep):\n    return deep\n\ndef test_strict():\n    edge = helper(1)\n    with raises(ValueError, match=\"cannot read '' in strict\"):\n        parse('', strict=True)\n    assert parse('pending-retry') == 4004\n    assert Range().widen(2) is None\n\ndef test_other():\n    assert parse('unheard-of') == _grown\n",
        &old[22..]
    );
    let found = items(
        changed("lib.py", PY_OLD, PY_NEW),
        changed("tests/test_lib.py", old, &new),
        &["tests/test_lib.py::test_strict"],
    );
    // The private helper is only in a test that is not fail-to-pass; `deep`, `edge` and `helper` are the test's own.
    let expected = [
        (Name, "Range"),
        (Name, "strict"),
        (Name, "widen"),
        (Literal, "4004"),
        (Literal, "pending-retry"),
        (Message, "cannot read '' in strict"),
    ];
    assert_eq!(shown(&found), expected);
    assert_eq!(found[1].owner.as_deref(), Some("parse"));
    assert_eq!(found[1].role, Some(NameRole::Parameter));
    assert_eq!(found[2].signature.as_deref(), Some("widen(self, by)"));
    assert_eq!(found[0].doc.as_deref(), Some("A span."));
    assert_eq!((found[1].test_path.as_str(), found[1].test_line), ("tests/test_lib.py", 12));
}

#[test]
fn a_message_is_wanted_as_far_as_the_test_looks_for_it() {
    let test = |line: &str| changed("test_lib.py", "", &format!("def test_strict():\n    check({line})\n"));
    let messages = |line: &str| -> Vec<String> {
        let found = items(changed("lib.py", PY_OLD, PY_NEW), test(line), &["test_lib.py::test_strict"]);
        found.into_iter().filter(|item| item.kind == Message).map(|item| item.text).collect()
    };
    assert_eq!(messages("\"cannot read '' in strict mode\""), ["cannot read '' in strict mode"]);
    assert_eq!(messages("r'^in strict mode$'"), ["in strict mode"]);
    assert_eq!(messages("f'cannot read {x!r} in strict mode'"), ["cannot read", "in strict mode"]);
    assert_eq!(messages("r'in strict mode.*more to come'"), ["in strict mode"]);
    assert_eq!(messages("'cannot write in strict tongue'"), [""; 0]);
}

#[test]
fn what_the_base_knows_is_no_item() {
    let test = changed("test_lib.py", "", "def test_a():\n    parse('', strict=True)\n    f('pending-retry')\n");
    let old = format!("# strict: see below\n# pending-retry\n{PY_OLD}");
    assert_eq!(items(changed("lib.py", &old, PY_NEW), test, &["test_lib.py::test_a"]), []);
    let function = |base: &str| {
        let test = changed("test_lib.py", "", "import lib\n\ndef test_a():\n    lib.mode()\n");
        let new = format!("{base}def mode():\n    pass\n");
        items(changed("lib.py", base, &new), test, &["test_lib.py::test_a"]).len()
    };
    assert_eq!([function("def f(mode):\n    pass\n"), function("x = stat.mode\n"), function("# mode()\n")], [1, 0, 0]);
}

#[test]
fn a_key_that_the_fix_reads_and_a_method_that_it_calls_are_interface() {
    let source = changed("lib/read.js", "", "exports.parse = (text, options) => options.loose ? text.visit() : 0\n");
    let test = changed(
        "test/lib.js",
        "",
        "const { parse } = require('../lib/read')\nparse({ visit() {} }, { loose: true })\n",
    );
    let found = items(source, test, &[]);
    let names: Vec<_> = found.iter().map(|item| (item.text.as_str(), item.role)).collect();
    assert_eq!(
        names,
        [
            ("loose", Some(NameRole::Option)),
            ("parse", Some(NameRole::Attribute)),
            ("read", Some(NameRole::Module)),
            ("visit", Some(NameRole::Method)),
        ]
    );
}

#[test]
fn rust_and_go_items_are_found_in_macros_and_structures() {
    let old = "pub fn parse() {}\n";
    let new = "pub struct Config {\n    pub strict: bool,\n}\n/// Reads with care.\npub fn parse_with(config: Config) -> Result<u8, String> {\n    let inner = config.strict;\n    Err(format!(\"unexpected end at {}\", inner))\n}\npub fn parse() {}\n";
    let test = "use lib::*;\n\n#[test]\nfn reads() {\n    let inner = 1;\n    assert_eq!(parse_with(Config { strict: true }).unwrap_err(), \"unexpected end at 0\");\n}\n";
    let found = items(changed("src/lib.rs", old, new), changed("tests/a.rs", "", test), &["tests/a.rs::reads"]);
    assert_eq!(
        shown(&found),
        [(Name, "Config"), (Name, "parse_with"), (Name, "strict"), (Message, "unexpected end at 0")]
    );
    assert_eq!(found[1].doc.as_deref(), Some("Reads with care."));
    let new = "package a\n\ntype Config struct {\n\tStrict bool\n}\n\nfunc ParseWith(c Config) error {\n\treturn fmt.Errorf(\"%q is no %s number\", c, \"valid\")\n}\n";
    let test = "package a\n\nfunc TestA(t *testing.T) {\n\terr := ParseWith(Config{Strict: true})\n\tif err.Error() != `\"x\" is no valid number` {\n\t\tt.Fatal(err)\n\t}\n}\n";
    let found = items(changed("a.go", "package a\n", new), changed("a_test.go", "package a\n", test), &["a::TestA"]);
    assert_eq!(
        shown(&found),
        [(Name, "Config"), (Name, "ParseWith"), (Name, "Strict"), (Message, "\"x\" is no valid number")]
    );
}

#[test]
fn modules_are_named_as_they_are_imported_and_words_count_as_a_whole() {
    assert_eq!(module_name("pkg/tools/__init__.py"), "tools");
    assert!(holds("a strict_x strict.", "strict") && !holds("strict_x restrict", "strict") && holds("a--b", "--b"));
}
