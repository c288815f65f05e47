//! Paths that a policy names: normalised, and confined to the tree. Pure; links are resolved inside the sandbox.

use crate::sandbox::TREE;

/// Returns a path relative to the tree (`""` is the tree itself) without `.` and `..`.
///
/// # Errors
/// The path leaves the tree, or holds a NUL.
pub fn relative(path: &str) -> Result<String, String> {
    if path.contains('\0') {
        return Err("the path holds a NUL character".to_owned());
    }
    let inside = match path.strip_prefix(TREE) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ if path.starts_with('/') => return Err(outside(path)),
        _ => path,
    };
    let mut parts = Vec::new();
    for part in inside.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or_else(|| outside(path))?;
            }
            _ => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// As [`relative`], for a path that is to be changed: neither the tree itself nor anything of git's.
///
/// # Errors
/// As [`relative`].
pub fn writable(path: &str) -> Result<String, String> {
    let relative = relative(path)?;
    if relative.is_empty() {
        return Err(format!("`{path}` is the repository's root, not a file"));
    }
    if relative.split('/').any(|part| part.eq_ignore_ascii_case(".git")) {
        return Err(format!("`{path}` belongs to git and is not changed by this tool"));
    }
    Ok(relative)
}

fn outside(path: &str) -> String {
    format!("`{path}` is outside the repository ({TREE})")
}

/// Returns the text as one word for a shell.
pub fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_confined_to_the_tree() {
        for (path, expected) in
            [(".", ""), ("", ""), ("a//b/./c", "a/b/c"), ("/testbed", ""), ("/testbed/a", "a"), ("a/../b", "b")]
        {
            assert_eq!(relative(path).unwrap(), expected);
        }
        for path in ["..", "a/../../b", "/etc/passwd", "/testbed2/x", "/testbed/../etc", "a\0b"] {
            assert!(relative(path).is_err(), "{path}");
        }
    }

    #[test]
    fn gits_own_files_and_the_root_are_not_written() {
        for path in [".", ".git/config", "sub/.GIT/hooks/x", "/testbed/.git"] {
            assert!(writable(path).is_err(), "{path}");
        }
        assert_eq!(writable(".github/x.yml").unwrap(), ".github/x.yml");
    }

    #[test]
    fn quoted_words_survive_a_shell() {
        assert_eq!(quote("it's $HOME"), r"'it'\''s $HOME'");
    }
}
