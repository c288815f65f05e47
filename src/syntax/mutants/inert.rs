//! What no fault is planted into.

use tree_sitter::Node;

use super::{
    super::{is_comment, is_docstring},
    Finder,
};

/// Types, imports, and tokens that the grammar does not understand.
const INERT: [&str; 21] = [
    "type",
    "import_statement",
    "import_from_statement",
    "future_import_statement",
    "import_declaration",
    "package_clause",
    "use_declaration",
    "extern_crate_declaration",
    "attribute_item",
    "inner_attribute_item",
    "token_tree",
    "where_clause",
    "type_item",
    "type_declaration",
    "type_alias_declaration",
    "interface_declaration",
    "ambient_declaration",
    "export_clause",
    "type_annotation",
    "type_arguments",
    "type_parameters",
];

impl Finder<'_> {
    pub(super) fn is_inert(&self, node: Node) -> bool {
        let kind = node.kind();
        let is_directive =
            || kind == "expression_statement" && node.named_child(0).is_some_and(|only| only.kind() == "string");
        is_comment(node)
            || is_docstring(node)
            || is_directive()
            || (node.is_named() && (INERT.contains(&kind) || kind.ends_with("_type")))
            || self.is_version_or_list(node)
            || self.is_never_tested(node)
            || self.callee(node).is_some_and(|callee| is_log(callee) || matches!(callee, "require" | "import"))
    }

    /// `__all__ = …`, `__version__ = …`, `const VERSION: &str = …`.
    fn is_version_or_list(&self, node: Node) -> bool {
        let name = match node.kind() {
            "assignment" => "left",
            "variable_declarator" | "const_item" | "static_item" | "const_spec" | "var_spec" => "name",
            _ => return false,
        };
        let Some(name) = node.child_by_field_name(name).map(|name| self.source(name)) else { return false };
        (name.starts_with("__") && name.ends_with("__")) || name.to_lowercase().ends_with("version")
    }

    /// `if __name__ == "__main__"`, `if TYPE_CHECKING`.
    fn is_never_tested(&self, node: Node) -> bool {
        let condition = node.child_by_field_name("condition").filter(|_| node.kind() == "if_statement");
        let Some(condition) = condition.map(|condition| self.source(condition)) else { return false };
        condition.contains("__name__") || condition.contains("TYPE_CHECKING")
    }

    /// Says whether the strings in a node are words of an error, or a format that the compiler checks.
    pub(super) fn is_message(&self, node: Node) -> bool {
        const ENDINGS: [&str; 8] = ["Error", "Exception", "Warning", "expect", "printf", "Printf", "Errorf", "Fatalf"];
        if matches!(node.kind(), "raise_statement" | "throw_statement" | "assert_statement") {
            return true;
        }
        let Some(callee) = self.callee(node) else { return false };
        let name = callee.rsplit(['.', ':']).next().unwrap_or_default();
        callee == "errors.New" || ENDINGS.iter().any(|ending| name.ends_with(ending))
    }
}

/// Says whether a call writes to a log or a terminal.
pub(super) fn is_log(callee: &str) -> bool {
    const LOGS: [&str; 8] = ["log", "logger", "_log", "_logger", "logging", "console", "warnings", "tracing"];
    const WRITERS: [&str; 10] =
        ["print", "println", "eprintln", "eprint", "trace", "debug", "info", "warn", "error", "dbg"];
    let lower = callee.to_lowercase();
    let lower = lower.trim_start_matches("self.").trim_start_matches("this.");
    let is_of_log = lower.split_once(['.', ':']).is_some_and(|(log, _)| LOGS.contains(&log));
    is_of_log || WRITERS.contains(&callee) || callee.starts_with("fmt.Print")
}
