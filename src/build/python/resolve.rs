//! One rung of the ladder → a lock with hashes.
//!
//! A resolution as of a past day does not change, so that its result is kept in the cache by its inputs.

use std::{collections::BTreeSet, fs, sync::LazyLock, time::Duration};

use anyhow::{Context, Result, anyhow};
use regex::Regex;

use super::{
    choice, exceptions,
    ladder::{Rung, instant},
};
use crate::{
    lab::Lab,
    record::{
        environment::Toolchain,
        failure::{Blame, Failure, Phase},
        id::Digest,
    },
    sandbox::Mount,
    uv,
};

/// How many packages may be exempted one after another before a resolution counts as failed.
const MAX_EXEMPTIONS: usize = 3;
const INPUT: &str = "/resolve";

/// A lock and the exceptions from the cut-off that it took.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolution {
    pub lock: String,
    /// `name=YYYY-MM-DD`, sorted.
    pub exceptions: Vec<String>,
}

/// Returns uv's options for a cut-off and its exceptions.
pub fn date_options(cutoff: jiff::civil::Date, exceptions: &[String]) -> Vec<String> {
    let cut = [String::from("--exclude-newer"), instant(cutoff)];
    let exempt = exceptions.iter().flat_map(|exception| [String::from("--exclude-newer-package"), exception.clone()]);
    cut.into_iter().chain(exempt).collect()
}

/// Resolves a rung for an interpreter, leaving the project itself out of the result.
///
/// A package that has no version at all before the cut-off although the repository needs it was uploaded anew: it is
/// exempted, and the resolution says so.
///
/// # Errors
/// `resolve_failed` with uv's explanation, or the machine's own failures.
pub fn resolve(
    lab: &Lab,
    rung: &Rung,
    interpreter: &Toolchain,
    project: Option<&str>,
    wall: Duration,
) -> Result<Resolution> {
    let dates = (rung.cutoff.to_string(), &rung.runner_cutoff);
    let inputs = (1, &interpreter.version, &rung.requirements, &rung.constraints, dates, project);
    let key = Digest::of_json(&inputs);
    let dir = lab.cache.publish("resolutions", key.as_str(), |dir| -> Result<()> {
        let resolution = compile_with_exemptions(lab, rung, interpreter, project, wall)?;
        let json = serde_json::to_vec(&resolution).context("write down a resolution")?;
        fs::write(dir.join("resolution.json"), json).context("write down a resolution")
    })?;
    let file = dir.join("resolution.json");
    let bytes = fs::read(&file).with_context(|| format!("read `{}`", file.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("understand `{}`", file.display()))
}

fn compile_with_exemptions(
    lab: &Lab,
    rung: &Rung,
    interpreter: &Toolchain,
    project: Option<&str>,
    wall: Duration,
) -> Result<Resolution> {
    let known = exceptions::for_cutoff(&rung.cutoff.to_string()).into_iter();
    let mut exceptions: BTreeSet<String> = known.chain(rung.runner_cutoff.clone()).collect();
    for round in 0.. {
        let list: Vec<String> = exceptions.iter().cloned().collect();
        let error = match compile(lab, rung, &list, interpreter, project, wall) {
            Ok(lock) => return Ok(Resolution { lock, exceptions: list }),
            Err(error) => error,
        };
        let exemption = error.downcast_ref::<Failure>().and_then(|failure| exemption(&failure.detail));
        match exemption.filter(|exemption| round < MAX_EXEMPTIONS && !exceptions.contains(exemption)) {
            Some(exemption) => exceptions.insert(exemption),
            None => return Err(error),
        };
    }
    unreachable!("the loop ends by returning")
}

/// Returns `name=day` for a package of which uv says that it has no version left after the cut.
fn exemption(detail: &str) -> Option<String> {
    static EMPTY: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"there are no versions of ([A-Za-z0-9._-]+?)[\s,.]").expect("a valid expression"));
    static HINT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"`([A-Za-z0-9._-]+)` was filtered by `exclude-newer`[\s\S]*?published at (\d{4}-\d\d-\d\d)")
            .expect("a valid expression")
    });
    let empty: BTreeSet<&str> =
        EMPTY.captures_iter(detail).filter_map(|found| found.get(1)).map(|name| name.as_str()).collect();
    let hint = HINT.captures_iter(detail).find(|hint| empty.contains(&hint[1]))?;
    let published: jiff::civil::Date = hint[2].parse().ok()?;
    Some(format!("{}={}", &hint[1], published.tomorrow().ok()?))
}

fn compile(
    lab: &Lab,
    rung: &Rung,
    exceptions: &[String],
    interpreter: &Toolchain,
    project: Option<&str>,
    wall: Duration,
) -> Result<String> {
    let scratch = lab.cache.scratch()?;
    let write = |name: &str, lines: &[String]| {
        let text = lines.iter().fold(String::new(), |text, line| text + line + "\n");
        fs::write(scratch.path().join(name), text).context("write down what to resolve")
    };
    write("requirements.in", &rung.requirements)?;
    write("constraints.txt", &rung.constraints)?;
    let mut arguments: Vec<String> =
        ["pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--no-annotate", "--no-sources", "--python"]
            .map(String::from)
            .to_vec();
    arguments.push(interpreter.path.display().to_string());
    arguments.extend(date_options(rung.cutoff, exceptions));
    if let Some(project) = project {
        arguments.extend([String::from("--no-emit-package"), project.to_owned()]);
    }
    let inside = |name: &str| format!("{INPUT}/{name}");
    arguments.extend([String::from("-c"), inside("constraints.txt"), String::from("-o"), inside("lock.txt")]);
    arguments.push(inside("requirements.in"));
    let job = uv::Job {
        interpreter,
        workspace: None,
        mounts: vec![Mount { host: scratch.path().to_owned(), inside: INPUT.into(), writable: true }],
        env: Vec::new(),
        arguments,
        wall,
    };
    uv::run(lab, "resolve_failed", &job)?;
    let lock = fs::read_to_string(scratch.path().join("lock.txt")).context("read the resolution")?;
    Ok(lock
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .fold(String::new(), |lock, line| lock + line + "\n"))
}

/// The oldest pytest that can be used on a minor version of Python: assertion rewriting follows the syntax tree's
/// changes, and 3.1 is the first that takes overrides of its settings.
const OLDEST_PYTEST: [((u64, u64), (u64, u64)); 8] = [
    ((3, 6), (3, 1)),
    ((3, 7), (3, 6)),
    ((3, 8), (4, 6)),
    ((3, 9), (4, 6)),
    ((3, 10), (6, 2)),
    ((3, 11), (6, 2)),
    ((3, 12), (7, 0)),
    ((3, 14), (8, 0)),
];

/// Refuses a lock whose pytest cannot work on the interpreter.
///
/// # Errors
/// `runner_too_old`.
pub fn check_runner(lock: &str, interpreter: &Toolchain) -> Result<()> {
    let version = lock.lines().find_map(|line| line.strip_prefix("pytest==")).and_then(choice::minor);
    let python = choice::minor(&interpreter.version);
    let (Some(version), Some(python)) = (version, python) else { return Ok(()) };
    let oldest = OLDEST_PYTEST.iter().rev().find(|(known, _)| *known <= python).map_or((3, 1), |(_, oldest)| *oldest);
    if version >= oldest {
        return Ok(());
    }
    let detail = format!(
        "pytest {}.{} is too old: Python {} and the results plugin need {}.{}",
        version.0, version.1, interpreter.version, oldest.0, oldest.1
    );
    Err(anyhow!(Failure::new(Phase::Build, "runner_too_old", Blame::Repo, detail)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "error: No solution found when resolving dependencies
  cause: Because there are no versions of atomicwrites and pytest==4.6.2 depends on atomicwrites>=1.0, we can conclude \
that pytest==4.6.2 cannot be used.

hint: `atomicwrites` was filtered by `exclude-newer` to only include packages uploaded before 2019-07-01T00:00:00Z. The \
latest version satisfying the requirement is v1.4.1, published at 2022-07-08T18:31:40.459Z. Consider using";

    #[test]
    fn a_package_uploaded_anew_is_exempted_by_the_day_after() {
        assert_eq!(exemption(TEXT).as_deref(), Some("atomicwrites=2022-07-09"));
        assert_eq!(exemption(&TEXT.replace("there are no versions of atomicwrites and", "x")), None);
    }

    #[test]
    fn runners_too_old_for_the_interpreter_are_refused() {
        let python = |version: &str| Toolchain {
            language: crate::record::environment::Language::Python,
            path: "/p".into(),
            prefix: "/".into(),
            version: version.to_owned(),
        };
        for (lock, version, fine) in [
            ("pytest==2.8.7 \\\n    --hash=x\n", "3.7.16", false),
            ("pytest==3.6.0 \\\n", "3.7.16", true),
            ("pytest==6.1.2 \\\n", "3.10.13", false),
            ("pytest==7.4.0 \\\n", "3.13.0", true),
            ("six==1.0 \\\n", "3.13.0", true),
        ] {
            assert_eq!(check_runner(lock, &python(version)).is_ok(), fine, "{lock} {version}");
        }
    }
}
