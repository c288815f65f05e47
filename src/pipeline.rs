//! The one driver of all stages: skip what is done, run the rest on workers, commit each result, stop on Ctrl-C.

use std::{
    collections::{BTreeMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
    thread,
    time::Instant,
};

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;

use crate::{
    console::Console,
    interrupt::{self, Interrupted},
    record::{failure::DISK_FULL, id::Digest},
    store::{Entry, Put, State, Store},
};

/// Tries that a lost sandbox gets over all runs before it counts as final.
const MAX_ATTEMPTS: u32 = 3;

/// What a stage made of one input.
#[derive(Clone, Debug)]
pub struct Done<T> {
    pub output: T,
    pub state: State,
    /// Snake_case, counted in the funnel; empty where the state is [`State::Done`].
    pub reason: String,
}

/// One input → one record. Folds over all records (export, report) are plain functions instead.
pub trait Stage: Sync {
    /// The stage's name in the store and on screen.
    const NAME: &'static str;
    /// Raised when the meaning of the output changes, so that old records are not taken for new ones.
    const VERSION: u32;
    type Input: Sync;
    type Output: Serialize + Send;

    /// What the record is about: a candidate's or an episode's id.
    fn subject(&self, input: &Self::Input) -> String;

    /// Digest of the input's key and of every setting that the stage reads.
    fn inputs(&self, input: &Self::Input) -> Digest;

    /// # Errors
    /// Only what makes the whole run pointless, or [`Interrupted`]; a subject's own failure is an output.
    fn run(&self, input: &Self::Input) -> Result<Done<Self::Output>>;
}

/// Returns the key of the record that a stage makes of an input. The same input of another subject is another record:
/// a repository and its fork may be in one dataset.
pub fn key<S: Stage>(stage: &S, input: &S::Input) -> Digest {
    let (subject, inputs) = (stage.subject(input), stage.inputs(input));
    Digest::of(&[S::NAME.as_bytes(), &S::VERSION.to_le_bytes(), subject.as_bytes(), inputs.as_str().as_bytes()])
}

/// What a drive did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Items that an earlier run had finished.
    pub skipped: u64,
    pub ran: u64,
    /// Of those, how many the machine failed; another run tries them again.
    pub transient: u64,
    /// Ends by reason (`""` = done) over all items, skipped ones too.
    pub by_reason: BTreeMap<String, u64>,
}

/// Brings every input's record into the store.
///
/// # Errors
/// [`Interrupted`], the store cannot be written, or a stage's own error; what was finished is kept.
pub fn drive<S: Stage>(store: &Store, stage: &S, inputs: &[S::Input], jobs: usize, console: Console) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut queue = VecDeque::new();
    for input in inputs {
        let key = key(stage, input);
        match store.revive(S::NAME, &key)? {
            Some(entry) if !is_worth_another_try(&entry) => {
                tally.skipped += 1;
                *tally.by_reason.entry(entry.reason).or_default() += 1;
            }
            _ => queue.push_back((key, input)),
        }
    }
    let progress = console.progress(S::NAME, queue.len() as u64);
    let queue = Mutex::new(queue);
    let tally = Mutex::new(tally);
    let failure = Mutex::new(None);
    let work = || {
        while let Some((key, input)) = next(&queue, &failure) {
            let subject = stage.subject(input);
            progress.start(&subject);
            match run_one(store, stage, &key, &subject, input) {
                Ok((state, reason)) => {
                    let mut tally = lock(&tally);
                    tally.ran += 1;
                    tally.transient += u64::from(state == State::Transient);
                    *tally.by_reason.entry(reason).or_default() += 1;
                    progress.finish_one(&subject);
                }
                Err(error) => {
                    lock(&failure).get_or_insert(error);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(work);
        }
    });
    if let Some(error) = lock(&failure).take() {
        return Err(error);
    }
    if interrupt::requested() {
        return Err(Interrupted.into());
    }
    let tally = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if tally.transient > 0 {
        console.message(&format!(
            "{} of {} items of `{}` could not be done for a failure of the machine; the same command tries them again.",
            tally.transient,
            inputs.len(),
            S::NAME
        ));
    }
    Ok(tally)
}

/// Says whether an earlier run's record is to be made anew: the machine failed then, and not as often as to suggest that
/// the subject makes it fail.
fn is_worth_another_try(entry: &Entry) -> bool {
    let may_be_the_subject = ["sandbox_lost", "infrastructure"].contains(&entry.reason.as_str());
    entry.state == State::Transient && (!may_be_the_subject || entry.attempts < MAX_ATTEMPTS)
}

fn next<'a, I>(
    queue: &Mutex<VecDeque<(Digest, &'a I)>>,
    failure: &Mutex<Option<anyhow::Error>>,
) -> Option<(Digest, &'a I)> {
    if interrupt::requested() || lock(failure).is_some() {
        return None;
    }
    lock(queue).pop_front()
}

fn run_one<S: Stage>(
    store: &Store,
    stage: &S,
    key: &Digest,
    subject: &str,
    input: &S::Input,
) -> Result<(State, String)> {
    let start = Instant::now();
    let done = catch_unwind(AssertUnwindSafe(|| stage.run(input)))
        .unwrap_or_else(|panic| Err(anyhow!("finish (a defect of `curate`): {}", panic_text(panic.as_ref()))))
        .with_context(|| format!("{} `{subject}`", S::NAME))?;
    if done.reason == DISK_FULL {
        // Whatever comes next would fail as well.
        bail!("{} `{subject}`: the disk of the cache is full; make room, then run the same command again", S::NAME);
    }
    let wall_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    store.put(Put {
        stage: S::NAME,
        key,
        subject,
        state: done.state,
        reason: &done.reason,
        wall_ms,
        body: &done.output,
    })?;
    Ok((done.state, done.reason))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic".to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    struct Square {
        setting: u32,
        calls: AtomicU32,
    }

    impl Stage for Square {
        const NAME: &'static str = "square";
        const VERSION: u32 = 1;
        type Input = u32;
        type Output = u32;

        fn subject(&self, input: &u32) -> String {
            input.to_string()
        }

        fn inputs(&self, input: &u32) -> Digest {
            Digest::of_json(&(self.setting, input))
        }

        fn run(&self, input: &u32) -> Result<Done<u32>> {
            let calls = self.calls.fetch_add(1, Ordering::SeqCst);
            Ok(match input {
                13 => panic!("unlucky"),
                99 => Done { output: 0, state: State::Transient, reason: DISK_FULL.into() },
                7 if calls < 10 => Done { output: 0, state: State::Transient, reason: "lost".into() },
                odd if odd % 2 == 1 => Done { output: 0, state: State::Rejected, reason: "odd".into() },
                even => Done { output: even * even, state: State::Done, reason: String::new() },
            })
        }
    }

    #[test]
    fn a_second_run_does_only_what_failed_for_the_machine_or_depends_on_a_changed_setting() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path()).unwrap();
        let quiet = Console { quiet: true };
        let mut stage = Square { setting: 1, calls: AtomicU32::new(0) };
        let first = drive(&store, &stage, &[2, 3, 4, 7], 2, quiet).unwrap();
        assert_eq!((first.skipped, first.ran), (0, 4));
        assert_eq!(first.by_reason, [("", 2), ("lost", 1), ("odd", 1)].map(|(k, v)| (k.to_owned(), v)).into());
        let second = drive(&store, &stage, &[2, 3, 4, 7], 2, quiet).unwrap();
        assert_eq!((second.skipped, second.ran), (3, 1));
        stage.setting = 2;
        assert_eq!(drive(&store, &stage, &[2], 1, quiet).unwrap().ran, 1);
    }

    /// Squares of numbers that are known by two names.
    struct Named(&'static str);

    impl Stage for Named {
        const NAME: &'static str = "named";
        const VERSION: u32 = 1;
        type Input = u32;
        type Output = u32;

        fn subject(&self, input: &u32) -> String {
            format!("{}-{input}", self.0)
        }

        fn inputs(&self, input: &u32) -> Digest {
            Digest::of_json(input)
        }

        fn run(&self, input: &u32) -> Result<Done<u32>> {
            Ok(Done { output: input * input, state: State::Done, reason: String::new() })
        }
    }

    #[test]
    fn equal_inputs_of_two_subjects_get_a_record_each() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path()).unwrap();
        for name in ["up", "fork"] {
            drive(&store, &Named(name), &[3], 1, Console { quiet: true }).unwrap();
        }
        for subject in ["up-3", "fork-3"] {
            assert_eq!(store.get::<u32>("named", subject).unwrap(), Some(9));
        }
    }

    #[test]
    fn b056_a_full_disk_stops_the_run_and_uses_up_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path()).unwrap();
        let stage = Square { setting: 1, calls: AtomicU32::new(0) };
        let error = drive(&store, &stage, &[2, 99, 4], 1, Console { quiet: true }).unwrap_err();
        assert!(format!("{error:#}").contains("disk"), "{error:#}");
        assert_eq!(store.all::<u32>("square").unwrap(), [4]);
    }

    #[test]
    fn a_panic_stops_the_run_names_the_item_and_keeps_what_was_finished() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path()).unwrap();
        let stage = Square { setting: 1, calls: AtomicU32::new(0) };
        let error = drive(&store, &stage, &[2, 13, 4], 1, Console { quiet: true }).unwrap_err();
        assert!(format!("{error:#}").contains("`13`") && format!("{error:#}").contains("unlucky"), "{error:#}");
        assert_eq!(store.all::<u32>("square").unwrap(), [4]);
    }
}
