//! The tools' schema, and what a call's argument text means. Pure.
//!
//! Arguments are never guessed: what does not parse as an object, lacks a required argument, has an unknown one or one
//! of a wrong type is answered with an error and not executed.

use std::fmt;

use serde::{
    Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::{Map, Value, json};

/// A call with its arguments understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    ListDir { path: String },
    View { path: String, start: Option<u64>, end: Option<u64> },
    Search { pattern: String, path: String, regex: bool },
    Edit { path: String, old: String, new: String },
    ApplyPatch { patch: String },
    RunTests { paths: Vec<String> },
    Bash { command: String },
    Finish { summary: String, gave_up: bool },
}

/// Above this the arguments of one call are refused, bytes.
pub const MAX_ARGUMENT_BYTES: usize = 1 << 20;

/// Returns the tools in the form of OpenAI's `tools` list, in a fixed order.
pub fn definitions() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let number = |description: &str| json!({"type": "integer", "minimum": 1, "description": description});
    let flag = |description: &str| json!({"type": "boolean", "description": description});
    Value::Array(vec![
        function(
            "list_dir",
            "List the entries of a directory. Directories end in a slash.",
            &json!({"path": text("Directory, relative to the repository's root (`.` is the root).")}),
            &["path"],
        ),
        function(
            "view",
            "Show a text file, or a part of it, with line numbers.",
            &json!({
                "path": text("File, relative to the repository's root."),
                "start": number("First line to show."),
                "end": number("Last line to show."),
            }),
            &["path"],
        ),
        function(
            "search",
            "Search files for a text. Answers with `path:line:text`.",
            &json!({
                "pattern": text("Text to look for."),
                "path": text("File or directory to search, relative to the repository's root; all of it if left out."),
                "regex": flag("Take the pattern as an extended regular expression instead of as fixed text."),
            }),
            &["pattern"],
        ),
        function(
            "edit",
            "Replace one passage of a file. `old` must occur exactly once. An empty `old` creates a new file.",
            &json!({
                "path": text("File, relative to the repository's root."),
                "old": text("The passage as it stands in the file, with its indentation."),
                "new": text("What to put in its place."),
            }),
            &["path", "old", "new"],
        ),
        function(
            "apply_patch",
            "Apply a unified diff of one or more files. Context must match exactly; either all of it is applied or nothing.",
            &json!({"patch": text("The diff, with `--- a/path` and `+++ b/path` headers; /dev/null for new and removed files.")}),
            &["patch"],
        ),
        function(
            "run_tests",
            "Run the repository's tests and report counts and failures.",
            &json!({
                "paths": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Test files or test ids; the whole suite if left out.",
                },
            }),
            &[],
        ),
        function(
            "bash",
            "Run a shell command in the repository's root. No network, no input, no terminal.",
            &json!({"command": text("The command.")}),
            &["command"],
        ),
        function(
            "finish",
            "End the work. The repository is judged as it stands.",
            &json!({
                "summary": text("What was done."),
                "gave_up": flag("True if the issue is not solved and no further attempt makes sense."),
            }),
            &[],
        ),
    ])
}

fn function(name: &str, description: &str, properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
        },
    })
}

/// Reads a call's argument text as an object; nothing and `null` count as an empty one.
///
/// # Errors
/// What is wrong with the text, for the one who wrote it. A repeated key is an error: the readers of two languages
/// disagree about which of the values counts.
pub fn parse_arguments(text: &str) -> Result<Map<String, Value>, String> {
    if text.len() > MAX_ARGUMENT_BYTES {
        return Err(format!("the arguments have {} bytes, at most {MAX_ARGUMENT_BYTES} are taken", text.len()));
    }
    if text.trim().is_empty() || text.trim() == "null" {
        return Ok(Map::new());
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let object = deserializer.deserialize_any(ObjectVisitor).map_err(|error| error.to_string())?;
    deserializer.end().map_err(|error| error.to_string())?;
    Ok(object)
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Map<String, Value>, A::Error> {
        let mut object = Map::new();
        while let Some((key, value)) = access.next_entry::<String, Value>()? {
            if object.insert(key.clone(), value).is_some() {
                return Err(A::Error::custom(format!("the key `{key}` occurs twice")));
            }
        }
        Ok(object)
    }
}

/// Understands a call.
///
/// # Errors
/// An unknown tool, or an argument that is missing, unknown or of a wrong type.
pub fn parse(name: &str, arguments: &Map<String, Value>) -> Result<Action, String> {
    let mut given = Given { name, left: arguments.clone() };
    let action = match name {
        "list_dir" => Action::ListDir { path: given.text_or("path", ".")? },
        "view" => Action::View { path: given.text("path")?, start: given.number("start")?, end: given.number("end")? },
        "search" => Action::Search {
            pattern: given.text("pattern")?,
            path: given.text_or("path", ".")?,
            regex: given.flag("regex")?,
        },
        "edit" => Action::Edit { path: given.text("path")?, old: given.text("old")?, new: given.text("new")? },
        "apply_patch" => Action::ApplyPatch { patch: given.text("patch")? },
        "run_tests" => Action::RunTests { paths: given.texts("paths")? },
        "bash" => Action::Bash { command: given.text("command")? },
        "finish" => Action::Finish { summary: given.text_or("summary", "")?, gave_up: given.flag("gave_up")? },
        _ => {
            return Err(format!(
                "there is no tool `{name}`; the tools are list_dir, view, search, edit, apply_patch, run_tests, bash, finish"
            ));
        }
    };
    match given.left.keys().next() {
        Some(key) => Err(format!("`{name}` has no argument `{key}`")),
        None => Ok(action),
    }
}

/// Arguments not yet taken.
struct Given<'a> {
    name: &'a str,
    left: Map<String, Value>,
}

impl Given<'_> {
    fn take(&mut self, key: &str) -> Option<Value> {
        // `null` is how many servers write an argument that was left out.
        self.left.shift_remove(key).filter(|value| !value.is_null())
    }

    fn text(&mut self, key: &str) -> Result<String, String> {
        match self.take(key) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(format!("argument `{key}` of `{}` must be a string", self.name)),
            None => Err(format!("`{}` needs the argument `{key}`", self.name)),
        }
    }

    fn text_or(&mut self, key: &str, default: &str) -> Result<String, String> {
        if self.left.get(key).is_none_or(Value::is_null) {
            self.left.shift_remove(key);
            return Ok(default.to_owned());
        }
        self.text(key)
    }

    fn number(&mut self, key: &str) -> Result<Option<u64>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(value) => match value.as_u64().filter(|number| *number > 0) {
                Some(number) => Ok(Some(number)),
                None => Err(format!("argument `{key}` of `{}` must be a whole number from 1", self.name)),
            },
        }
    }

    fn flag(&mut self, key: &str) -> Result<bool, String> {
        match self.take(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(format!("argument `{key}` of `{}` must be true or false", self.name)),
        }
    }

    fn texts(&mut self, key: &str) -> Result<Vec<String>, String> {
        let wrong = || format!("argument `{key}` of `{}` must be a list of strings", self.name);
        match self.left.shift_remove(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
            }
            Some(_) => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, arguments: &str) -> Result<Action, String> {
        parse(name, &parse_arguments(arguments)?)
    }

    #[test]
    fn calls_are_understood() {
        assert_eq!(read("list_dir", "").unwrap(), Action::ListDir { path: ".".into() });
        assert_eq!(read("list_dir", "null").unwrap(), Action::ListDir { path: ".".into() });
        assert_eq!(
            read("view", r#"{"path": "a.py", "start": 3, "end": null}"#).unwrap(),
            Action::View { path: "a.py".into(), start: Some(3), end: None }
        );
        assert_eq!(read("run_tests", "{}").unwrap(), Action::RunTests { paths: vec![] });
        assert_eq!(
            read("finish", r#"{"gave_up": true}"#).unwrap(),
            Action::Finish { summary: String::new(), gave_up: true }
        );
    }

    #[test]
    fn malformed_arguments_are_refused_and_never_guessed() {
        for (name, arguments, expected) in [
            ("bash", r#"{"command": list"}"#, "expected"),
            ("bash", r#"{"command": "ls"#, "EOF"),
            ("bash", "[1]", "a JSON object"),
            ("bash", "7", "a JSON object"),
            ("bash", "\"ls\"", "a JSON object"),
            ("bash", r#"{"command": "a", "command": "b"}"#, "occurs twice"),
            ("bash", r#"{"command": "a"} trailing"#, "trailing"),
            ("bash", "{}", "needs the argument `command`"),
            ("bash", r#"{"command": 1}"#, "must be a string"),
            ("bash", r#"{"command": "a", "timeout": 1}"#, "no argument `timeout`"),
            ("view", r#"{"path": "a", "start": 0}"#, "whole number from 1"),
            ("view", r#"{"path": "a", "start": "3"}"#, "whole number from 1"),
            ("run_tests", r#"{"paths": "a"}"#, "list of strings"),
            ("submit", "{}", "there is no tool `submit`"),
        ] {
            let error = read(name, arguments).unwrap_err();
            assert!(error.contains(expected), "{name} {arguments}: {error}");
        }
        assert!(parse_arguments(&"x".repeat(MAX_ARGUMENT_BYTES + 1)).unwrap_err().contains("at most"));
    }

    #[test]
    fn every_defined_tool_is_understood_and_named_once() {
        let definitions = definitions();
        let names: Vec<&str> =
            definitions.as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["list_dir", "view", "search", "edit", "apply_patch", "run_tests", "bash", "finish"]);
        for tool in definitions.as_array().unwrap() {
            let arguments: Map<String, Value> = tool["function"]["parameters"]["properties"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(key, schema)| {
                    let value = match schema["type"].as_str().unwrap() {
                        "string" => json!("x"),
                        "integer" => json!(1),
                        "boolean" => json!(true),
                        _ => json!(["x"]),
                    };
                    (key.clone(), value)
                })
                .collect();
            parse(tool["function"]["name"].as_str().unwrap(), &arguments).unwrap();
        }
    }
}
