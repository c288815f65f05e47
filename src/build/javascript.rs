//! JavaScript and TypeScript: a lock from whatever a commit declares, resolved by npm as of its date.
//!
//! A committed `package-lock.json` decides. Of the lock files of yarn and pnpm the versions of direct dependencies are
//! taken, what those need comes from the registry as of the fix's date: npm alone installs, so that one kind of lock
//! rebuilds every environment. Without a lock file npm resolves as of the base commit's day. Registries exist whose
//! dates are wrong for some packages (mirrors that give the day of copying); where no version is old enough, the last
//! rung does without a date, and the recipe says so.

mod locks;
mod manifest;
mod runner;

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, anyhow};
use jiff::{ToSpan, civil::Date};
use serde_json::{Map, Value};

use super::{day, of_repository, outcome, shared_day};
use crate::{
    config,
    environments::{
        self,
        javascript::{Lock, npm, toolchain, write_files},
    },
    git::Repo,
    lab::Lab,
    record::{
        candidate::Candidate,
        environment::{Build, BuildOutcome, Environment, Recipe, Runner, Toolchain},
        failure::{Blame, Failure, Phase},
        id::Digest,
    },
    sources,
};
use manifest::Project;

/// Files of the tree above this size take no part in a recipe, bytes.
const MAX_MANIFEST_BYTES: usize = 32 << 20;
/// Programs that are searched for names of packages, at most, and their size.
const MAX_SCRIPTS: usize = 3_000;
const MAX_SCRIPT_BYTES: usize = 1 << 20;
const LOCK_FILE: &str = "package-lock.json";
const LEGACY_PEERS: &str = "--legacy-peer-deps";
const WITHOUT_SCRIPTS: &str = "--ignore-scripts";
/// Where resolutions are kept in the cache.
const RESOLUTIONS: &str = "resolutions-javascript";

/// Builds the environment of one candidate, or says why there is none.
///
/// # Errors
/// An unusable setup: a repository or cache that cannot be read, an interrupt.
pub fn build(
    lab: &Lab,
    repository: &Path,
    candidate: &Candidate,
    overrides: Option<&sources::Manifest>,
    settings: &config::Build,
) -> Result<BuildOutcome> {
    let repo = Repo::open(repository)?;
    let tree = read_tree(&repo, &candidate.fix_commit)?;
    let fail = |kind: &str, blame, detail: &str| Ok(Err(Failure::new(Phase::Build, kind, blame, detail)));
    let scripts = read_scripts(&repo, &candidate.fix_commit, &tree)?;
    let is_named = |package: &str| {
        let quoted = ["'", "\""].map(|quote| format!("{quote}{package}"));
        scripts.iter().any(|text| quoted.iter().any(|name| text.contains(name)))
    };
    let Some(project) = manifest::read(&tree, &is_named) else {
        return fail("no_manifest", Blame::Repo, "there is no `package.json` at the top that can be read");
    };
    let Some(toolchain) = toolchain::find().first() else {
        return fail(
            "no_node",
            Blame::Infra,
            "there is no Node.js with npm on this machine (hint: install nodejs and npm)",
        );
    };
    let chosen = overrides.and_then(|overrides| overrides.runner);
    let Some(runner) = chosen.or_else(|| runner::detect(&project, &tree)) else {
        return fail("no_runner", Blame::Repo, "`package.json` names no test runner that is supported");
    };
    let attempt = Attempt { lab, candidate, project: &project, tree: &tree, toolchain, runner, settings };
    outcome(attempt.climb())
}

/// The texts of a tree that say what it needs, and all its paths.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub paths: Vec<String>,
    pub texts: std::collections::BTreeMap<String, String>,
}

fn read_tree(repo: &Repo, commit: &str) -> Result<Tree> {
    let mut tree = Tree::default();
    for (path, _) in repo.files(commit)? {
        // Names that are not UTF-8 are no manifest's.
        let Ok(path) = String::from_utf8(path.0) else { continue };
        let name = path.rsplit('/').next().unwrap_or_default();
        let at_top = ["yarn.lock", "pnpm-lock.yaml", LOCK_FILE, "npm-shrinkwrap.json", ".npmrc", "pnpm-workspace.yaml"];
        if (name == "package.json" && !path.contains("node_modules/")) || at_top.contains(&path.as_str()) {
            let bytes = repo.read(commit, path.as_bytes())?.unwrap_or_default();
            if bytes.len() <= MAX_MANIFEST_BYTES {
                tree.texts.insert(path.clone(), String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        tree.paths.push(path);
    }
    Ok(tree)
}

/// Returns the texts of the tree's programs, settings of tools left out.
fn read_scripts(repo: &Repo, commit: &str, tree: &Tree) -> Result<Vec<String>> {
    let is_script = |path: &&String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let ending = name.rsplit('.').next().unwrap_or_default();
        ["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"].contains(&ending)
            && !name.starts_with('.')
            && !name.contains(".config.")
            && !path.contains("node_modules/")
            && !path.to_lowercase().contains("bench")
    };
    let mut texts = Vec::new();
    for path in tree.paths.iter().filter(is_script).take(MAX_SCRIPTS) {
        let bytes = repo.read(commit, path.as_bytes())?.unwrap_or_default();
        if bytes.len() <= MAX_SCRIPT_BYTES {
            texts.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    Ok(texts)
}

/// One attempt at a resolution.
struct Rung {
    name: &'static str,
    /// What npm starts from.
    files: Map<String, Value>,
    /// Releases before this instant count.
    before: Option<Date>,
    sources: Vec<String>,
}

/// Everything that the climb of one candidate rests on.
struct Attempt<'a> {
    lab: &'a Lab,
    candidate: &'a Candidate,
    project: &'a Project,
    tree: &'a Tree,
    toolchain: &'a Toolchain,
    runner: Runner,
    settings: &'a config::Build,
}

impl Attempt<'_> {
    /// Tries the rungs in order and returns the first that holds.
    fn climb(&self) -> Result<Build> {
        let mut failed_rungs = Vec::new();
        let mut first: Option<Failure> = None;
        for rung in self.rungs() {
            match self.stand(&rung, &mut failed_rungs) {
                Ok(environment) => return Ok(self.result(environment, &rung, failed_rungs)),
                Err(error) => {
                    let failure = of_repository(error)?;
                    failed_rungs.push(note(rung.name, &failure));
                    first.get_or_insert(failure);
                }
            }
        }
        let first = first.ok_or_else(|| anyhow!("climb a ladder without rungs"))?;
        let detail = format!("{}\n{}", first.detail, failed_rungs.join("\n"));
        Err(anyhow!(Failure { detail, ..first }))
    }

    fn rungs(&self) -> Vec<Rung> {
        let (base, fix) = (day(self.candidate.base_time), day(self.candidate.fix_time));
        let shared = shared_day(base, self.settings.share_days);
        let after_fix = fix.checked_add(1.day()).unwrap_or(fix);
        let manifest = vec!["package.json".to_owned()];
        let mut rungs = Vec::new();
        for name in [LOCK_FILE, "npm-shrinkwrap.json"] {
            let lock = self.tree.texts.get(name).and_then(|text| serde_json::from_str::<Value>(text).ok());
            if let Some(lock) = lock.filter(Value::is_object) {
                let mut files = self.project.files.clone();
                files.insert(LOCK_FILE.to_owned(), lock);
                let sources = vec!["package.json".to_owned(), name.to_owned()];
                rungs.push(Rung { name: "lock_file", files, before: None, sources });
            }
        }
        for (name, pins) in [("yarn.lock", locks::yarn as fn(&str) -> locks::Pins), ("pnpm-lock.yaml", locks::pnpm)] {
            let Some(text) = self.tree.texts.get(name) else { continue };
            let pins = pins(text);
            if !pins.is_empty() {
                let files = self.project.pinned(&pins);
                let sources = vec!["package.json".to_owned(), name.to_owned()];
                rungs.push(Rung {
                    name: "pinned_dated",
                    files: files.clone(),
                    before: Some(after_fix),
                    sources: sources.clone(),
                });
                rungs.push(Rung { name: "pinned_undated", files, before: None, sources });
            }
        }
        let mut days = vec![("shared", Some(shared)), ("dated", Some(base))];
        days.dedup_by_key(|(_, before)| *before);
        days.extend([("dated_by_fix", Some(after_fix)), ("undated", None)]);
        for (name, before) in days {
            rungs.push(Rung { name, files: self.project.files.clone(), before, sources: manifest.clone() });
        }
        rungs
    }

    /// Resolves and installs one rung.
    fn stand(&self, rung: &Rung, failed_rungs: &mut Vec<String>) -> Result<Environment> {
        let mut options: Vec<String> = Vec::new();
        if self.project.legacy_peers {
            options.push(LEGACY_PEERS.to_owned());
        }
        let mut lock = match self.resolve(rung, &options) {
            Err(error) if is_peer_conflict(&error) && options.is_empty() => {
                failed_rungs.push(format!("{}: peer dependencies contradict each other", rung.name));
                options.push(LEGACY_PEERS.to_owned());
                self.resolve(rung, &options)?
            }
            resolved => resolved?,
        };
        if let Some(package) = runner::package(self.runner).filter(|package| !lock.has(package)) {
            let detail = format!("the tests run on `{package}`, which is not among the dependencies");
            return Err(anyhow!(Failure::new(Phase::Build, "runner_missing", Blame::Repo, detail)));
        }
        let environment = Environment::new(self.toolchain.clone(), lock.text());
        lock.options.push(WITHOUT_SCRIPTS.to_owned());
        lock.options.sort();
        let without_scripts = Environment::new(self.toolchain.clone(), lock.text());
        // That a script fails here is not tried out again.
        if !environments::is_installed(self.lab, &without_scripts) {
            match environments::ensure(self.lab, &environment) {
                Ok(_) => return Ok(environment),
                Err(failure) if failure.is_transient() => return Err(anyhow!(failure)),
                Err(failure) => failed_rungs.push(note(&format!("{} with install scripts", rung.name), &failure)),
            }
        }
        environments::ensure(self.lab, &without_scripts).map_err(|failure| anyhow!(failure))?;
        Ok(without_scripts)
    }

    /// Resolves a rung with npm; what was resolved once is taken from the cache.
    fn resolve(&self, rung: &Rung, options: &[String]) -> Result<Lock> {
        let before = rung.before.map(|day| day.to_string()).unwrap_or_default();
        let files = serde_json::to_string(&rung.files).context("write a manifest")?;
        let options_text = options.join(" ");
        let parts = ["resolution 1", &files, &options_text, &before, &self.toolchain.version];
        let key = Digest::of(&parts.map(str::as_bytes));
        let dir = self.lab.cache.publish(RESOLUTIONS, key.as_str(), |dir| -> Result<()> {
            write_files(&rung.files, dir)?;
            let mut arguments: Vec<String> =
                ["install", "--package-lock-only", WITHOUT_SCRIPTS].map(str::to_owned).into();
            arguments.extend(["--omit-lockfile-registry-resolved", "--lockfile-version=3"].map(str::to_owned));
            arguments.extend(rung.before.map(|day| format!("--before={day}")));
            arguments.extend(options.iter().cloned());
            let wall = Duration::from_secs(self.settings.resolve_timeout_s);
            npm::run(self.lab, "resolve_failed", &npm::Job { toolchain: self.toolchain, dir, arguments, wall })
        })?;
        let file = dir.join(LOCK_FILE);
        // Without any dependency npm writes none.
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::from("{\"lockfileVersion\": 3}"),
            Err(error) => return Err(error).with_context(|| format!("read `{}`", file.display())),
        };
        let resolved: Value = serde_json::from_str(&text).with_context(|| format!("read `{}`", file.display()))?;
        let mut files = rung.files.clone();
        files.insert(LOCK_FILE.to_owned(), manifest::without_origins(resolved));
        Ok(Lock { options: options.to_vec(), files })
    }

    fn result(&self, environment: Environment, rung: &Rung, failed_rungs: Vec<String>) -> Build {
        let engines = self.project.engines.as_deref().unwrap_or("nothing");
        Build {
            instance_id: self.candidate.instance_id.clone(),
            runner: self.runner,
            environment,
            recipe: Recipe {
                interpreter_reason: format!("the first on the path; `engines` asks for {engines}"),
                cutoff: rung.before.map(|day| day.to_string()).unwrap_or_default(),
                exceptions: Vec::new(),
                sources: rung.sources.clone(),
                requirements: self.project.requirements(),
                rung: rung.name.to_owned(),
                failed_rungs,
            },
            metadata: Vec::new(),
            generated: Vec::new(),
            import_roots: vec![String::new()],
        }
    }
}

fn is_peer_conflict(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| npm::error_code(&failure.detail) == Some("ERESOLVE"))
}

/// Returns one line on a rung that did not hold.
fn note(rung: &str, failure: &Failure) -> String {
    let lines = failure.detail.lines().map(str::trim).filter(|line| !line.is_empty()).take(2).collect::<Vec<_>>();
    format!("{rung}: {}: {}", failure.kind, lines.join("; "))
}
