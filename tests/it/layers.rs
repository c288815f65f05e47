//! Modules use their own layer or lower ones, stages never use one another, and no two modules use each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Top-level modules by layer, lowest first.
const LAYERS: [&[&str]; 4] = [
    &["record", "config"],
    &[
        "cache",
        "console",
        "environments",
        "files",
        "git",
        "harness",
        "history",
        "interpreters",
        "interrupt",
        "lab",
        "lang",
        "online",
        "pipeline",
        "process",
        "sandbox",
        "sources",
        "store",
        "syntax",
        "uv",
    ],
    &["build", "export", "grade", "issue", "mine", "report", "rollout", "validate"],
    &["cli"],
];
const STAGES: usize = 2;

fn layer(module: &str) -> usize {
    LAYERS
        .iter()
        .position(|modules| modules.contains(&module))
        .unwrap_or_else(|| panic!("module `{module}` has no layer yet: add it to LAYERS"))
}

fn sources(path: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}

/// Returns the top-level modules that a source names in `crate::…` paths, grouped imports included, tests left out.
fn uses(text: &str) -> BTreeSet<String> {
    let text = text.split("\n#[cfg(test)]").next().unwrap_or_default();
    let text: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => found.insert(word(rest)),
            Some(group) => {
                let mut depth = 0;
                let mut item_starts = true;
                for (at, character) in group.char_indices() {
                    match character {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => item_starts = true,
                        c if item_starts && c.is_alphabetic() => {
                            found.insert(word(&group[at..]));
                            item_starts = false;
                        }
                        _ => {}
                    }
                }
                true
            }
        };
    }
    found.into_iter().filter(|module| module.chars().next().is_some_and(char::is_lowercase)).collect()
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[test]
fn modules_use_their_own_layer_or_lower_and_never_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let relative = file.strip_prefix(&root).unwrap();
        let top = relative.components().next().unwrap().as_os_str().to_string_lossy();
        let module = top.trim_end_matches(".rs").to_owned();
        if module == "lib" || module == "main" {
            continue;
        }
        let used = uses(&fs::read_to_string(&file).unwrap()).into_iter().filter(|used| *used != module);
        for used in used {
            let (from, to) = (layer(&module), layer(&used));
            assert!(from >= to, "{}: `{module}` uses `{used}`, which is above it", relative.display());
            assert!(from != STAGES || to != STAGES, "{}: stage `{module}` uses stage `{used}`", relative.display());
            edges.entry(module.clone()).or_default().insert(used);
        }
    }
    assert!(edges.len() > 10, "the check reads nothing: {edges:?}");
    let mut left: BTreeSet<&String> = edges.keys().collect();
    while let Some(free) = left.iter().find(|module| edges[**module].iter().all(|used| !left.contains(used))).copied() {
        left.remove(free);
    }
    assert!(left.is_empty(), "these modules use each other in a circle: {left:?}");
}

#[test]
fn the_check_sees_grouped_imports() {
    let text =
        "use crate::{\n    git::{Repo, tree},\n    lab::Lab,\n};\nfn f() { crate::store::open() }\n// crate::cli\n";
    assert_eq!(uses(text), ["git", "lab", "store"].map(str::to_owned).into());
}
