//! Which test runner a project uses. Pure.

use serde_json::Value;

use super::{Tree, manifest::Project};
use crate::record::environment::Runner;

/// Runners with the words that start them, in the order in which dependencies decide.
const RUNNERS: [(Runner, &str); 5] = [
    (Runner::Vitest, "vitest"),
    (Runner::Jest, "jest"),
    (Runner::Ava, "ava"),
    (Runner::Tap, "tap"),
    (Runner::Mocha, "mocha"),
];
const MAX_DEPTH: usize = 8;

/// Returns the package that a runner comes from.
pub fn package(runner: Runner) -> Option<&'static str> {
    RUNNERS.iter().find(|(known, _)| *known == runner).map(|(_, package)| *package)
}

/// Returns the runner that the `test` script starts, itself or through other scripts, else one that another script
/// starts, else one among the dependencies.
pub fn detect(project: &Project, tree: &Tree) -> Option<Runner> {
    let mut names: Vec<&str> = project.scripts.keys().map(String::as_str).filter(|name| *name != "test").collect();
    names.sort_by_key(|name| !(name.starts_with("test") || name.starts_with("unit")));
    let started = std::iter::once("test").chain(names).find_map(|name| started_by(project, name, 0));
    let depended = || RUNNERS.iter().find(|(_, package)| project.depends_on(package)).map(|(runner, _)| *runner);
    let has_scripts = || tree.paths.iter().any(|path| path.starts_with("test/") && path.ends_with(".test.js"));
    started.or_else(depended).or_else(|| has_scripts().then_some(Runner::NodeTest))
}

fn started_by(project: &Project, script: &str, depth: usize) -> Option<Runner> {
    if depth > MAX_DEPTH {
        return None;
    }
    let text = project.scripts.get(script).and_then(Value::as_str)?;
    text.split(['&', '|', ';']).find_map(|command| {
        let words: Vec<&str> = command.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
        let inner = match words.as_slice() {
            ["npm" | "yarn" | "pnpm" | "bun", "run" | "run-script", rest @ ..] => {
                rest.iter().find(|word| !word.starts_with('-')).copied()
            }
            ["yarn" | "pnpm" | "bun", name, ..] if project.scripts.contains_key(*name) => Some(*name),
            ["run-s" | "run-p" | "npm-run-all", rest @ ..] => {
                return rest.iter().find_map(|name| started_by(project, name, depth + 1));
            }
            _ => None,
        };
        match inner {
            Some(name) if name != script => started_by(project, name, depth + 1),
            _ => named(&words),
        }
    })
}

/// Returns the runner that one command names as a program.
fn named(words: &[&str]) -> Option<Runner> {
    let programs = words.iter().filter(|word| !word.starts_with('-'));
    let names = programs.map(|word| word.rsplit('/').next().unwrap_or(word));
    for name in names {
        let stem = name.trim_end_matches(".js").trim_start_matches('_');
        if let Some((runner, _)) = RUNNERS.iter().find(|(_, word)| *word == stem) {
            return Some(*runner);
        }
        if ["node", "tsx", "borp"].contains(&stem) && (words.contains(&"--test") || stem == "borp") {
            return Some(Runner::NodeTest);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::javascript::manifest;

    fn detected(package: &str) -> Option<Runner> {
        let tree = Tree {
            paths: vec!["package.json".to_owned()],
            texts: [("package.json".to_owned(), package.to_owned())].into(),
        };
        detect(&manifest::read(&tree, &|_| false).unwrap(), &tree)
    }

    #[test]
    fn the_test_script_says_which_runner() {
        let cases = [
            (r#"{"scripts": {"test": "xo && ava && tsd"}, "devDependencies": {"jest": "1"}}"#, Some(Runner::Ava)),
            (r#"{"scripts": {"test": "npm run lint && npm run unit", "unit": "nyc mocha"}}"#, Some(Runner::Mocha)),
            (r#"{"scripts": {"test": "node --import tsx --test test/*.ts"}}"#, Some(Runner::NodeTest)),
            (r#"{"scripts": {"test": "cross-env NODE_ENV=test node ./node_modules/.bin/jest"}}"#, Some(Runner::Jest)),
            (r#"{"scripts": {"test": "run-s lint test:*", "test:unit": "vitest run"}}"#, Some(Runner::Vitest)),
            (r#"{"scripts": {"test": "make"}, "devDependencies": {"tap": "^16"}}"#, Some(Runner::Tap)),
            (r#"{"scripts": {"test": "npm test"}}"#, None),
        ];
        for (package, runner) in cases {
            assert_eq!(detected(package), runner, "{package}");
        }
    }
}
