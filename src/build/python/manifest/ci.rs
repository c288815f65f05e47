//! What task runners and CI install by name: `noxfile.py`, `Makefile`, GitHub workflows, `.travis.yml`.

use std::sync::LazyLock;

use regex::Regex;

use super::{TestEnvironment, Tree};
use crate::build::python::requirement::{Wanted, normalise, parse};

/// Returns packages, extras and groups named by install commands, in order of appearance.
pub fn read(tree: &Tree) -> TestEnvironment {
    static PIP: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\bpip3?\s+install\s+([^\n&|;]+)").expect("a valid expression"));
    static NOX: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?s)session\.install\(([^)]*)\)").expect("a valid expression"));
    static GROUP: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"--(?:group|only-group)[= ]([A-Za-z0-9._-]+)").expect("a valid expression"));
    let mut found = TestEnvironment::default();
    let commands = tree.texts.iter().filter(|(path, _)| is_command_file(path));
    for (_, text) in commands {
        for install in PIP.captures_iter(text) {
            arguments(install[1].split_whitespace(), &mut found);
        }
        for install in NOX.captures_iter(text) {
            arguments(install[1].split(',').map(str::trim), &mut found);
        }
        found.groups.extend(GROUP.captures_iter(text).map(|group| normalise(&group[1])));
    }
    found
}

fn is_command_file(path: &str) -> bool {
    matches!(path, "noxfile.py" | "Makefile" | ".travis.yml" | "appveyor.yml") || path.starts_with(".github/")
}

/// Takes in the arguments of one install command; one that names variables or files is passed over.
fn arguments<'a>(words: impl Iterator<Item = &'a str>, found: &mut TestEnvironment) {
    for word in words {
        let word = word.trim_matches(['"', '\'', ',']);
        let is_plain = !word.contains(['$', '{', '/', '*', '(', '=']) || word.contains("==");
        match parse(word) {
            Wanted::Project(extras) => found.extras.extend(extras),
            Wanted::Package(package) if is_plain && !word.starts_with('-') && word.len() > 1 => {
                found.deps.push(package.to_string());
            }
            Wanted::Package(_) | Wanted::File(_) | Wanted::Constraints(_) | Wanted::Nothing => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn install_commands_are_read() {
        let texts = [
            (
                ".github/workflows/ci.yml",
                "run: |\n  python -m pip install -U pip\n  pip install -e .[test,Extra] pytest==7.0\n  pip install ${{ x }}\n",
            ),
            (
                "noxfile.py",
                "session.install(\"-e\", \".[dev]\")\nsession.install('hypothesis')\nx(\"--group\", \"--group tests\")",
            ),
        ];
        let texts = texts.map(|(path, text)| (path.to_owned(), text.to_owned())).into_iter().collect();
        let found = read(&Tree { paths: Vec::new(), texts });
        assert_eq!(found.extras, ["test", "extra", "dev"]);
        assert_eq!(found.deps, ["pip", "pytest==7.0", "hypothesis"]);
        assert_eq!(found.groups, ["tests"]);
    }
}
