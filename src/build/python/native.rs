//! Compiled modules of the project: taken out of its wheel and laid over the tree, from which all other modules come.
//!
//! They are built once, from the fixed commit, and serve every state. That holds as long as the fix leaves their sources
//! alone; one that changes them is refused by name, since each attempt would have to be compiled.

use super::manifest::Tree;
use crate::record::{
    bytes::ByteText,
    candidate::{FileChange, Role},
    environment::LayerFile,
    failure::{Blame, Failure, Phase},
};

/// Of all modules of a project together; they are part of the record.
const MAX_BYTES: usize = 8 << 20;
/// What compiled modules are made of.
const SOURCES: [&str; 14] =
    [".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".pyx", ".pxd", ".pxi", ".rs", ".f", ".f90", ".S"];

/// Says whether a file of a wheel is a compiled module.
pub fn is_module(path: &str) -> bool {
    path.ends_with(".so") && !path.split('/').any(|part| part.ends_with(".dist-info") || part.ends_with(".libs"))
}

/// Returns a wheel's compiled modules as files of the tree.
///
/// One that the tree also has as Python source is left out: it would be imported instead of that source, which a fix may
/// change.
///
/// # Errors
/// `native_change` where the fix changes what they are compiled from, `native_modules_too_large`.
pub fn layer(
    modules: Vec<LayerFile>,
    tree: &Tree,
    roots: &[String],
    changes: &[FileChange],
) -> Result<Vec<LayerFile>, Failure> {
    let mut files = Vec::new();
    for module in modules {
        let path = module.path.escaped();
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let root = root_of(folder, tree, roots);
        let stem = name.split('.').next().unwrap_or_default();
        if tree.has(&joined(&root, &joined(folder, &format!("{stem}.py")))) {
            continue;
        }
        files.push(LayerFile { path: joined(&root, &path).as_str().into(), ..module });
    }
    if files.is_empty() {
        return Ok(files);
    }
    let refuse = |kind: &str, detail: String| Err(Failure::new(Phase::Build, kind, Blame::Repo, detail));
    let is_native = |path: &ByteText| SOURCES.iter().any(|end| path.as_bytes().ends_with(end.as_bytes()));
    if let Some(change) = changes.iter().find(|change| change.role == Role::Source && is_native(&change.path)) {
        let detail = format!("the fix changes `{}`, of which compiled modules are made", change.path);
        return refuse("native_change", detail);
    }
    let bytes: usize = files.iter().map(|file| file.content.as_bytes().len()).sum();
    if bytes > MAX_BYTES {
        return refuse(
            "native_modules_too_large",
            format!("{bytes} bytes of compiled modules, at most {MAX_BYTES} are kept"),
        );
    }
    Ok(files)
}

/// Returns the import root below which the tree has a package's folder; the first where none has.
fn root_of(folder: &str, tree: &Tree, roots: &[String]) -> String {
    let has = |root: &&String| {
        let prefix = joined(root, folder) + "/";
        !folder.is_empty() && tree.paths.iter().any(|path| path.starts_with(&prefix))
    };
    roots.iter().find(has).or(roots.first()).cloned().unwrap_or_default()
}

fn joined(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_lie_beside_their_package_and_never_hide_its_source() {
        let tree = Tree {
            paths: ["docs/demo/x.md", "src/demo/__init__.py", "src/demo/plain.py"].map(String::from).to_vec(),
            ..Tree::default()
        };
        let module = |path: &str| LayerFile { path: path.into(), content: "".into(), executable: false };
        let modules =
            ["demo/_fast.abi3.so", "demo/plain.cpython-311-x86_64-linux-gnu.so", "top.so"].map(module).to_vec();
        let roots = ["src".to_owned(), String::new()];
        let files = layer(modules, &tree, &roots, &[]).unwrap();
        let paths: Vec<String> = files.iter().map(|file| file.path.lossy()).collect();
        assert_eq!(paths, ["src/demo/_fast.abi3.so", "src/top.so"]);
    }

    #[test]
    fn libraries_of_a_wheel_are_no_modules() {
        assert!(is_module("demo/_fast.so"));
        assert!(!is_module("demo.libs/libz.so") && !is_module("demo/libz.so.1") && !is_module("demo-1.dist-info/x.so"));
    }
}
