//! Rust: the committed `Cargo.lock`, else one resolved as of the base commit's day from the index's publication times,
//! else the newest; the first under which all dependencies compile.
//!
//! One toolchain, the machine's: a `rust-toolchain` file that asks for another is noted and ignored, a package that needs
//! a newer one is refused by name. Git dependencies have no history to go by: without a lock they are taken as they are.

mod features;
mod manifest;

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use anyhow::{Context, Result, anyhow};
use jiff::{civil::Date, tz::TimeZone};

use super::{day, of_repository, outcome, shared_day};
use crate::{
    config,
    environments::{
        self,
        rust::{Index, Resolution, resolve, toolchain},
    },
    git::Repo,
    lab::Lab,
    online,
    record::{
        candidate::Candidate,
        cargo::Workspace,
        environment::{Build, BuildOutcome, Environment, LayerFile, Recipe, Runner, Toolchain},
        failure::{Blame, Failure, Phase},
    },
    sources,
};
use manifest::{Project, Tree, number};

/// Environments that could not be installed, by key, with the reason: a lock that many commits share fails once.
const FAILED: &str = "environments-failed";
/// Editions, with the first release that has each.
const EDITIONS: [(&str, (u32, u32)); 4] = [("2015", (1, 0)), ("2018", (1, 31)), ("2021", (1, 56)), ("2024", (1, 85))];

/// Builds the environment of one candidate, or says why there is none.
///
/// # Errors
/// An unusable setup: a repository or cache that cannot be read, an interrupt.
pub fn build(
    lab: &Lab,
    repository: &Path,
    candidate: &Candidate,
    _overrides: Option<&sources::Manifest>,
    settings: &config::Build,
) -> Result<BuildOutcome> {
    let Some(toolchain) = toolchain::find() else {
        let detail = "there is no Rust on this machine (hint: install rustup, https://rustup.rs)";
        return Ok(Err(Failure::new(Phase::Build, "no_toolchain", Blame::Infra, detail)));
    };
    let repo = Repo::open(repository)?;
    let commit = Commit { repo: &repo, id: &candidate.fix_commit };
    let paths = commit.paths()?;
    let tree = Tree { paths: &paths, read: &|path| commit.read(path) };
    let project = match manifest::read(&tree) {
        Ok(project) => project,
        Err(detail) => return Ok(Err(Failure::new(Phase::Build, "manifest_unreadable", Blame::Repo, detail))),
    };
    if let Err(failure) = check_needs(&project, &toolchain) {
        return Ok(Err(failure));
    }
    let attempt =
        Attempt { lab, repo: &repo, candidate, tree: &tree, project: &project, toolchain: &toolchain, settings };
    outcome(attempt.climb())
}

/// One commit's files.
struct Commit<'a> {
    repo: &'a Repo,
    id: &'a str,
}

impl Commit<'_> {
    /// Returns the paths that are UTF-8; others are no manifest's.
    fn paths(&self) -> Result<BTreeSet<String>> {
        Ok(self.repo.files(self.id)?.into_iter().filter_map(|(path, _)| String::from_utf8(path.0).ok()).collect())
    }

    /// Returns a file's text; `None` where there is none that can be read.
    fn read(&self, path: &str) -> Option<String> {
        let bytes = self.repo.read(self.id, path.as_bytes()).ok().flatten()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Refuses what the toolchain is too old for.
fn check_needs(project: &Project, toolchain: &Toolchain) -> Result<(), Failure> {
    let version = number(&toolchain.version);
    let refuse = |what: String| {
        let detail = format!("{what}; the toolchain here is Rust {}", toolchain.version);
        Err(Failure::new(Phase::Build, "toolchain_too_old", Blame::Repo, detail))
    };
    if let Some((wanted, package)) = project.rust_version.as_ref().filter(|(wanted, _)| number(wanted) > version) {
        return refuse(format!("package `{package}` needs Rust {wanted}"));
    }
    match &project.edition {
        Some((edition, package)) => match EDITIONS.iter().find(|(name, _)| name == edition) {
            Some((_, since)) if *since <= version => Ok(()),
            Some(_) | None => refuse(format!("package `{package}` is of edition {edition}")),
        },
        None => Ok(()),
    }
}

/// One way to find a lock.
struct Rung<'a> {
    name: &'static str,
    index: Index,
    lock: Option<&'a str>,
}

impl Rung<'_> {
    /// Returns the last day whose releases count, as far as the index decides.
    ///
    /// Empty where a lock or the newest releases do.
    fn cutoff(&self) -> String {
        match self.index {
            Index::Before(instant) => day(instant - 1).to_string(),
            Index::Now => String::new(),
        }
    }
}

/// Returns the ladder. Neighbouring days share environments; what came out among them costs a rung.
fn rungs(base: Date, shared: Date, committed: Option<&str>) -> Vec<Rung<'_>> {
    let dated = |name, day| Rung { name, index: Index::Before(midnight(day)), lock: None };
    let mut rungs = Vec::new();
    rungs.extend(committed.map(|lock| Rung { name: "lock_file", index: Index::Now, lock: Some(lock) }));
    rungs.push(dated("shared", shared));
    rungs.extend((shared != base).then(|| dated("dated", base)));
    rungs.push(Rung { name: "newest", index: Index::Now, lock: None });
    rungs
}

/// Returns the instant at which a day (UTC) begins, seconds since 1970.
fn midnight(day: Date) -> i64 {
    TimeZone::UTC.to_timestamp(day.into()).map_or(0, jiff::Timestamp::as_second)
}

struct Attempt<'a> {
    lab: &'a Lab,
    repo: &'a Repo,
    candidate: &'a Candidate,
    tree: &'a Tree<'a>,
    project: &'a Project,
    toolchain: &'a Toolchain,
    settings: &'a config::Build,
}

impl Attempt<'_> {
    /// Tries the ladder's rungs and returns the first that holds.
    fn climb(&self) -> Result<Build> {
        let committed = (self.tree.read)(&self.lock_path());
        let base = day(self.candidate.base_time);
        let rungs = rungs(base, shared_day(base, self.settings.share_days), committed.as_deref());
        let mut failed_rungs = Vec::new();
        let mut first = None;
        for rung in rungs {
            match self.stand(&rung) {
                Ok(environment) => {
                    let recipe = Recipe {
                        interpreter_reason: self.toolchain_reason(),
                        cutoff: rung.cutoff(),
                        exceptions: Vec::new(),
                        sources: self.project.workspace.manifests.keys().cloned().collect(),
                        requirements: self.options(),
                        rung: rung.name.to_owned(),
                        failed_rungs,
                    };
                    return self.result(environment, recipe);
                }
                Err(error) => {
                    let failure = of_repository(error)?;
                    failed_rungs.push(note(rung.name, &failure));
                    first.get_or_insert(failure);
                }
            }
        }
        let first = first.context("climb a ladder without rungs")?;
        let detail = online::tail(&format!("{}\n{}", first.detail, failed_rungs.join("\n")));
        Err(anyhow!(Failure { detail, ..first }))
    }

    fn stand(&self, rung: &Rung) -> Result<Environment> {
        let resolution = Resolution {
            index: rung.index,
            lock: rung.lock,
            wall: Duration::from_secs(self.settings.resolve_timeout_s),
        };
        let lock = resolve(self.lab, self.toolchain, &self.project.workspace, resolution)?;
        let environment = Environment::new(self.toolchain.clone(), lock);
        self.install(&environment)?;
        Ok(environment)
    }

    /// Installs an environment, or fails as it did before.
    fn install(&self, environment: &Environment) -> Result<()> {
        let file = self.lab.cache.dir(FAILED)?.join(environment.key.as_str());
        let known = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<Failure>(&bytes).ok());
        if let Some(failure) = known {
            return Err(anyhow!(failure));
        }
        environments::ensure(self.lab, environment).map(drop).map_err(|failure| {
            if !failure.is_transient() && !crate::interrupt::requested() {
                // One that cannot be written down is found out again.
                let _ = serde_json::to_vec(&failure).map(|bytes| fs::write(&file, bytes));
            }
            anyhow!(failure)
        })
    }

    fn lock_path(&self) -> String {
        let directory = &self.project.workspace.directory;
        if directory.is_empty() { "Cargo.lock".to_owned() } else { format!("{directory}/Cargo.lock") }
    }

    fn toolchain_reason(&self) -> String {
        let asked = ["rust-toolchain.toml", "rust-toolchain"].into_iter().find(|path| self.tree.paths.contains(*path));
        let asked = asked.map(|path| format!("; `{path}` is ignored"));
        format!("Rust {} of this machine{}", self.toolchain.version, asked.unwrap_or_default())
    }

    /// Returns Cargo's options that differ from a plain `cargo test`.
    fn options(&self) -> Vec<String> {
        let workspace = &self.project.workspace;
        let all = workspace.all_features.then(|| "--all-features".to_owned());
        let features = workspace.features.iter().map(|feature| format!("--features {feature}"));
        all.into_iter().chain(features).chain(workspace.rustflags.iter().cloned()).collect()
    }

    fn result(&self, environment: Environment, recipe: Recipe) -> Result<Build> {
        let (_, lock) = Workspace::of_lock(&environment.lock).context("read the lock that was just resolved")?;
        let path = self.lock_path();
        let of_base = self.repo.read(&self.candidate.base_commit, path.as_bytes())?;
        let of_fix = (self.tree.read)(&path);
        let serves = recipe.rung == "lock_file" && of_base.as_deref() == of_fix.as_deref().map(str::as_bytes);
        let text = unmasked(lock, self.project);
        let generated = LayerFile { path: path.as_str().into(), content: text.as_str().into(), executable: false };
        Ok(Build {
            instance_id: self.candidate.instance_id.clone(),
            runner: Runner::Cargo,
            environment,
            recipe,
            metadata: Vec::new(),
            generated: if serves { Vec::new() } else { vec![generated] },
            import_roots: Vec::new(),
        })
    }
}

/// Gives the tree's own packages their versions back, so that Cargo need not rewrite the lock.
fn unmasked(lock: &str, project: &Project) -> String {
    let mut text = lock.to_owned();
    for (name, version) in &project.versions {
        let masked = format!("name = \"{name}\"\nversion = \"0.0.0\"\n");
        text = text.replace(&masked, &format!("name = \"{name}\"\nversion = \"{version}\"\n"));
    }
    text
}

/// Returns one line on a rung that did not hold.
fn note(rung: &str, failure: &Failure) -> String {
    let mut lines = failure.detail.lines().map(str::trim);
    let first = lines.find(|line| line.starts_with("error")).or_else(|| failure.detail.lines().next_back());
    format!("{rung}: {}: {}", failure.kind, first.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;
    use crate::record::environment::Language;

    #[test]
    fn a_package_that_needs_another_toolchain_is_refused_by_name() {
        let toolchain = Toolchain {
            language: Language::Rust,
            path: "/usr/bin/cargo".into(),
            prefix: "/usr".into(),
            version: "1.70.0".to_owned(),
        };
        let asks = |edition: &str, rust_version: Option<&str>| {
            let named = |value: &str| (value.to_owned(), "a".to_owned());
            let project =
                Project { edition: Some(named(edition)), rust_version: rust_version.map(named), ..Project::default() };
            check_needs(&project, &toolchain).map_err(|failure| failure.detail)
        };
        assert_eq!(asks("2021", Some("1.70")), Ok(()));
        assert!(asks("2024", None).unwrap_err().starts_with("package `a` is of edition 2024"));
        assert!(asks("2021", Some("1.71.1")).unwrap_err().starts_with("package `a` needs Rust 1.71.1"));
        assert!(asks("2042", None).is_err());
    }

    #[test]
    fn a_lock_file_comes_before_shared_days_and_the_day() {
        let ladder = rungs(date(2024, 2, 15), date(2024, 2, 1), Some("version = 4"));
        let names: Vec<(&str, String)> = ladder.iter().map(|rung| (rung.name, rung.cutoff())).collect();
        assert_eq!(names[0].0, "lock_file");
        assert_eq!(names[1], ("shared", "2024-01-31".to_owned()));
        assert_eq!(names[2], ("dated", "2024-02-14".to_owned()));
        assert_eq!(names[3].0, "newest");
        assert_eq!(rungs(date(2024, 2, 1), date(2024, 2, 1), None).len(), 2);
    }

    #[test]
    fn locks_in_the_tree_have_its_versions() {
        let project = Project { versions: [("a".to_owned(), "1.2.0".to_owned())].into(), ..Project::default() };
        let lock =
            "[[package]]\nname = \"a\"\nversion = \"0.0.0\"\n\n[[package]]\nname = \"aa\"\nversion = \"0.0.0\"\n";
        assert_eq!(
            unmasked(lock, &project),
            "[[package]]\nname = \"a\"\nversion = \"1.2.0\"\n\n[[package]]\nname = \"aa\"\nversion = \"0.0.0\"\n"
        );
    }
}
