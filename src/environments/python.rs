//! Python: a requirements file with hashes → a virtual environment, compiled.
//!
//! A lock's head may say that packages have to be built from source, and as of which day their build tools are to be
//! taken (see [`with_builds`]); otherwise only wheels are installed.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result, anyhow};

use crate::{
    interpreters,
    lab::Lab,
    record::{
        environment::{Environment, Toolchain},
        failure::{Blame, Failure, Phase},
    },
    sandbox::{self, ENVIRONMENT, Limits, Mount, Spec},
    uv,
};

/// Limit for installing one environment.
const INSTALL_WALL: Duration = Duration::from_mins(15);
const LOCK_INSIDE: &str = "/opt/lock";
const LOCK_NAME: &str = "requirements.txt";
/// What a lock's head says of packages that are built from source.
const BUILDS: &str = "# built from source: ";

/// Returns a lock that allows building packages from source, with uv's options for the build tools' dates.
pub fn with_builds(lock: &str, dates: &[String]) -> String {
    format!("{BUILDS}{}\n{lock}", dates.join(" "))
}

/// Installs a lock into a virtual environment.
///
/// # Errors
/// `needs_build` where a package has no wheel and the lock does not allow building it; `runner_broken` where pytest does
/// not start; `no_interpreter`; and those of [`super::ensure`].
pub fn install(lab: &Lab, environment: &Environment, dir: &Path) -> Result<()> {
    let interpreter = here(lab, &environment.toolchain)?;
    let lock = lab.cache.scratch()?;
    let file = lock.path().join(LOCK_NAME);
    fs::write(&file, &environment.lock).with_context(|| format!("write `{}`", file.display()))?;
    let workshop = Workshop { lab, interpreter: &interpreter, dir, lock: lock.path() };
    workshop.create()?;
    if environment.lock.lines().any(is_requirement) {
        workshop.install(&environment.lock)?;
    }
    if environment.lock.lines().any(|line| line.starts_with("pytest==")) {
        workshop.start_runner()?;
    }
    Ok(())
}

fn is_requirement(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#')
}

/// Returns the interpreter itself, or the same version elsewhere on this machine.
fn here(lab: &Lab, wanted: &Toolchain) -> Result<Toolchain> {
    if wanted.path.exists() {
        return Ok(wanted.clone());
    }
    let found = interpreters::find(&lab.cache)?;
    found.into_iter().find(|interpreter| interpreter.version == wanted.version).ok_or_else(|| {
        let detail = format!("Python {} is not on this machine (hint: `pyenv install {0}`)", wanted.version);
        anyhow!(Failure::new(Phase::Build, "no_interpreter", Blame::Infra, detail))
    })
}

/// One installation under way.
struct Workshop<'a> {
    lab: &'a Lab,
    interpreter: &'a Toolchain,
    /// Host directory that becomes the environment.
    dir: &'a Path,
    /// Host directory with the lock file.
    lock: &'a Path,
}

impl Workshop<'_> {
    fn create(&self) -> Result<()> {
        let python = self.interpreter.path.display().to_string();
        self.uv(&["venv", "--quiet", "--allow-existing", "--no-project", "--python", &python, ENVIRONMENT]).map(drop)
    }

    fn install(&self, lock: &str) -> Result<()> {
        let file = format!("{LOCK_INSIDE}/{LOCK_NAME}");
        let python = format!("{ENVIRONMENT}/bin/python");
        let mut arguments = vec!["pip", "install", "--quiet", "--python", &python, "--no-deps", "--require-hashes"];
        match lock.lines().find_map(|line| line.strip_prefix(BUILDS)) {
            Some(dates) => arguments.extend(dates.split(' ').filter(|word| !word.is_empty())),
            None => arguments.push("--no-build"),
        }
        // Python 3.6's compiler lacks what uv's compilation asks for.
        let compiles = !self.interpreter.version.starts_with("3.6.");
        arguments.extend(compiles.then_some("--compile-bytecode"));
        arguments.extend(["-r", &file]);
        self.uv(&arguments).map_err(named_build)?;
        if !compiles {
            let argv = [&python, "-m", "compileall", "-q", &format!("{ENVIRONMENT}/lib")].map(String::from);
            // Packages hold files for other versions that do not compile; the others are compiled all the same.
            self.offline(&argv, true)?;
        }
        Ok(())
    }

    /// Starts pytest with its plugins on nothing, so that a set of packages that does not go together is known as such.
    fn start_runner(&self) -> Result<()> {
        let command =
            format!("mkdir /tmp/nothing && cd /tmp/nothing && {ENVIRONMENT}/bin/python -m pytest -q; test $? = 5");
        let output = self.offline(&["sh", "-c", &command].map(String::from), false)?;
        uv::check("runner_broken", &output)
    }

    fn uv(&self, arguments: &[&str]) -> Result<sandbox::Output> {
        let job = uv::Job {
            interpreter: self.interpreter,
            workspace: None,
            mounts: self.mounts(true),
            env: Vec::new(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            wall: INSTALL_WALL,
        };
        uv::run(self.lab, "install_failed", &job)
    }

    fn offline(&self, argv: &[String], writable: bool) -> Result<sandbox::Output> {
        let mut mounts = self.mounts(writable);
        mounts.extend(uv::mount_of(self.interpreter));
        let limits = Limits { wall: Duration::from_mins(5), ..Limits::default() };
        let spec = Spec { mounts, limits, ..Spec::default() };
        sandbox::run(self.lab.backend, &spec, argv)
    }

    fn mounts(&self, writable: bool) -> Vec<Mount> {
        vec![
            Mount { host: self.dir.to_owned(), inside: ENVIRONMENT.into(), writable },
            Mount { host: self.lock.to_owned(), inside: LOCK_INSIDE.into(), writable: false },
        ]
    }
}

/// Gives the failure of an installation from wheels alone its own name where building would help.
fn named_build(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Failure>() {
        Ok(failure) if failure.detail.contains("building from source is disabled") => {
            anyhow!(Failure { kind: String::from("needs_build"), ..failure })
        }
        Ok(failure) => anyhow!(failure),
        Err(error) => error,
    }
}
