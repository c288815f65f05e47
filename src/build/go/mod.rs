//! Go: the modules that a commit's packages and tests need, as its own `go.mod` says or as of its date.
//!
//! What a `go.mod` requires is taken at the versions it requires. Where it lacks a requirement, or there is no `go.mod`
//! (one is then made by `go mod init`, and laid over every state), the newest release of the base commit's date is
//! taken. Where base and fix require different things, the environment holds both.

mod lock;
mod resolve;

use std::{collections::BTreeSet, path::Path, time::Duration};

use anyhow::{Result, anyhow};
use jiff::Timestamp;

use super::{of_repository, outcome};
use crate::{
    config,
    environments::{self, go as tools},
    git::Repo,
    lab::Lab,
    record::{
        candidate::Candidate,
        environment::{Build, BuildOutcome, Environment, LayerFile, Recipe, Runner, Toolchain},
        failure::{Blame, Failure, Phase},
    },
    sandbox::overlay::Workspace,
    sources,
};
use lock::Resolution;
use resolve::Order;

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
    let toolchain = match tools::toolchain() {
        Ok(toolchain) => toolchain,
        Err(failure) => return Ok(Err(failure)),
    };
    let repo = Repo::open(repository)?;
    let wall = Duration::from_secs(settings.resolve_timeout_s);
    outcome(Attempt { lab, repo: &repo, candidate, toolchain: &toolchain, wall }.build())
}

struct Attempt<'a> {
    lab: &'a Lab,
    repo: &'a Repo,
    candidate: &'a Candidate,
    toolchain: &'a Toolchain,
    wall: Duration,
}

impl Attempt<'_> {
    fn build(&self) -> Result<Build> {
        let Candidate { base_commit, fix_commit, .. } = self.candidate;
        let mut recipe = Recipe { cutoff: self.cutoff(), ..Recipe::default() };
        let mut generated = Vec::new();
        let mut resolution = Resolution::default();
        let modules = self.modules(fix_commit)?;
        for module in &modules {
            let fixed = self.resolve(fix_commit, module, &mut recipe)?;
            let has_manifest = |commit: &str| Ok::<_, anyhow::Error>(self.read(commit, module, "go.mod")?.is_some());
            if !has_manifest(fix_commit)? || !has_manifest(base_commit)? {
                // A state with one of its own keeps it.
                generated.extend(fixed.files(module));
            } else if self.differs(module)? {
                // What only the buggy state needs must not decide whether there is an environment.
                match self.resolve(base_commit, module, &mut recipe) {
                    Ok(base) => resolution.add_modules(base),
                    Err(error) => recipe.failed_rungs.push(note(&of_repository(error)?)),
                }
            }
            resolution.add(fixed);
        }
        let environment = Environment::new(self.toolchain.clone(), resolution.lock());
        environments::ensure(self.lab, &environment).map_err(|failure| anyhow!(failure))?;
        self.refuse_newer(&modules, &environment)?;
        recipe.interpreter_reason = self.reason(&modules)?;
        Ok(Build {
            instance_id: self.candidate.instance_id.clone(),
            runner: Runner::Go,
            environment,
            recipe,
            metadata: Vec::new(),
            generated,
            import_roots: modules,
        })
    }

    /// Returns the last day whose releases count where `go.mod` does not say.
    fn cutoff(&self) -> String {
        Timestamp::from_second(self.candidate.base_time)
            .map_or_else(|_| String::new(), |time| time.to_string()[..10].to_owned())
    }

    /// Returns the modules whose packages the change touches, as directories relative to the tree, the root being "".
    fn modules(&self, commit: &str) -> Result<Vec<String>> {
        let paths: BTreeSet<String> = self.repo.files(commit)?.into_iter().map(|(path, _)| path.escaped()).collect();
        let changed = self.candidate.changes.iter().filter(|change| change.new.is_some());
        let touched: BTreeSet<String> = changed
            .map(|change| change.path.escaped())
            .filter(|path| path.ends_with(".go") && lock::is_listed(path))
            .map(|path| lock::module_of(&path, &paths).to_owned())
            .collect();
        Ok(if touched.is_empty() { vec![String::new()] } else { touched.into_iter().collect() })
    }

    fn read(&self, commit: &str, module: &str, name: &str) -> Result<Option<String>> {
        let path = lock::join(module, name);
        let bytes = self.repo.read(commit, path.as_bytes())?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Says whether base and fix require different things.
    fn differs(&self, module: &str) -> Result<bool> {
        let Candidate { base_commit, fix_commit, .. } = self.candidate;
        for name in ["go.mod", "go.sum"] {
            if self.read(base_commit, module, name)? != self.read(fix_commit, module, name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn resolve(&self, commit: &str, module: &str, recipe: &mut Recipe) -> Result<Resolution> {
        let tree = self.repo.tree(commit)?;
        let template = self.lab.cache.publish("trees", &tree, |dir| self.repo.write_template(commit, dir))?;
        let scratch = self.lab.cache.scratch()?;
        let workspace = Workspace::create(&template, scratch.path(), &[])?;
        let manifest = self.read(commit, module, "go.mod")?;
        let order = Order {
            lab: self.lab,
            toolchain: self.toolchain,
            workspace: &workspace,
            module,
            sums: self.read(commit, module, "go.sum")?.unwrap_or_default(),
            vendored: self.read(commit, module, "vendor/modules.txt")?.is_some() && manifest.is_some(),
            import_path: if manifest.is_none() { self.import_path(commit)? } else { String::new() },
            manifest,
            packages: self.packages(module),
            base_time: self.candidate.base_time,
            wall: self.wall,
        };
        resolve::resolve(&order, recipe).map_err(|error| self.named(error, order.manifest.as_deref()))
    }

    /// Returns the directories of the module that the change touches, relative to it.
    fn packages(&self, module: &str) -> BTreeSet<String> {
        let changed = self.candidate.changes.iter().filter(|change| change.new.is_some());
        let paths = changed.map(|change| change.path.escaped()).filter(|path| path.ends_with(".go"));
        let directories = paths.map(|path| path.rsplit_once('/').map_or("", |(directory, _)| directory).to_owned());
        directories
            .filter_map(|directory| lock::below(&directory, module))
            .filter(|path| lock::is_listed(path))
            .collect()
    }

    /// Returns the import path of a repository without a `go.mod`: as its code names it, else by where it is from.
    fn import_path(&self, commit: &str) -> Result<String> {
        let mut files = Vec::new();
        for (path, _) in self.repo.files(commit)? {
            let path = path.escaped();
            if path.ends_with(".go") && lock::is_listed(&path) {
                let bytes = self.repo.read(commit, path.as_bytes())?.unwrap_or_default();
                files.push((path, String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
        let source = self.candidate.repo_source.trim_end_matches('/').trim_end_matches(".git");
        let url = source.split_once("://").map(|(_, rest)| rest).filter(|rest| !rest.starts_with('/'));
        let origin = url.map_or_else(
            || format!("github.com/{}", self.candidate.repo),
            |rest| rest.rsplit_once('@').map_or(rest, |(_, rest)| rest).to_owned(),
        );
        Ok(lock::import_path(&files).unwrap_or(origin))
    }

    /// Gives a failure the name of its cause where the commit asks for a newer Go than there is.
    fn named(&self, error: anyhow::Error, manifest: Option<&str>) -> anyhow::Error {
        match (error.downcast::<Failure>(), manifest.and_then(|manifest| self.newer(manifest))) {
            (Ok(failure), Some(wanted)) if !failure.is_transient() => anyhow!(self.too_old(&wanted, &failure.detail)),
            (Ok(failure), _) => anyhow!(failure),
            (Err(error), _) => error,
        }
    }

    /// Returns the version that a `go.mod` asks for if it is newer than the toolchain.
    fn newer(&self, manifest: &str) -> Option<String> {
        let wanted = lock::go_version(manifest)?;
        (tools::numbers(&wanted) > tools::numbers(&self.toolchain.version)).then_some(wanted)
    }

    fn too_old(&self, wanted: &str, detail: &str) -> Failure {
        let detail = format!("needs Go {wanted}; Go {} is installed\n{detail}", self.toolchain.version);
        Failure::new(Phase::Build, "toolchain_too_old", Blame::Repo, detail)
    }

    /// Refuses a commit that asks for a newer Go and does not compile with the one there is.
    fn refuse_newer(&self, modules: &[String], environment: &Environment) -> Result<()> {
        for module in modules {
            let manifest = self.read(&self.candidate.fix_commit, module, "go.mod")?.unwrap_or_default();
            let Some(wanted) = self.newer(&manifest) else { continue };
            let tree = self.repo.tree(&self.candidate.fix_commit)?;
            let template = self
                .lab
                .cache
                .publish("trees", &tree, |dir| self.repo.write_template(&self.candidate.fix_commit, dir))?;
            let scratch = self.lab.cache.scratch()?;
            let workspace = Workspace::create(&template, scratch.path(), &[])?;
            let compiled =
                resolve::compile(self.lab, environment, &workspace, module, &self.packages(module), self.wall);
            if let Err(error) = compiled {
                return Err(match error.downcast::<Failure>() {
                    Ok(failure) if !failure.is_transient() => anyhow!(self.too_old(&wanted, &failure.detail)),
                    Ok(failure) => anyhow!(failure),
                    Err(error) => error,
                });
            }
        }
        Ok(())
    }

    fn reason(&self, modules: &[String]) -> Result<String> {
        let manifest = match modules.first() {
            Some(module) => self.read(&self.candidate.fix_commit, module, "go.mod")?,
            None => None,
        };
        let wanted = manifest.as_deref().and_then(lock::go_version);
        Ok(wanted.map_or_else(
            || "installed; no go.mod says".to_owned(),
            |wanted| format!("installed; go.mod says {wanted}"),
        ))
    }
}

/// Returns one line on the buggy state's own modules, which did not resolve.
fn note(failure: &Failure) -> String {
    let last = failure.detail.lines().map(str::trim).rfind(|line| !line.is_empty());
    format!("base: {}: {}", failure.kind, last.unwrap_or_default())
}

impl Resolution {
    /// Returns the `go.mod` and `go.sum` that a module without them is given.
    fn files(&self, module: &str) -> Vec<LayerFile> {
        let file = |name: &str, text: &str| LayerFile {
            path: lock::join(module, name).as_str().into(),
            content: text.into(),
            executable: false,
        };
        vec![file("go.mod", &self.manifest), file("go.sum", &self.sums)]
    }
}
