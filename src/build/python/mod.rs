//! Python: an interpreter and a lock from whatever a commit declares, resolved by uv as of its date.

pub mod choice;
pub mod declared;
pub mod exceptions;
pub mod ladder;
pub mod lockfile;
pub mod manifest;
pub mod native;
pub mod project;
pub mod recipe;
pub mod requirement;
pub mod resolve;

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, anyhow};

use super::{day, of_repository, outcome, shared_day};
use crate::{
    config, environments,
    git::Repo,
    interpreters,
    lab::Lab,
    online,
    record::{
        candidate::Candidate,
        environment::{Build, BuildOutcome, Environment, Recipe, Runner},
        failure::{Blame, Failure, Phase},
    },
    sources, uv,
};
use choice::Choice;
use ladder::{Days, Rung};
use lockfile::Locked;
use manifest::{Manifest, Tree};
use project::Project;
use resolve::Resolution;

/// Files of the tree above this size take no part in a recipe, bytes.
const MAX_MANIFEST_BYTES: usize = 16 << 20;

/// Builds the environment of one candidate, or says why there is none.
///
/// `overrides` is what `repos/<name>.toml` says better than the repository's files. Candidates whose resolutions are
/// equal share one environment. Safe to call from several threads.
///
/// # Errors
/// An unusable setup: no uv and no way to get it, a repository or cache that cannot be read, an interrupt.
pub fn build(
    lab: &Lab,
    repository: &Path,
    candidate: &Candidate,
    overrides: Option<&sources::Manifest>,
    settings: &config::Build,
) -> Result<BuildOutcome> {
    let overrides = &overrides.cloned().unwrap_or_default();
    uv::find(&lab.cache)?;
    let repo = Repo::open(repository)?;
    let tree = read_tree(&repo, &candidate.fix_commit)?;
    let manifest = manifest::read(&tree);
    let found = interpreters::find(&lab.cache)?;
    let base = day(candidate.base_time);
    let shared = shared_day(base, settings.share_days);
    let days = Days { base, shared, fix: day(candidate.fix_time), earliest: None, old_runner: false };
    let choices = match choice::rank(&found, &manifest, overrides.python.as_deref(), days.base) {
        Ok(choices) => choices,
        Err(detail) => return Ok(Err(Failure::new(Phase::Build, "no_interpreter", Blame::Repo, detail))),
    };
    let locked = lockfile::read(&tree, manifest.name.as_deref());
    let attempt =
        Attempt { lab, repo: &repo, candidate, tree: &tree, manifest: &manifest, locked, overrides, settings, days };
    outcome(attempt.climb(&choices))
}

fn read_tree(repo: &Repo, commit: &str) -> Result<Tree> {
    let mut tree = Tree::default();
    for (path, _) in repo.files(commit)? {
        // Names that are not UTF-8 are no manifest's.
        let Ok(path) = String::from_utf8(path.0) else { continue };
        if manifest::is_read(&path) {
            let bytes = repo.read(commit, path.as_bytes())?.unwrap_or_default();
            if bytes.len() <= MAX_MANIFEST_BYTES {
                tree.texts.insert(path.clone(), String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        tree.paths.push(path);
    }
    Ok(tree)
}

/// Everything that the climb of one candidate rests on.
struct Attempt<'a> {
    lab: &'a Lab,
    repo: &'a Repo,
    candidate: &'a Candidate,
    tree: &'a Tree,
    manifest: &'a Manifest,
    locked: Option<Locked>,
    overrides: &'a sources::Manifest,
    settings: &'a config::Build,
    days: Days,
}

impl Attempt<'_> {
    /// Tries the interpreters in order, on each the ladder's rungs, and returns the first that holds.
    fn climb(&self, choices: &[Choice]) -> Result<Build> {
        let runner = self.overrides.runner.unwrap_or_else(|| recipe::runner(self.tree));
        let mut failed_rungs: Vec<String> = Vec::new();
        let mut first = None;
        for choice in choices.iter().take(self.settings.max_interpreters.max(1)) {
            let python = choice::minor(&choice.interpreter.version).context("read the interpreter's version")?;
            let days = Days { earliest: choice.earliest_cutoff, old_runner: python <= (3, 7), ..self.days };
            let mut project = self.project(choice, days, &mut failed_rungs)?;
            if let Some(project) = &mut project {
                self.lay_modules(project)?;
            }
            let metadata = project.as_ref().map(|project| &project.metadata);
            let needs = recipe::gather(self.manifest, metadata, runner, &self.overrides.requirements, python);
            for rung in ladder::rungs(&needs, self.locked.as_ref(), days) {
                match self.stand(&rung, choice, project.as_ref()) {
                    Ok((environment, mut recipe)) => {
                        recipe.failed_rungs = failed_rungs;
                        return Ok(self.result(runner, environment, recipe, project));
                    }
                    Err(error) => {
                        let failure = of_repository(error)?;
                        failed_rungs.push(note(choice, rung.name, &failure));
                        first.get_or_insert(failure);
                    }
                }
            }
        }
        let first = first.ok_or_else(|| anyhow!("climb a ladder without rungs"))?;
        let detail = online::tail(&format!("{}\n{}", first.detail, failed_rungs.join("\n")));
        Err(anyhow!(Failure { detail, ..first }))
    }

    /// Finds out the project's metadata: read where it is declared, else built; one that cannot be built is done without.
    fn project(&self, choice: &Choice, days: Days, failed_rungs: &mut Vec<String>) -> Result<Option<Project>> {
        if !self.manifest.buildable {
            return Ok(None);
        }
        if let Some(project) = declared::read(self.tree) {
            return Ok(Some(project));
        }
        let needs = recipe::Needs::default();
        let cutoff = ladder::rungs(&needs, None, days)[0].cutoff;
        let order = project::Order {
            candidate: self.candidate,
            tree: self.tree,
            name: self.manifest.name.as_deref(),
            interpreter: &choice.interpreter,
            dates: &resolve::date_options(cutoff, &exceptions::for_cutoff(&cutoff.to_string())),
            wall: Duration::from_secs(self.settings.project_timeout_s),
        };
        match project::build(self.lab, self.repo, order) {
            Ok(project) => Ok(Some(project)),
            Err(error) => {
                failed_rungs.push(note(choice, "project", &of_repository(error)?));
                Ok(None)
            }
        }
    }

    /// Adds the project's compiled modules to what its build generated.
    fn lay_modules(&self, project: &mut Project) -> Result<()> {
        let roots = recipe::import_roots(self.tree, self.manifest);
        let modules = std::mem::take(&mut project.modules);
        let files =
            native::layer(modules, self.tree, &roots, &self.candidate.changes).map_err(|failure| anyhow!(failure))?;
        project.generated.extend(files);
        Ok(())
    }

    /// Resolves and installs one rung.
    fn stand(&self, rung: &Rung, choice: &Choice, project: Option<&Project>) -> Result<(Environment, Recipe)> {
        let name = project.map(|project| project.metadata.name.as_str()).or(self.manifest.name.as_deref());
        let wall = Duration::from_secs(self.settings.resolve_timeout_s);
        let resolution = resolve::resolve(self.lab, rung, &choice.interpreter, name, wall)?;
        resolve::check_runner(&resolution.lock, &choice.interpreter)?;
        let environment = self.install(choice, rung, &resolution)?;
        let recipe = Recipe {
            interpreter_reason: choice.reason.clone(),
            cutoff: rung.cutoff.to_string(),
            exceptions: resolution.exceptions,
            sources: rung.sources.clone(),
            requirements: rung.requirements.clone(),
            rung: rung.name.to_owned(),
            failed_rungs: Vec::new(),
        };
        Ok((environment, recipe))
    }

    /// Installs a resolution from wheels, or where that is not enough with builds from source.
    fn install(&self, choice: &Choice, rung: &Rung, resolution: &Resolution) -> Result<Environment> {
        let interpreter = &choice.interpreter;
        let dates = resolve::date_options(rung.cutoff, &resolution.exceptions);
        let with_builds = environments::python::with_builds(&resolution.lock, &dates);
        let with_builds = Environment::new(interpreter.clone(), with_builds);
        let from_wheels = Environment::new(interpreter.clone(), resolution.lock.clone());
        // That builds were needed once is not tried out again.
        if !environments::is_installed(self.lab, &with_builds) {
            match environments::ensure(self.lab, &from_wheels) {
                Ok(_) => return Ok(from_wheels),
                Err(failure) if failure.kind != "needs_build" => return Err(anyhow!(failure)),
                Err(_) => {}
            }
        }
        environments::ensure(self.lab, &with_builds).map_err(|failure| anyhow!(failure))?;
        Ok(with_builds)
    }

    fn result(&self, runner: Runner, environment: Environment, recipe: Recipe, project: Option<Project>) -> Build {
        let project = project.unwrap_or_default();
        Build {
            instance_id: self.candidate.instance_id.clone(),
            runner,
            environment,
            recipe,
            metadata: project.dist_info,
            generated: project.generated,
            import_roots: recipe::import_roots(self.tree, self.manifest),
        }
    }
}

/// Returns one line on a rung that did not hold.
fn note(choice: &Choice, rung: &str, failure: &Failure) -> String {
    let last = failure.detail.lines().map(str::trim).rfind(|line| !line.is_empty() && !line.starts_with("hint:"));
    format!("{rung} (Python {}): {}: {}", choice.interpreter.version, failure.kind, last.unwrap_or_default())
}
