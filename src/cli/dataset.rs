//! Which dataset a command means, and what the store holds of it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::{Access, access};

use crate::{
    cache::Cache,
    config::dataset_name,
    files,
    git::Hinted,
    mine::Selection,
    record::{
        candidate::{Candidate, CommitVerdict},
        environment::BuildOutcome,
        episode::{Episode, Grade},
        failure::Failure,
        task::{Issue, Task, Validation},
    },
    sources,
    store::Store,
};

/// Store stage of what a walk selected: one record per repository.
pub const SELECTION: &str = "selection";

/// Directory of datasets that are named without a path.
const DATASETS: &str = "datasets";

/// Returns the directory of a dataset: a bare name lies below `datasets/`, anything with a `/` is a path.
///
/// # Errors
/// It is no name of a dataset, or something that is no directory lies there.
pub fn directory(name: &str) -> Result<PathBuf> {
    dataset_name(name).map_err(|why| anyhow!("use `{name}` as a dataset: {why}"))?;
    let path = if name.contains('/') { PathBuf::from(name) } else { Path::new(DATASETS).join(name) };
    if path.exists() && !path.is_dir() {
        return Err(Hinted::error(
            "it is no directory",
            "name a dataset below `datasets/`, or the path of a directory that holds one or is to hold one",
        ))
        .with_context(|| format!("open dataset `{}`", path.display()));
    }
    Ok(path)
}

/// Opens the dataset that a command names, or the only one there is.
///
/// # Errors
/// None is named and there is not exactly one, or it cannot be opened.
pub fn open(name: Option<&str>) -> Result<Store> {
    let dir = find(name)?;
    check_writable(&dir)?;
    Store::open(&dir)
}

/// Opens the dataset of this name, and makes it where there is none.
///
/// # Errors
/// It cannot be opened or made.
pub fn create(name: &str) -> Result<Store> {
    let dir = directory(name)?;
    check_writable(&dir)?;
    Store::create(&dir)
}

/// Refuses a dataset that can only be read; one that is not there yet is no concern of ours.
fn check_writable(dir: &Path) -> Result<()> {
    let paths = [dir.to_owned(), dir.join("curate.db")];
    let is_locked = |path: &&PathBuf| path.exists() && access(*path, Access::WRITE_OK).is_err();
    match paths.iter().find(is_locked) {
        Some(path) => Err(Hinted::error(
            "it can only be read",
            "make it writable, or copy the dataset to where it is; `export`, `report`, `status`, `why` and `grade` only read",
        ))
        .with_context(|| format!("write to `{}`", path.display())),
        None => Ok(()),
    }
}

/// As [`open`], for commands that only read; the dataset may be where nothing can be written.
///
/// # Errors
/// As [`open`].
pub fn open_to_read(name: Option<&str>) -> Result<Store> {
    Store::open_to_read(&find(name)?)
}

fn find(name: Option<&str>) -> Result<PathBuf> {
    if let Some(name) = name {
        return directory(name);
    }
    let mut found: Vec<String> = fs::read_dir(DATASETS)
        .map(|entries| {
            let names = entries.flatten().filter(|entry| entry.path().join("curate.db").is_file());
            names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        })
        .unwrap_or_default();
    found.sort();
    match found.as_slice() {
        [only] => directory(only),
        [] => bail!(
            "find a dataset below `{DATASETS}`; make one with `curate mine --repo …` or name one with `--dataset`"
        ),
        several => bail!("choose a dataset: `--dataset` must name one of {}", several.join(", ")),
    }
}

/// Files of a dataset that are not made from others.
const OWNED: [&str; 5] = ["curate.db", "curate.db-wal", "curate.db-shm", "manifest.json", "outcomes.json"];

/// Refuses to write where a dataset, this one or another, keeps what cannot be made again; with `fills`, what is written
/// is a directory with files of names that the caller does not choose.
///
/// # Errors
/// The path is a dataset's own file, or is to be filled and is a dataset's directory or one above this dataset.
pub fn check_output(store: &Store, out: &Path, fills: bool) -> Result<()> {
    let holds_dataset = |dir: &Path| dir.join("curate.db").is_file();
    let is_owned = out.file_name().is_some_and(|name| OWNED.iter().any(|owned| name == *owned));
    let exports = store.dir().join("exports");
    let why = if is_owned && holds_dataset(files::directory(out)) {
        "the dataset keeps its records there"
    } else if out == exports || !fills && out.extension().is_none_or(|end| end != "jsonl") && out.starts_with(&exports)
    {
        "the dataset keeps its exports there, a directory each"
    } else if fills && (holds_dataset(out) || is_above(out, store.dir())?) {
        "it is a dataset's directory, or one above it"
    } else {
        return Ok(());
    };
    let hint = format!("name a directory of its own in `{}`, or a place outside of the dataset", exports.display());
    Err(Hinted::error(why, hint)).with_context(|| format!("write to `{}`", out.display()))
}

/// Says whether a directory is another one or holds it; one that is not there holds nothing.
fn is_above(out: &Path, dir: &Path) -> Result<bool> {
    let dir = dir.canonicalize().with_context(|| format!("find `{}`", dir.display()))?;
    Ok(out.canonicalize().is_ok_and(|out| dir.starts_with(out)))
}

/// Finds repositories by what their records call them, once each.
pub struct Locator<'a> {
    cache: &'a Cache,
    known: Mutex<BTreeMap<String, PathBuf>>,
}

impl<'a> Locator<'a> {
    pub fn new(cache: &'a Cache) -> Locator<'a> {
        Locator { cache, known: Mutex::new(BTreeMap::new()) }
    }

    /// # Errors
    /// As [`sources::resolve`].
    pub fn locate(&self, given: &str) -> Result<PathBuf> {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(path) = known.get(given) {
            return Ok(path.clone());
        }
        let source = sources::resolve(self.cache, given, false).with_context(|| {
            format!(
                "find the repository `{given}` that the dataset was mined from; if it was moved, `curate mine --repo` with \
                 its new place takes it up"
            )
        })?;
        known.insert(given.to_owned(), source.path.clone());
        Ok(source.path)
    }
}

/// The current records of a dataset, joined: nothing that the current selection does not hold.
#[derive(Clone, Debug, Default)]
pub struct Records {
    pub commits: Vec<CommitVerdict>,
    /// By `instance_id`, as are the next three.
    pub candidates: BTreeMap<String, Candidate>,
    pub builds: BTreeMap<String, BuildOutcome>,
    pub validations: BTreeMap<String, Validation>,
    pub issues: BTreeMap<String, Result<Issue, Failure>>,
    /// With their grades, sorted by `episode_id`.
    pub episodes: Vec<(Episode, Grade)>,
}

impl Records {
    /// # Errors
    /// The store cannot be read.
    pub fn load(store: &Store) -> Result<Records> {
        let mut records = Records::default();
        for selection in store.all::<Selection>(SELECTION)? {
            records.commits.extend(selection.verdicts);
            let candidates = selection.candidates.into_iter();
            records.candidates.extend(candidates.map(|candidate| (candidate.instance_id.clone(), candidate)));
        }
        let current = |id: &str| records.candidates.contains_key(id);
        for (id, build) in store.all_with_subject::<BuildOutcome>("build")?.into_iter().filter(|(id, _)| current(id)) {
            records.builds.insert(id, build);
        }
        let built = |id: &str| matches!(records.builds.get(id), Some(Ok(_)));
        for validation in store.all::<Validation>("validate")?.into_iter().filter(|v| built(&v.instance_id)) {
            records.validations.insert(validation.instance_id.clone(), validation);
        }
        let valid = |id: &str| records.validations.get(id).is_some_and(|validation| validation.verdict.is_ok());
        for (id, issue) in store.all_with_subject("issue")?.into_iter().filter(|(id, _)| valid(id)) {
            records.issues.insert(id, issue);
        }
        let mut grades: BTreeMap<String, Grade> =
            store.all::<Grade>("grade")?.into_iter().map(|grade| (grade.episode_id.clone(), grade)).collect();
        for episode in store.all::<Episode>("rollout")? {
            if matches!(records.issues.get(&episode.instance_id), Some(Ok(_)))
                && let Some(grade) = grades.remove(&episode.episode_id)
            {
                records.episodes.push((episode, grade));
            }
        }
        Ok(records)
    }

    /// Returns every task that has an issue text, sorted by id.
    pub fn tasks(&self) -> Vec<(&Task, &Issue)> {
        let issue = |id: &str| self.issues.get(id).and_then(|issue| issue.as_ref().ok());
        let tasks =
            self.validations.iter().filter_map(|(id, validation)| Some((id, validation.verdict.as_ref().ok()?)));
        tasks.filter_map(|(id, task)| Some((task, issue(id)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_over_what_a_dataset_owns() {
        let place = tempfile::tempdir().unwrap();
        let [dir, other] = ["x", "y"].map(|name| place.path().join(name));
        let store = Store::create(&dir).unwrap();
        Store::create(&other).unwrap();
        fs::create_dir(dir.join("exports")).unwrap();
        let is_refused = |out: PathBuf, fills| check_output(&store, &out, fills).is_err();
        for name in OWNED {
            assert!(is_refused(dir.join(name), false) && is_refused(other.join(name), true), "{name}");
        }
        assert!(is_refused(dir.join("exports/../curate.db"), false));
        for out in [dir.clone(), other, place.path().to_owned(), dir.join("exports/.."), "/".into()] {
            assert!(is_refused(out.clone(), true), "{}", out.display());
        }
        assert!(is_refused(dir.join("exports"), true) && is_refused(dir.join("exports"), false));
        assert!(is_refused(dir.join("exports/trl/README.md"), false));
        for out in ["x/exports/trl", "x/new", "x/trl.jsonl", "z", "manifest.json"] {
            assert!(!is_refused(place.path().join(out), true), "{out}");
        }
        assert!(!is_refused(dir.join("report.html"), false));
        let error = check_output(&store, &dir.join("curate.db"), false).unwrap_err();
        assert!(format!("{error:#}").contains(&dir.join("curate.db").display().to_string()), "{error:#}");
        assert!(error.downcast_ref::<Hinted>().unwrap().hint.contains("exports"));
    }

    #[test]
    fn a_file_where_a_dataset_should_be_is_refused_with_a_next_step() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = directory(file.path().to_str().unwrap()).unwrap_err();
        assert!(error.downcast_ref::<Hinted>().unwrap().hint.contains("datasets/"), "{error:#}");
    }
}
