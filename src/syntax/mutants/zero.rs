//! The value that says nothing, by a result's type, where one is sure to compile.

/// Returns an expression for a Rust type.
pub fn of_rust(name: &str) -> Option<String> {
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
        return of_rust(ok).map(|value| if ok == "()" { "Ok(())".to_owned() } else { format!("Ok({value})") });
    }
    if name.starts_with('&') && name.ends_with("str") {
        return Some("\"\"".to_owned());
    }
    let is_number = name.len() > 1
        && name.starts_with(['u', 'i', 'f'])
        && (name.ends_with("size") || name[1..].parse::<u8>().is_ok());
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
pub fn of_go(name: &str) -> Option<&'static str> {
    const NUMBERS: [&str; 15] = [
        "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "uintptr", "byte",
        "rune", "float32", "float64",
    ];
    const REFERENCES: [&str; 6] = ["*", "[]", "map[", "chan ", "func(", "interface{"];
    let is_reference =
        matches!(name, "error" | "any") || REFERENCES.iter().any(|beginning| name.starts_with(beginning));
    match name {
        "bool" => Some("false"),
        "string" => Some("\"\""),
        _ if NUMBERS.contains(&name) => Some("0"),
        _ => is_reference.then_some("nil"),
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
            assert_eq!(of_rust(name).as_deref(), expected, "{name}");
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
            assert_eq!(of_go(name), expected, "{name}");
        }
    }
}
