//! What a solution must be called and must say, in plain sentences: the task's fairness items. Pure.

use super::{leak::is_told, template::cut};
use crate::record::task::{FairnessItem, FairnessKind, HiddenTask, NameRole, Task};

/// Lines of the commit's message, besides its subject, that are told.
const MAX_BODY_LINES: usize = 8;

/// What the text says of a task's items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// One sentence or two on each name.
    pub names: Vec<String>,
    /// One sentence on each message, one on all other values.
    pub values: Vec<String>,
}

impl Interface {
    /// Says what the names and values are that `told` does not hold yet, each in the fullest way that `clean` allows.
    pub fn of(task: &Task, told: &str, clean: &mut impl FnMut(&str) -> bool) -> Interface {
        let mut interface = Interface::default();
        let mut literals = Vec::new();
        // What names others in its signature comes before those.
        let mut items: Vec<&FairnessItem> = task.hidden.fairness.iter().collect();
        items.sort_by_key(|item| (item.role, item.signature.is_none()));
        for item in items {
            match item.kind {
                FairnessKind::Name if interface.names.iter().any(|name| is_told(item, name)) => {}
                FairnessKind::Name => {
                    interface.names.extend(ways(item, &task.public.language).into_iter().find(|way| clean(way)));
                }
                FairnessKind::Message if !is_told(item, told) => {
                    let sentence = format!("The message should say: `{}`.", cut(&item.text));
                    interface.values.extend(Some(sentence).filter(|sentence| clean(sentence)));
                }
                FairnessKind::Literal if !is_told(item, told) => {
                    literals.extend(Some(format!("`{}`", cut(&item.text))).filter(|value| clean(value)));
                }
                FairnessKind::Message | FairnessKind::Literal => {}
            }
        }
        match literals.as_slice() {
            [] => {}
            [one] => interface.values.push(format!("The value to expect or to accept is {one}.")),
            several => interface.values.push(format!("Values to expect or to accept are {}.", several.join(", "))),
        }
        interface
    }
}

/// Returns what can be said of a name, the most telling first.
fn ways(item: &FairnessItem, language: &str) -> Vec<String> {
    let called = item.signature.as_deref().unwrap_or(&item.text);
    let owner = item.owner.as_deref().map(owner_name).filter(|owner| !owner.starts_with('_'));
    let mut ways = Vec::new();
    if let Some(doc) = &item.doc {
        let doc = cut(doc);
        let end = if doc.ends_with(['.', '!', '?', '…']) { "" } else { "." };
        let described = |plain: String| format!("{plain} What it is for: {doc}{end}");
        ways.extend(owner.map(|owner| described(belongs(item, owner, called))));
        ways.push(described(is_new(item, called, language)));
    }
    ways.extend(owner.map(|owner| belongs(item, owner, called)));
    ways.push(is_new(item, called, language));
    ways.push(is_new(item, &item.text, language));
    ways
}

/// Returns the function, class or method that an owner stands for: a constructor's parameters are its class's.
fn owner_name(owner: &str) -> &str {
    let owner = owner.strip_suffix(".__init__").or_else(|| owner.strip_suffix(".constructor")).unwrap_or(owner);
    owner.strip_suffix(".__new__").unwrap_or(owner)
}

fn belongs(item: &FairnessItem, owner: &str, called: &str) -> String {
    match item.role {
        Some(NameRole::Parameter) => format!("`{owner}` takes a parameter called `{called}`."),
        Some(NameRole::Method | NameRole::Function) => format!("`{owner}` has a method `{called}`."),
        Some(NameRole::Type) => format!("`{owner}` holds a type `{called}`."),
        Some(NameRole::Option) => format!("`{owner}` knows the name `{called}`."),
        Some(NameRole::Attribute | NameRole::Constant | NameRole::Module) | None => {
            format!("`{owner}` has an attribute `{called}`.")
        }
    }
}

fn is_new(item: &FairnessItem, called: &str, language: &str) -> String {
    let what = match item.role {
        Some(NameRole::Module) => "module",
        Some(NameRole::Type) if ["python", "javascript"].contains(&language) => "class",
        Some(NameRole::Type) => "type",
        Some(NameRole::Function) => "function",
        Some(NameRole::Method) => "method",
        Some(NameRole::Attribute) => "attribute",
        Some(NameRole::Parameter) => "parameter",
        Some(NameRole::Constant) => "constant",
        Some(NameRole::Option) | None => "option",
    };
    format!("The new {what} is called `{called}`.")
}

/// Returns what the commit's message says after its subject, as far as `clean` allows; trailers are left out.
pub fn body(hidden: &HiddenTask, clean: &mut impl FnMut(&str) -> bool) -> String {
    let message = hidden.message.lossy();
    let is_trailer = |line: &&str| {
        let word = line.split_once(": ").map_or("", |(word, _)| word);
        word.contains('-') && word.starts_with(char::is_uppercase) && !word.contains(' ')
    };
    let lines = message.lines().skip(1).map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.filter(|line| !is_trailer(line) && line.contains(' ') && clean(line));
    lines.take(MAX_BODY_LINES).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(text: &str, role: NameRole, owner: Option<&str>) -> FairnessItem {
        FairnessItem {
            kind: FairnessKind::Name,
            text: text.into(),
            role: Some(role),
            owner: owner.map(Into::into),
            signature: None,
            doc: None,
            test_path: "t.py".into(),
            test_line: 1,
        }
    }

    fn task(fairness: Vec<FairnessItem>) -> Task {
        let mut task = super::super::leak::tests::task("");
        task.hidden.fairness = fairness;
        task
    }

    #[test]
    fn names_are_told_with_what_they_belong_to_and_are_for() {
        let mut function = item("ellipsize", NameRole::Function, None);
        function.signature = Some("ellipsize(text, width)".into());
        function.doc = Some("Shorten a text".into());
        let items = vec![
            function,
            item("width", NameRole::Parameter, Some("ellipsize")),
            item("strict", NameRole::Parameter, Some("Reader.__init__")),
            item("loose", NameRole::Parameter, Some("_read")),
        ];
        let found = Interface::of(&task(items), "", &mut |_| true);
        assert_eq!(
            found.names,
            [
                "The new function is called `ellipsize(text, width)`. What it is for: Shorten a text.",
                "`Reader` takes a parameter called `strict`.",
                "The new parameter is called `loose`.",
            ]
        );
    }

    #[test]
    fn what_the_gate_refuses_is_told_in_a_shorter_way() {
        let mut method = item("mode", NameRole::Method, Some("Stats"));
        method.doc = Some("Calls _most_common.".into());
        let found = Interface::of(&task(vec![method]), "", &mut |line| !line.contains("_most_common"));
        assert_eq!(found.names, ["`Stats` has a method `mode`."]);
    }

    #[test]
    fn values_are_told_unless_a_symptom_told_them() {
        let value = |kind, text: &str| FairnessItem { kind, role: None, ..item(text, NameRole::Option, None) };
        let items = vec![
            value(FairnessKind::Literal, "4004"),
            value(FairnessKind::Literal, "pending-retry"),
            value(FairnessKind::Message, "cannot read it"),
        ];
        let found = Interface::of(&task(items.clone()), "", &mut |_| true);
        assert_eq!(
            found.values,
            ["The message should say: `cannot read it`.", "Values to expect or to accept are `4004`, `pending-retry`.",]
        );
        let found = Interface::of(&task(items), "it is 4004, but pending-retry: cannot\nread it", &mut |_| true);
        assert_eq!(found, Interface::default());
    }

    #[test]
    fn a_message_is_told_without_its_trailers() {
        let mut task = task(vec![]);
        task.hidden.message =
            "Add mode\n\nIt gives the most\ncommon value.\n\nSigned-off-by: A B <a@b>\nCloses: #3\n".into();
        assert_eq!(body(&task.hidden, &mut |_| true), "It gives the most\ncommon value.\nCloses: #3");
    }
}
