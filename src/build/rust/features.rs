//! Which features and compiler flags a repository's tests are run with: the default ones, those that test targets
//! require, and those of the `cargo test` lines in its CI files.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::manifest::{Tree, package_of};

/// Features by these names need a nightly compiler.
const NIGHTLY: [&str; 3] = ["nightly", "unstable", "nightly-testing"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    pub all: bool,
    /// `package/feature`, sorted.
    pub features: Vec<String>,
}

/// Chooses for the packages of these manifests.
pub fn choose(tree: &Tree, manifests: &[&Table]) -> Choice {
    let asked = of_ci(tree);
    let mut features = BTreeSet::new();
    let mut has_nightly = false;
    for table in manifests {
        let Some(name) = package_of(table).and_then(|package| package.get("name")?.as_str()) else { continue };
        let known: Vec<&String> =
            table.get("features").and_then(Value::as_table).into_iter().flat_map(Table::keys).collect();
        has_nightly |= known.iter().any(|feature| NIGHTLY.contains(&feature.as_str()));
        let is_wanted = |feature: &str| !NIGHTLY.contains(&feature) && (asked.all || asked.names(name, feature));
        let wanted = known.iter().filter(|feature| is_wanted(feature)).map(|feature| format!("{name}/{feature}"));
        features.extend(wanted);
        features.extend(required(table).map(|feature| format!("{name}/{feature}")));
    }
    if asked.all && !has_nightly {
        return Choice { all: true, features: Vec::new() };
    }
    Choice { all: false, features: features.into_iter().collect() }
}

/// Returns the features that test targets require.
fn required(table: &Table) -> impl Iterator<Item = &str> {
    let targets = ["test", "bin"].into_iter().filter_map(|kind| table.get(kind)?.as_array()).flatten();
    let lists = targets.filter_map(|target| target.get("required-features")?.as_array());
    lists.flatten().filter_map(Value::as_str).filter(|feature| !NIGHTLY.contains(feature) && !feature.contains('/'))
}

/// What CI asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    all: bool,
    features: BTreeSet<String>,
}

impl Asked {
    fn names(&self, package: &str, feature: &str) -> bool {
        self.features.contains(feature) || self.features.contains(&format!("{package}/{feature}"))
    }
}

fn of_ci(tree: &Tree) -> Asked {
    let mut asked = Asked::default();
    for path in tree.paths.iter().filter(|path| is_ci_file(path)) {
        for line in (tree.read)(path).unwrap_or_default().lines() {
            read_line(line, &mut asked);
        }
    }
    asked
}

fn is_ci_file(path: &str) -> bool {
    let is_yaml = path.ends_with(".yml") || path.ends_with(".yaml");
    (is_yaml && path.starts_with(".github/workflows/"))
        || [".travis.yml", ".gitlab-ci.yml", ".cirrus.yml"].contains(&path)
        || (path.starts_with("ci/") && path.ends_with(".sh"))
}

fn read_line(line: &str, asked: &mut Asked) {
    const OTHERS: [&str; 5] = ["nightly", "miri", "--no-default-features", "--target", "--release"];
    let is_test = line.contains("cargo") && (line.contains(" test") || line.contains("nextest"));
    if !is_test || line.trim_start().starts_with('#') || OTHERS.iter().any(|word| line.contains(word)) {
        return;
    }
    let line = line.replace(['"', '\''], " ").replace("--features=", "--features ");
    let words: Vec<&str> = line.split_whitespace().collect();
    asked.all |= words.contains(&"--all-features");
    for (at, _) in words.iter().enumerate().filter(|(_, word)| **word == "--features" || **word == "-F") {
        let values =
            words[at + 1..].iter().take_while(|word| !word.starts_with('-') && !word.starts_with(['&', '|', ';']));
        let values = values.flat_map(|word| word.split(','));
        asked.features.extend(values.filter(|it| !it.is_empty() && !it.contains('$')).map(str::to_owned));
    }
}

/// Returns the compiler flags of the repository's Cargo configuration, without those that make warnings errors.
pub fn rustflags(tree: &Tree, directory: &str) -> Vec<String> {
    let place = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    let files = ["config.toml", "config"].map(|name| format!("{place}.cargo/{name}"));
    let text = files.iter().filter(|path| tree.paths.contains(*path)).find_map(|path| (tree.read)(path));
    let table: Table = text.and_then(|text| text.parse().ok()).unwrap_or_default();
    let flags: Vec<String> = match table.get("build").and_then(|build| build.get("rustflags")) {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(text)) => text.split_whitespace().map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    // Only what chooses code; the rest is for other machines and linkers.
    let mut kept = Vec::new();
    let mut flags = flags.into_iter().peekable();
    while let Some(flag) = flags.next() {
        if flag == "--cfg" {
            kept.extend(flags.next().map(|value| format!("--cfg={value}")));
        } else if flag.starts_with("--cfg=") {
            kept.push(flag);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn with_tree<T>(files: &[(&str, &str)], act: impl Fn(&Tree) -> T) -> T {
        let files: BTreeMap<String, String> = files.iter().map(|(p, t)| ((*p).to_owned(), (*t).to_owned())).collect();
        let paths = files.keys().cloned().collect();
        act(&Tree { paths: &paths, read: &|path| files.get(path).cloned() })
    }

    #[test]
    fn ci_lines_name_features() {
        let manifest: Table = "[package]\nname = 'a'\n[features]\nx = []\ny = []\nz = []\nnightly = []\n\
                               [[test]]\nname = 't'\nrequired-features = ['z']\n"
            .parse()
            .unwrap();
        let choice = |line: &str| with_tree(&[(".github/workflows/ci.yml", line)], |tree| choose(tree, &[&manifest]));
        assert_eq!(choice("- run: cargo build --all-features").features, ["a/z"]);
        assert_eq!(choice("- run: cargo test --features \"x,y\" -- --quiet").features, ["a/x", "a/y", "a/z"]);
        assert_eq!(choice("- run: cargo test --features ${{ matrix.features }}").features, ["a/z"]);
        assert_eq!(choice("- run: cargo +nightly test --all-features").features, ["a/z"]);
        // Not those that need another compiler.
        assert_eq!(choice("- run: cargo test --all-features").features, ["a/x", "a/y", "a/z"]);
        assert!(!choice("- run: cargo test --all-features").all);
    }

    #[test]
    fn only_flags_that_choose_code_are_kept() {
        let config = "[build]\nrustflags = ['-D', 'warnings', '--cfg', 'tokio_unstable', '-Clink-arg=-fuse-ld=lld']\n";
        let flags = with_tree(&[(".cargo/config.toml", config)], |tree| rustflags(tree, ""));
        assert_eq!(flags, ["--cfg=tokio_unstable"]);
    }
}
