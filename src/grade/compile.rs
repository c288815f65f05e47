//! Does the source that a patch touches compile? Asked of the task's own interpreter, in a sandbox.

use anyhow::Result;

use crate::{
    harness::{self, Subject},
    interrupt::Interrupted,
    lab::Lab,
    record::patch::Edit,
    sandbox::{self, ENVIRONMENT, Exit, Limits},
};

/// Prints `path: error` for the first file that does not compile. Runs on every Python since 2.7.
const SCRIPT: &str = "
import sys
for path in sys.argv[1:]:
    with open(path, 'rb') as file:
        text = file.read()
    try:
        compile(text, path, 'exec', 0, True)
    except (SyntaxError, ValueError, TypeError) as error:
        print('%s: %s' % (path, error))
        break
";

/// Returns what is wrong with the first Python file among `touched` that does not compile, where the base's version did.
///
/// # Errors
/// The workspace cannot be made; the user's interrupt.
pub fn first_error(lab: &Lab, subject: Subject, tree: &[Edit], touched: &[Edit]) -> Result<Option<String>> {
    let paths: Vec<String> = touched
        .iter()
        .filter(|edit| edit.content.as_ref().is_some_and(|content| content.mode != 0o120_000))
        .filter_map(|edit| std::str::from_utf8(edit.path.as_bytes()).ok())
        .filter(|path| path.ends_with(".py"))
        .map(str::to_owned)
        .collect();
    if paths.is_empty() {
        return Ok(None);
    }
    let Some(error) = check(lab, subject, tree, &paths)? else { return Ok(None) };
    let Some(path) = paths.iter().find(|path| error.starts_with(&format!("{path}: "))) else { return Ok(None) };
    // A template that never was a Python file compiles on neither side.
    let before = check(lab, subject, &[], std::slice::from_ref(path))?;
    Ok(before.is_none().then(|| format!("the source does not compile: {error}")))
}

fn check(lab: &Lab, subject: Subject, tree: &[Edit], paths: &[String]) -> Result<Option<String>> {
    let workspace = harness::workspace(lab, subject, tree)?;
    // Without an environment there is no answer, and the label rests on the tests alone.
    let Ok(surroundings) = harness::surroundings(lab, subject) else { return Ok(None) };
    let limits = Limits { wall: std::time::Duration::from_mins(1), ..Limits::default() };
    let spec = surroundings.spec(&workspace, limits);
    let mut argv: Vec<String> = vec![format!("{ENVIRONMENT}/bin/python"), "-c".to_owned(), SCRIPT.to_owned()];
    argv.extend(paths.iter().cloned());
    let output = sandbox::run(lab.backend, &spec, &argv)?;
    match output.exit {
        Exit::Interrupted => Err(Interrupted.into()),
        Exit::Code(0) => Ok(Some(output.stdout.text().trim().to_owned()).filter(|text| !text.is_empty())),
        _ => Ok(None),
    }
}
