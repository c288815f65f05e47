//! Carries out calls in an agent's sandbox.
//!
//! Every file is read and written by commands inside the sandbox, so that a link, a race or a hostile file name reaches
//! no further than the agent itself could. What is refused or fails is an observation; only a lost machine and the
//! user's interrupt are not.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use anyhow::Result;
use base64::prelude::{BASE64_STANDARD, Engine as _};

use super::{
    files,
    observe::{self, clip, printable},
    place::{quote, relative, writable},
    tool::Action,
    unified,
};
use crate::{
    harness::{self, Surroundings},
    interrupt::Interrupted,
    record::{environment::Build, suite::Selection},
    sandbox::{Backend, Exit, Output, Spec, session::Session},
};

/// Why a call has no observation.
#[derive(Debug)]
pub enum Trouble {
    /// The user asked to stop.
    Interrupted,
    /// The sandbox was lost more often than it is reopened.
    Lost(String),
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// What the policy is shown.
    pub shown: String,
    /// The same before notes that count upwards; what repetition is judged by.
    pub essence: String,
}

/// A lost sandbox is reopened this often in one episode.
const MAX_LOSSES: u32 = 1;
/// Kept of a long output inside the sandbox, bytes.
const MAX_KEPT_BYTES: usize = 256 << 10;
/// Lines that `view` shows at once.
const MAX_VIEW_LINES: usize = 400;
const MAX_ENTRIES: usize = 500;
const MAX_MATCHES: usize = 200;

/// The tools of one episode.
pub struct Toolbox<'a> {
    surroundings: &'a Surroundings,
    build: &'a Build,
    session: Session<'a>,
    n_losses: u32,
    n_kept: u32,
    command_wall: Duration,
    deadline: Instant,
}

impl<'a> Toolbox<'a> {
    /// Opens the sandbox.
    ///
    /// # Errors
    /// The backend cannot be started.
    pub fn open(
        backend: Backend,
        spec: &'a Spec<'a>,
        surroundings: &'a Surroundings,
        build: &'a Build,
        command_wall: Duration,
        deadline: Instant,
    ) -> Result<Toolbox<'a>> {
        let session = Session::open(backend, spec)?;
        Ok(Toolbox { surroundings, build, session, n_losses: 0, n_kept: 0, command_wall, deadline })
    }

    /// Carries out one call other than `finish`.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub fn perform(&mut self, action: &Action) -> Result<Observation, Trouble> {
        let text = match action {
            Action::ListDir { path } => self.list_dir(path),
            Action::View { path, start, end } => self.view(path, *start, *end),
            Action::Search { pattern, path, regex } => self.search(pattern, path, *regex),
            Action::Edit { path, old, new } => self.edit(path, old, new),
            Action::ApplyPatch { patch } => self.apply_patch(patch),
            Action::RunTests { paths } => self.run_tests(paths),
            Action::Bash { command } => self.bash(command),
            Action::Finish { .. } => Ok("Finished.".to_owned()),
        };
        match text {
            Ok(text) => self.observation(&text),
            Err(Refusal::Explained(reason)) => self.observation(&format!("error: {reason}")),
            Err(Refusal::Trouble(trouble)) => Err(trouble),
        }
    }

    /// Cuts a long text and keeps it whole (up to a limit) inside the sandbox.
    fn observation(&mut self, text: &str) -> Result<Observation, Trouble> {
        let text = printable(text);
        let Some(clipped) = clip(&text) else {
            return Ok(Observation { shown: text.clone(), essence: text });
        };
        self.n_kept += 1;
        let path = format!("/tmp/out-{}.txt", self.n_kept);
        let kept = &text.as_bytes()[..text.floor_char_boundary(MAX_KEPT_BYTES)];
        let shown = match self.write(&format!("p={path}"), kept) {
            Ok(()) => clipped.text(Some(&path)),
            Err(Refusal::Explained(_)) => clipped.text(None),
            Err(Refusal::Trouble(trouble)) => return Err(trouble),
        };
        Ok(Observation { shown, essence: text })
    }

    fn list_dir(&mut self, path: &str) -> Outcome {
        let path = relative(path)?;
        let script = format!(
            "{}\n[ -d \"$p\" ] || {{ echo 'not a directory'; exit 90; }}\ncd \"$p\" && LC_ALL=C ls -1Ap",
            locate(&path)
        );
        let text = self.script(&script)?;
        let entries: Vec<&str> = text.lines().filter(|entry| !(path.is_empty() && *entry == ".git/")).collect();
        let mut shown = entries.iter().take(MAX_ENTRIES).fold(String::new(), |text, entry| text + entry + "\n");
        if entries.is_empty() {
            shown.push_str("(empty)\n");
        }
        if entries.len() > MAX_ENTRIES {
            let _ = writeln!(shown, "[… {} more entries]", entries.len() - MAX_ENTRIES);
        }
        Ok(shown)
    }

    fn view(&mut self, path: &str, start: Option<u64>, end: Option<u64>) -> Outcome {
        let content = self.read(&readable(path)?)?;
        let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
        if lines.is_empty() {
            return Ok("(the file is empty)\n".to_owned());
        }
        let number = |line: Option<u64>| line.map(|line| usize::try_from(line).unwrap_or(usize::MAX));
        let first = number(start).unwrap_or(1);
        let last = number(end).unwrap_or(usize::MAX).min(lines.len());
        if first > lines.len() {
            return refuse(format!("line {first} is past the end, the file has {} lines", lines.len()));
        }
        if last < first {
            return refuse(format!("`end` ({last}) is before `start` ({first})"));
        }
        let shown_last = last.min(first + MAX_VIEW_LINES - 1);
        let mut text = unified::numbered(&lines[first - 1..shown_last], first);
        if text.len() > observe::MAX_OBSERVATION_BYTES {
            // Whole lines from the top: a view cut in its middle would look like adjacent lines.
            let cut = text[..text.floor_char_boundary(observe::MAX_OBSERVATION_BYTES - 200)].rfind('\n');
            text.truncate(cut.map_or(0, |cut| cut + 1));
        }
        let n_shown = text.lines().count();
        let next = first + n_shown;
        if next <= last || last < lines.len() {
            let _ = writeln!(text, "[lines {first}-{} of {}]", next - 1, lines.len());
        }
        Ok(text)
    }

    fn search(&mut self, pattern: &str, path: &str, regex: bool) -> Outcome {
        let path = relative(path)?;
        if pattern.is_empty() {
            return refuse("the pattern is empty");
        }
        let kind = if regex { "-E" } else { "-F" };
        // Sorted, because directories are read in no particular order. grep's 1 is "nothing found".
        let script = format!(
            "{}\ncd {} || exit 91\nset -o pipefail\n\
             LC_ALL=C.UTF-8 grep -rHnI {kind} --exclude-dir=.git --exclude-dir=__pycache__ -e {} -- {} \
             | head -c 2000000 | LC_ALL=C sort -t: -k1,1 -k2,2n\n\
             code=${{PIPESTATUS[0]}}; [ \"$code\" -ge 2 ] && [ \"$code\" -lt 128 ] && exit 90; exit 0",
            locate(&path),
            crate::sandbox::TREE,
            quote(pattern),
            quote(if path.is_empty() { "." } else { &path })
        );
        let text = self.script(&script)?;
        let lines: Vec<&str> = text.lines().map(|line| line.strip_prefix("./").unwrap_or(line)).collect();
        if lines.is_empty() {
            return Ok("no matches\n".to_owned());
        }
        let mut shown = String::new();
        for line in lines.iter().take(MAX_MATCHES) {
            let cut = line.floor_char_boundary(300);
            shown.push_str(&line[..cut]);
            shown.push_str(if cut < line.len() { " […]\n" } else { "\n" });
        }
        if lines.len() > MAX_MATCHES {
            let _ = writeln!(shown, "[… {} more matches]", lines.len() - MAX_MATCHES);
        }
        Ok(shown)
    }

    fn edit(&mut self, path: &str, old: &str, new: &str) -> Outcome {
        let path = writable(path)?;
        if old.is_empty() {
            if self.exists(&path)? {
                return refuse(format!("`{path}` exists already; give the passage to replace as `old`"));
            }
            self.write(&locate(&path), new.as_bytes())?;
            return Ok(format!("Created {path} with {} lines.\n", new.lines().count()));
        }
        let content = self.read(&locate(&path))?;
        let replaced = files::replace(&content, old, new)?;
        self.write(&locate(&path), &replaced.content)?;
        Ok(format!("Edited {path}. It now reads:\n{}", replaced.excerpt))
    }

    fn apply_patch(&mut self, patch: &str) -> Outcome {
        let mut results = Vec::new();
        for file in unified::parse(patch)? {
            if let Some(what) = file.unsupported {
                return refuse(format!("`{}`: the patch holds {what}, which this tool does not apply", file.path()));
            }
            if file.old_path.is_some() && file.new_path.is_some() && file.old_path != file.new_path {
                return refuse(format!("`{}`: a rename; remove the one file and create the other", file.path()));
            }
            let path = writable(file.path())?;
            if results.iter().any(|(other, _)| *other == path) {
                return refuse(format!("`{path}` occurs twice in the patch"));
            }
            let exists = self.exists(&path)?;
            if file.old_path.is_none() && exists {
                return refuse(format!("`{path}` exists already, the patch would create it"));
            }
            let content = if file.old_path.is_some() { self.read(&locate(&path))? } else { Vec::new() };
            let after = unified::apply(&content, &file.hunks)
                .map_err(|reason| format!("the patch was not applied, nothing was changed\n`{path}`, {reason}"))?;
            if file.new_path.is_none() && !after.is_empty() {
                return refuse(format!("`{path}`: the patch removes the file but not all of its lines"));
            }
            results.push((path, file.new_path.is_some().then_some(after)));
        }
        let mut shown = String::from("Applied.\n");
        for (path, content) in results {
            if let Some(content) = content {
                self.write(&locate(&path), &content)?;
                let _ = writeln!(shown, "changed {path}");
            } else {
                self.script(&format!("{}\nrm -- \"$p\"", locate(&path)))?;
                let _ = writeln!(shown, "removed {path}");
            }
        }
        Ok(shown)
    }

    fn run_tests(&mut self, paths: &[String]) -> Outcome {
        let mut selected = Vec::new();
        for path in paths {
            let (file, rest) = path.split_once("::").map_or((path.as_str(), None), |(file, rest)| (file, Some(rest)));
            let file = relative(file)?;
            if rest.is_none() && !file.is_empty() && !self.exists(&file)? {
                return refuse(format!("`{file}` does not exist"));
            }
            selected.push(rest.map_or_else(|| file.clone(), |rest| format!("{file}::{rest}")));
        }
        let is_id = |path: &String| path.contains("::");
        let selection = match () {
            () if selected.is_empty() || selected.iter().any(String::is_empty) => Selection::All,
            () if selected.iter().all(is_id) => Selection::Tests(selected),
            () if selected.iter().any(is_id) => return refuse("give either files or test ids, not both"),
            () => Selection::Files(selected),
        };
        let wall = self.wall();
        match harness::run_in_session(&mut self.session, self.surroundings, self.build, &selection, wall) {
            Ok(run) => Ok(observe::test_report(&run)),
            Err(error) if error.is::<Interrupted>() => Err(Refusal::Trouble(Trouble::Interrupted)),
            Err(error) => self.lost(&format!("{error:#}")),
        }
    }

    fn bash(&mut self, command: &str) -> Outcome {
        if command.contains('\0') {
            return refuse("the command holds a NUL character");
        }
        let output = self.exec(command)?;
        let mut text = output.stdout.text();
        if text.is_empty() {
            text.push_str("(no output)");
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let note = match output.exit {
            Exit::Code(0) => String::new(),
            Exit::Code(code) => format!("[exit code {code}]\n"),
            Exit::Signal(signal) => format!("[ended by signal {signal}]\n"),
            Exit::TimedOut => format!(
                "[stopped after {} seconds; background processes were ended, files were kept]\n",
                self.command_wall.as_secs()
            ),
            Exit::OutOfMemory => "[ended because it used too much memory]\n".to_owned(),
            Exit::Interrupted | Exit::Lost => unreachable!("`exec` turns these into trouble"),
        };
        text.push_str(&note);
        Ok(text)
    }

    /// Reads a file of the tree; `place` sets `$p` and has checked it.
    fn read(&mut self, place: &str) -> Result<Vec<u8>, Refusal> {
        let script = format!(
            "{place}\n[ -e \"$p\" ] || {{ echo 'no such file'; exit 90; }}\n\
             [ -f \"$p\" ] || {{ echo 'not a file'; exit 90; }}\n\
             size=$(stat -c %s -- \"$p\")\n\
             [ \"$size\" -le {MAX_FILE_BYTES} ] || {{ echo \"the file has $size bytes, at most {MAX_FILE_BYTES} are \
             read by this tool\"; exit 90; }}\nbase64 -w0 -- \"$p\"",
        );
        let text = self.script(&script)?;
        let content = BASE64_STANDARD.decode(text.trim()).map_err(|_| "the file could not be read".to_owned())?;
        if content.iter().take(8_000).any(|byte| *byte == 0) {
            return Err(Refusal::Explained(format!("a binary file of {} bytes", content.len())));
        }
        Ok(content)
    }

    fn exists(&mut self, path: &str) -> Result<bool, Refusal> {
        let answer = self.script(&format!("{}\n[ -e \"$p\" ] && echo yes || echo no", locate(path)))?;
        Ok(answer.trim() == "yes")
    }

    /// Writes a file whole; `place` sets `$p` and has checked it. The file keeps its mode.
    fn write(&mut self, place: &str, content: &[u8]) -> Result<(), Refusal> {
        let script = format!(
            "{place}\nmkdir -p -- \"$(dirname -- \"$p\")\" && base64 -d > \"$p\" <<'END' || exit 90\n{}\nEND",
            BASE64_STANDARD.encode(content)
        );
        self.script(&script).map(|_| ())
    }

    /// Runs a script of ours. Exit code 90 and above, and any other failure, explain themselves in the output.
    fn script(&mut self, script: &str) -> Result<String, Refusal> {
        let output = self.exec(script)?;
        let text = output.stdout.text();
        match output.exit {
            Exit::Code(0) => Ok(text),
            _ if text.trim().is_empty() => Err(Refusal::Explained("the operation failed".to_owned())),
            _ => Err(Refusal::Explained(text.trim_end().to_owned())),
        }
    }

    fn exec(&mut self, command: &str) -> Result<Output, Refusal> {
        let wall = self.wall();
        match self.session.exec(command, wall) {
            Ok(Output { exit: Exit::Interrupted, .. }) => Err(Refusal::Trouble(Trouble::Interrupted)),
            Ok(Output { exit: Exit::Lost, .. }) => self.lost("the sandbox vanished under a command"),
            Ok(output) => Ok(output),
            Err(error) if error.is::<Interrupted>() => Err(Refusal::Trouble(Trouble::Interrupted)),
            Err(error) => self.lost(&format!("{error:#}")),
        }
    }

    /// Counts a loss. The session reopens itself with the next command, over the same files.
    fn lost<T>(&mut self, reason: &str) -> Result<T, Refusal> {
        self.n_losses += 1;
        if self.n_losses > MAX_LOSSES {
            return Err(Refusal::Trouble(Trouble::Lost(format!("{reason} ({} times)", self.n_losses))));
        }
        Err(Refusal::Explained(
            "the sandbox was lost and opened anew; files were kept, background processes are gone".to_owned(),
        ))
    }

    fn wall(&self) -> Duration {
        self.command_wall.min(self.deadline.saturating_duration_since(Instant::now())).max(Duration::from_secs(1))
    }
}

/// Files above this are not read or edited by the tools, bytes.
const MAX_FILE_BYTES: usize = 2 << 20;

type Outcome = Result<String, Refusal>;

#[derive(Debug)]
enum Refusal {
    /// Told to the policy.
    Explained(String),
    Trouble(Trouble),
}

impl From<String> for Refusal {
    fn from(reason: String) -> Refusal {
        Refusal::Explained(reason)
    }
}

fn refuse<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Explained(reason.into()))
}

/// Returns shell lines that set `$p` to the real path of a path relative to the tree, and stop if a link leads outside.
fn locate(path: &str) -> String {
    format!(
        "p=$(realpath -m -- {}) || exit 90\ncase \"$p/\" in {}/*) ;; *) echo 'a link leads outside the repository'; exit 90;; esac",
        quote(&format!("{}/{path}", crate::sandbox::TREE)),
        crate::sandbox::TREE
    )
}

/// As [`locate`], but kept outputs may be read too.
fn readable(path: &str) -> Result<String, String> {
    let number = path.strip_prefix("/tmp/out-").and_then(|rest| rest.strip_suffix(".txt"));
    if number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())) {
        return Ok(format!("p={path}"));
    }
    Ok(locate(&relative(path)?))
}
