use super::*;

/// Returns `line what` of all faults.
fn found(path: &str, text: &str) -> Vec<String> {
    let all = mutants(path.as_bytes(), text.as_bytes(), &|_| true);
    for mutant in &all {
        let mutated = mutant.apply(path.as_bytes(), text.as_bytes());
        assert!(mutated.is_none_or(|mutated| mutated != text.as_bytes()), "{path}: {mutant:?} changes nothing");
    }
    all.iter().map(|mutant| format!("{} {}", mutant.line, mutant.what)).collect()
}

/// Checks the faults of one line of a text; every one of them must parse.
fn check(path: &str, before: &str, line: &str, after: &str, expected: &[(&str, &str)]) {
    let text = format!("{before}{line}\n{after}");
    let number = u32::try_from(before.lines().count() + 1).unwrap();
    let mut made: Vec<(String, String)> = Vec::new();
    for mutant in mutants(path.as_bytes(), text.as_bytes(), &|line| line == number) {
        let mutated = mutant.apply(path.as_bytes(), text.as_bytes());
        let mutated = mutated.unwrap_or_else(|| panic!("{path}: {line}: {} does not parse", mutant.what));
        let mutated = String::from_utf8(mutated).unwrap();
        let inner = mutated.strip_prefix(before).and_then(|rest| rest.strip_suffix(&format!("\n{after}")));
        made.push((inner.unwrap().trim().to_owned(), mutant.what));
    }
    let made: Vec<(&str, &str)> = made.iter().map(|(text, what)| (text.as_str(), what.as_str())).collect();
    assert_eq!(made, expected, "{path}: {line}");
}

#[test]
fn python_has_its_faults() {
    let check = |line: &str, expected: &[(&str, &str)]| check("a.py", "def f(a, b):\n", line, "", expected);
    let check_if = |line: &str, expected: &[(&str, &str)]| {
        super::tests::check("a.py", "def f(a, b):\n", line, "        pass\n", expected);
    };
    check_if(
        "    if a == b or not b:",
        &[
            ("if not (a == b or not b):", "`a == b or not b` → `not (a == b or not b)`"),
            ("if a != b or not b:", "`==` → `!=`"),
            ("if a == b and not b:", "`or` → `and`"),
            ("if a == b or b:", "`not b` → `b`"),
        ],
    );
    check_if("    if a not in b:", &[("if a in b:", "`not in` → `in`")]);
    check_if("    if a is b:", &[("if a is not b:", "`is` → `is not`")]);
    check(
        "    return a + 1",
        &[("return None", "`a + 1` → `None`"), ("return a - 1", "`+` → `-`"), ("return a + 2", "`1` → `2`")],
    );
    check(
        "    a.total += b[0] * 0x10",
        &[
            ("pass", "`a.total += b[0] * 0x10` removed"),
            ("a.total -= b[0] * 0x10", "`+=` → `-=`"),
            ("a.total += b[1] * 0x10", "`0` → `1`"),
            ("a.total += b[0] / 0x10", "`*` → `/`"),
        ],
    );
    check("    a.append('x')", &[("pass", "`a.append('x')` removed"), ("a.append('')", "`'x'` emptied")]);
    check(
        "    x = '' if a else f'{b}!'",
        &[
            ("x = 'XX' if a else f'{b}!'", "`''` filled"),
            ("x = '' if not (a) else f'{b}!'", "`a` → `not (a)`"),
            ("x = '' if a else f''", "`f'{b}!'` emptied"),
        ],
    );
    check("    raise ValueError('no such ' + a)", &[("pass", "`raise ValueError('no such ' + a)` removed")]);
    check("    return True", &[("return False", "`True` → `False`"), ("return None", "`True` → `None`")]);
    check("    x = [c for c in a if c]", &[("x = [c for c in a if not (c)]", "`c` → `not (c)`")]);
    check("    x = -a", &[("x = a", "`-a` → `a`")]);
}

#[test]
fn python_that_no_test_can_notice_is_left_alone() {
    let text = r#""""Module 1 == 1."""
from __future__ import annotations

import os
from a import b

__all__ = ["f", "g"]
__version__ = "1.2"
VERSION = (1, 2)


def f(a: "int" = None, *, b: Literal["x", 1]) -> "list[int]":
    """Doc 1 < 2."""
    # if a == 1
    log.debug("a %s", 1)
    logger.info("x" + "y")
    print("a", 1)
    warnings.warn("old", stacklevel=2)
    return None


if __name__ == "__main__":
    f(1)
"#;
    assert_eq!(found("a.py", text), [""; 0]);
    assert_eq!(found("a.py", "def f(:\n"), [""; 0]);
    assert_eq!(found("a.txt", "1 == 1\n"), [""; 0]);
}

#[test]
fn loops_can_be_left_early_or_late_but_switches_cannot() {
    let python = "for a in b:\n    if a:\n        continue\n    break\n";
    assert_eq!(found("a.py", python), ["2 `a` → `not (a)`", "3 `continue` → `break`", "4 `break` → `continue`"]);
    let script = "for (const a of b) { switch (a) { case c: break; default: continue; } break; }\n";
    assert_eq!(found("a.js", script), ["1 `continue` → `break`", "1 `break` → `continue`"]);
    let labelled = "x: while (a) { break x; }\n";
    assert_eq!(found("a.js", labelled), [""; 0]);
    let go = "package a\n\nfunc f() {\n\tfor {\n\t\tswitch {\n\t\tcase a:\n\t\t\tbreak\n\t\t}\n\t\tbreak\n\t}\n}\n";
    assert_eq!(found("a.go", go), ["9 `break` → `continue`"]);
    let rust = "fn f() {\n    loop {\n        break;\n    }\n    loop {\n        break 1;\n    };\n}\n";
    assert_eq!(found("a.rs", rust), ["3 `break` → `continue`", "6 `1` → `2`"]);
}

#[test]
fn javascript_and_typescript_have_their_faults() {
    for path in ["a.js", "a.ts"] {
        let check = |line: &str, expected: &[(&str, &str)]| check(path, "function f(a, b) {\n", line, "}\n", expected);
        check(
            "if (a === b && !b) g();",
            &[
                ("if (!(a === b && !b)) g();", "`(a === b && !b)` → `(!(a === b && !b))`"),
                ("if (a !== b && !b) g();", "`===` → `!==`"),
                ("if (a === b || !b) g();", "`&&` → `||`"),
                ("if (a === b && b) g();", "`!b` → `b`"),
                ("if (a === b && !b) ;", "`g();` removed"),
            ],
        );
        check(
            "for (let i = 0; i < a; i++) {}",
            &[("for (let i = 1; i < a; i++) {}", "`0` → `1`"), ("for (let i = 0; i <= a; i++) {}", "`<` → `<=`")],
        );
        check(
            "return a ? `${b}!` : null;",
            &[
                ("return !(a) ? `${b}!` : null;", "`a` → `!(a)`"),
                ("return undefined;", "`a ? `${b}!` : null` → `undefined`"),
                ("return a ? `` : null;", "``${b}!`` emptied"),
            ],
        );
        check(
            "const g = (c) => c + 'x';",
            &[
                ("const g = (c) => undefined;", "`c + 'x'` → `undefined`"),
                ("const g = (c) => c + '';", "`'x'` emptied"),
            ],
        );
        check(
            "throw new Error('bad ' + 1);",
            &[(";", "`throw new Error('bad ' + 1);` removed"), ("throw new Error('bad ' + 2);", "`1` → `2`")],
        );
        check("a.b = true;", &[(";", "`a.b = true;` removed"), ("a.b = false;", "`true` → `false`")]);
        check("if (a in b) {}", &[("if (!(a in b)) {}", "`(a in b)` → `(!(a in b))`")]);
        check("console.log('x', 1);", &[]);
    }
    let inert = "'use strict';\nimport x from 'y';\nconst z = require('z');\nexport { x };\nconst version = '1.2';\n";
    assert_eq!(found("a.js", inert), [""; 0]);
    let types = "interface A { b: 'c' | 1 }\ntype B = 'd';\nlet e: 'f' = g as 'h';\nfunction i(j: A<'k'>): 1 {}\n";
    assert_eq!(found("a.ts", types), [""; 0]);
}

#[test]
fn rust_has_its_faults() {
    let check = |line: &str, expected: &[(&str, &str)]| {
        super::tests::check("a.rs", "fn f(a: u8) -> Option<u8> {\n", line, "    None\n}\n", expected);
    };
    check(
        "if a >= 1u8 { return Some(a); }",
        &[
            ("if !(a >= 1u8) { return Some(a); }", "`a >= 1u8` → `!(a >= 1u8)`"),
            ("if a > 1u8 { return Some(a); }", "`>=` → `>`"),
            ("if a >= 2u8 { return Some(a); }", "`1u8` → `2u8`"),
            ("if a >= 1u8 { return Default::default(); }", "`Some(a)` → `Default::default()`"),
        ],
    );
    check(
        "if let Some(b) = c && !d { list.push(b)?; }",
        &[
            ("if let Some(b) = c && d { list.push(b)?; }", "`!d` → `d`"),
            ("if let Some(b) = c && !d { {} }", "`list.push(b)?;` removed"),
        ],
    );
    check(
        "total += if x { 0.5 } else { g(\"b\") };",
        &[
            ("{}", "`total += if x { 0.5 } else { g(\"b\") };` removed"),
            ("total -= if x { 0.5 } else { g(\"b\") };", "`+=` → `-=`"),
            ("total += if !(x) { 0.5 } else { g(\"b\") };", "`x` → `!(x)`"),
            ("total += if x { 0.5 } else { g(\"\") };", "`\"b\"` emptied"),
        ],
    );
    check("let n: [u8; 3] = c.expect(\"three\"); assert_eq!(1, 1); println!(\"{}\", 1 + 1);", &[]);
    let tail = "fn f() -> Result<(), E> {\n    g()\n}\nfn h() -> Foo {\n    i()\n}\nconst VERSION: &str = \"1\";\n";
    assert_eq!(found("a.rs", tail), ["2 `g()` → `Ok(())`"]);
    let tests = "fn f() -> bool {\n    a\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn g() {\n        h(1 == 1);\n    }\n}\n";
    assert_eq!(found("a.rs", tests), ["2 `a` → `Default::default()`"]);
}

#[test]
fn go_has_its_faults() {
    let check = |line: &str, expected: &[(&str, &str)]| {
        let before = "package a\n\nfunc f(a, b int) (int, error) {\n";
        super::tests::check("a.go", before, line, "\treturn 0, nil\n}\n", expected);
    };
    check(
        "if a != b || !c { n++ }",
        &[
            ("if !(a != b || !c) { n++ }", "`a != b || !c` → `!(a != b || !c)`"),
            ("if a == b || !c { n++ }", "`!=` → `==`"),
            ("if a != b && !c { n++ }", "`||` → `&&`"),
            ("if a != b || c { n++ }", "`!c` → `c`"),
            ("if a != b || !c { {} }", "`n++` removed"),
            ("if a != b || !c { n-- }", "`++` → `--`"),
        ],
    );
    check("return a, nil", &[("{ _ = a; return 0, nil }", "`return a, nil` → `return 0, nil`")]);
    check("return g(a)", &[("{ _, _ = g(a); return 0, nil }", "`return g(a)` → `return 0, nil`")]);
    check(
        "return 0, errors.New(\"x\")",
        &[
            ("{ _, _ = 0, errors.New(\"x\"); return 0, nil }", "`return 0, errors.New(\"x\")` → `return 0, nil`"),
            ("return 1, errors.New(\"x\")", "`0` → `1`"),
        ],
    );
    check(
        "for i := 0; i < a; i++ { s.list[i] = true }",
        &[
            ("for i := 1; i < a; i++ { s.list[i] = true }", "`0` → `1`"),
            ("for i := 0; i <= a; i++ { s.list[i] = true }", "`<` → `<=`"),
            ("for i := 0; i < a; i++ { {} }", "`s.list[i] = true` removed"),
            ("for i := 0; i < a; i++ { s.list[i] = false }", "`true` → `false`"),
        ],
    );
    check("log.Println(\"x\", 1); fmt.Printf(\"y\", 2)", &[]);
    let inert = "package a\n\nimport \"fmt\"\n\nconst Version = \"1\"\n\ntype T struct {\n\tA int `json:\"a\"`\n}\n";
    assert_eq!(found("a.go", inert), [""; 0]);
}

#[test]
fn what_cannot_be_parsed_is_not_made() {
    let text = "x = a-+b;\n";
    let all = mutants(b"a.js", text.as_bytes(), &|_| true);
    let broken: Vec<&str> =
        all.iter().filter(|mutant| mutant.apply(b"a.js", text.as_bytes()).is_none()).map(|m| m.what.as_str()).collect();
    assert_eq!(broken, ["`-` → `+`"]);
}
