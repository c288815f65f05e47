//! The versions that lock files of yarn and pnpm give to direct dependencies. Pure.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;

/// Version by name and range; an empty range stands for any.
pub type Pins = BTreeMap<(String, String), String>;

/// Reads `yarn.lock`, of the first yarn and of later ones.
pub fn yarn(text: &str) -> Pins {
    static VERSION: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"^ {2}"?version"?:? "?([^"\s]+)"?$"#).expect("a valid expression"));
    let mut pins = Pins::new();
    let mut keys: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if !line.starts_with([' ', '#']) && line.ends_with(':') {
            let names = line.trim_end_matches(':').split(',').flat_map(|part| part.trim().split(", "));
            keys = names.filter_map(|name| descriptor(name.trim_matches([' ', '"']))).collect();
        } else if let Some(version) = VERSION.captures(line) {
            for key in keys.drain(..) {
                pins.insert(key, version[1].to_owned());
            }
        }
    }
    pins.retain(|_, version| is_release(version));
    pins
}

/// Splits `@scope/name@range`; `npm:` before the range is the default protocol of later yarns.
fn descriptor(text: &str) -> Option<(String, String)> {
    let at = text.get(1..)?.find('@')? + 1;
    let (name, range) = (&text[..at], &text[at + 1..]);
    Some((name.to_owned(), range.strip_prefix("npm:").unwrap_or(range).to_owned()))
}

/// Reads the importer at the top of `pnpm-lock.yaml`, in the forms that pnpm has written since version 5.
pub fn pnpm(text: &str) -> Pins {
    static ENTRY: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"^( *)['"]?([^'":]+|@[^'":]+)['"]?:\s*(.*)$"#).expect("a valid expression"));
    let mut pins = Pins::new();
    // Names of the mappings around a line, with their indentation.
    let mut around: Vec<(usize, String)> = Vec::new();
    for line in text.lines() {
        let Some(entry) = ENTRY.captures(line) else { continue };
        let (indent, key, value) = (entry[1].len(), entry[2].to_owned(), entry[3].trim_matches(['\'', '"', ' ']));
        around.retain(|(other, _)| *other < indent);
        let mut names: Vec<&str> = around.iter().map(|(_, name)| name.as_str()).collect();
        if names.first() == Some(&"importers") && names.get(1) == Some(&".") {
            names.drain(..2);
        }
        let is_section = |name: &&str| ["dependencies", "devDependencies", "optionalDependencies"].contains(name);
        let pin = match names.as_slice() {
            [section] if is_section(section) && !value.is_empty() => Some((key.clone(), value)),
            [section, name] if is_section(section) && key == "version" => Some(((*name).to_owned(), value)),
            _ => None,
        };
        if let Some((name, version)) = pin {
            // What follows tells the peers apart: `1.2.3(react@18.0.0)`, `1.2.3_react@18.0.0`.
            let version = version.split(['(', '_']).next().unwrap_or_default();
            if is_release(version) {
                pins.insert((name, String::new()), version.to_owned());
            }
        }
        around.push((indent, key));
    }
    pins
}

/// Says whether a version is one of the registry's, and no link or address.
fn is_release(version: &str) -> bool {
    version.starts_with(|first: char| first.is_ascii_digit()) && version.contains('.') && !version.contains(['/', ':'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(pins: &Pins) -> Vec<String> {
        pins.iter().map(|((name, range), version)| format!("{name} {range} {version}")).collect()
    }

    #[test]
    fn both_yarns_are_read() {
        let first = "# yarn lockfile v1\n\n\n\"@babel/core@^7.0.0\", \"@babel/core@^7.1.0\":\n  version \"7.20.0\"\n  \
                     resolved \"https://x\"\n  dependencies:\n    b \"^1\"\n\nmocha@^9:\n  version \"9.2.2\"\n";
        assert_eq!(listed(&yarn(first)), ["@babel/core ^7.0.0 7.20.0", "@babel/core ^7.1.0 7.20.0", "mocha ^9 9.2.2"]);
        let later = "__metadata:\n  version: 6\n\n\"jest@npm:^29.0.0, jest@npm:^29.1.0\":\n  version: 29.5.0\n  \
                     resolution: \"jest@npm:29.5.0\"\n\n\"own@workspace:.\":\n  version: 0.0.0-use.local\n";
        let pins = yarn(later);
        assert_eq!(pins[&("jest".to_owned(), "^29.1.0".to_owned())], "29.5.0");
    }

    #[test]
    fn forms_of_pnpm_are_read() {
        let fifth = "lockfileVersion: 5.4\n\nspecifiers:\n  vitest: ^0.30.0\n\ndevDependencies:\n  vitest: 0.30.1_jsdom@20.0.0\n  \
                     '@scope/a': 1.0.0\n\npackages:\n\n  /vitest/0.30.1:\n    dev: true\n";
        assert_eq!(listed(&pnpm(fifth)), ["@scope/a  1.0.0", "vitest  0.30.1"]);
        let ninth = "lockfileVersion: '9.0'\n\nimporters:\n\n  .:\n    devDependencies:\n      '@types/node':\n        \
                     specifier: ^20.0.0\n        version: 20.1.0\n      vite:\n        specifier: ^5\n        version: \
                     5.0.0(@types/node@20.1.0)\n      own:\n        specifier: workspace:*\n        version: link:packages/own\n  \
                     packages/own:\n    dependencies:\n      x:\n        version: 1.0.0\n";
        assert_eq!(listed(&pnpm(ninth)), ["@types/node  20.1.0", "vite  5.0.0"]);
    }
}
