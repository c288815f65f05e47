//! How much of the fix the fail-to-pass tests notice: each hunk dropped in turn, small faults planted into changed lines.
//!
//! A hunk that no test notices is not needed for what the task asks: the commit is tangled. A fault that none notices
//! could be in an attempt that counts as solved. Each variant of the fixed state is run once, and only what came of it
//! is kept. In doubt (the machine failed, the time is up) nothing is said of a variant.

mod hunks;
mod spread;
mod trial;

use std::collections::BTreeSet;

use anyhow::Result;

use super::{Examination, trim};
use crate::{
    record::{
        candidate::{FileChange, Role},
        patch::FileContent,
        strength::{Fate, HunkStrength, MutantStrength, Strength},
    },
    syntax::mutants::{Mutant, mutants},
};
use hunks::{Hunk, hunks};
use spread::spread;
use trial::{Seen, Trial, Variant};

/// Where each run costs a compilation, this part of the runs is made.
const COMPILED_PART: u32 = 3;

/// A changed program file of the fixed state.
struct File<'a> {
    change: &'a FileChange,
    /// With the fix's tests, where it holds tests too; that of the file it was moved from, if it was.
    old: Option<FileContent>,
    new: Option<FileContent>,
    hunks: Vec<Hunk>,
}

/// One fault and the file that it is in.
struct Planted<'f> {
    file: &'f File<'f>,
    mutant: Mutant,
    content: FileContent,
}

impl Examination<'_> {
    /// Tries the fail-to-pass tests on variants of the fixed state.
    pub(super) fn strength(&self, fail_to_pass: &BTreeSet<String>) -> Result<Strength> {
        let is_compiled = trim::is_compiled(self.context.candidate.language);
        let runs = self.context.settings.strength_runs / if is_compiled { COMPILED_PART } else { 1 };
        if runs == 0 || fail_to_pass.is_empty() {
            return Ok(Strength::default());
        }
        let files = self.files()?;
        let Some(mut trial) = Trial::start(self, fail_to_pass)? else { return Ok(Strength::default()) };
        let mut strength = Strength::default();
        let n_hunk_runs = drop_hunks(&files, &mut trial, runs / 2, &mut strength)?;
        plant_faults(&files, &mut trial, runs - n_hunk_runs, is_compiled, &mut strength)?;
        strength.wall_ms = u64::try_from(trial.spent().as_millis()).unwrap_or(u64::MAX);
        Ok(strength)
    }

    /// Returns the program files that the fix changes, with their hunks.
    fn files(&self) -> Result<Vec<File<'_>>> {
        let changes = self.context.candidate.changes_of(Role::Source);
        let mut files = Vec::new();
        for change in changes {
            let (old, new) = (self.old_content(change)?, self.new_content(change));
            if old.is_some() || new.is_some() {
                files.push(File { change, old, new, hunks: Vec::new() });
            }
        }
        hunks::join_moved(&mut files);
        for file in &mut files {
            file.hunks = hunks(file)?;
        }
        Ok(files)
    }

    /// Returns a file as it is before the fix, with the fix's tests where it holds some.
    fn old_content(&self, change: &FileChange) -> Result<Option<FileContent>> {
        if let Some(edit) = self.bench.before.iter().find(|edit| edit.path == change.path) {
            return Ok(edit.content.clone());
        }
        let Some(side) = change.old.as_ref().filter(|side| side.mode != crate::git::GITLINK) else { return Ok(None) };
        Ok(Some(FileContent { mode: side.mode, bytes: self.repo.blob(&side.oid)?.into() }))
    }

    fn new_content(&self, change: &FileChange) -> Option<FileContent> {
        self.bench.after.iter().find(|edit| edit.path == change.path)?.content.clone()
    }
}

/// Drops hunks within a number of runs; returns how many it took.
fn drop_hunks(files: &[File], trial: &mut Trial, max_runs: u32, strength: &mut Strength) -> Result<u32> {
    let all: Vec<(&File, &Hunk)> =
        files.iter().flat_map(|file| file.hunks.iter().map(move |hunk| (file, hunk))).collect();
    let mut noticed_by = vec![None; all.len()];
    let code: Vec<usize> = (0..all.len()).filter(|&n| all[n].1.is_code).collect();
    let mut n_runs = 0;
    if let ([only], 1) = (code.as_slice(), trial.n_changes()) {
        // Without its only hunk the fix is no fix.
        noticed_by[*only] = Some(trial.n_tests());
    } else {
        let places: Vec<usize> = (0..code.len()).collect();
        let chosen: Vec<usize> = spread(&places).into_iter().take(max_runs as usize).map(|n| code[n]).collect();
        n_runs = u32::try_from(chosen.len()).unwrap_or(max_runs);
        strength.n_planned += n_runs;
        let variants: Vec<Variant> = chosen
            .iter()
            .map(|&n| Variant { path: &all[n].0.change.path, content: all[n].1.without.as_ref() })
            .collect();
        let seen = trial.run(&variants)?;
        for (n, seen) in chosen.into_iter().zip(seen) {
            let Some(seen) = seen else { break };
            strength.n_run += 1;
            noticed_by[n] = match seen {
                Seen::Failed(n) => Some(n),
                Seen::Broken => Some(trial.n_tests()),
                Seen::Unknown => None,
            };
        }
    }
    strength.hunks = all.iter().zip(noticed_by).map(|((file, hunk), by)| hunk.record(file, by)).collect();
    Ok(n_runs)
}

/// Plants faults, one at a time, into what the fix adds or changes.
fn plant_faults(
    files: &[File],
    trial: &mut Trial,
    max_runs: u32,
    is_compiled: bool,
    strength: &mut Strength,
) -> Result<()> {
    let planted = chosen_faults(files, strength, max_runs as usize);
    strength.n_planned += u32::try_from(planted.len()).unwrap_or(max_runs);
    let variants: Vec<Variant> =
        planted.iter().map(|it| Variant { path: &it.file.change.path, content: Some(&it.content) }).collect();
    let seen = trial.run(&variants)?;
    for (Planted { file, mutant, .. }, seen) in planted.iter().zip(seen) {
        let Some(seen) = seen else { break };
        strength.n_run += 1;
        let fate = match seen {
            Seen::Failed(0) => Fate::Survived,
            Seen::Broken if is_compiled => Fate::Unviable,
            Seen::Failed(_) | Seen::Broken => Fate::Killed,
            Seen::Unknown => continue,
        };
        let Mutant { line, what, .. } = mutant.clone();
        strength.mutants.push(MutantStrength { path: file.change.path.clone(), line, what, fate });
    }
    strength.mutants.sort_by(|a, b| (&a.path, a.line, &a.what).cmp(&(&b.path, b.line, &b.what)));
    Ok(())
}

/// Returns faults spread over the changed lines of all files, each in a text that can be parsed. Hunks that are not needed
/// get none: no test could tell.
fn chosen_faults<'f>(files: &'f [File<'f>], strength: &Strength, max: usize) -> Vec<Planted<'f>> {
    let mut all: Vec<(&File, &FileContent, Mutant)> = Vec::new();
    for file in files {
        let Some(new) = &file.new else { continue };
        let is_unneeded =
            |hunk: &Hunk| strength.unneeded_hunks().any(|it| it.path == file.change.path && it.lines == hunk.lines);
        let needed = file.hunks.iter().filter(|hunk| !is_unneeded(hunk));
        let added: BTreeSet<u32> = needed.flat_map(|hunk| hunk.added.iter().copied()).collect();
        let found = mutants(file.change.path.as_bytes(), new.bytes.as_bytes(), &|line| added.contains(&line));
        all.extend(found.into_iter().map(|mutant| (file, new, mutant)));
    }
    let places: Vec<(&[u8], u32)> =
        all.iter().map(|(file, _, mutant)| (file.change.path.as_bytes(), mutant.line)).collect();
    let plant = |n: usize| {
        let (file, new, mutant) = &all[n];
        let bytes = mutant.apply(file.change.path.as_bytes(), new.bytes.as_bytes())?;
        Some(Planted { file, mutant: mutant.clone(), content: FileContent { mode: new.mode, bytes: bytes.into() } })
    };
    spread(&places).into_iter().filter_map(plant).take(max).collect()
}

impl Hunk {
    fn record(&self, file: &File, noticed_by: Option<u32>) -> HunkStrength {
        HunkStrength {
            path: file.change.path.clone(),
            lines: self.lines,
            header: self.header.clone(),
            is_code: self.is_code,
            noticed_by,
        }
    }
}
