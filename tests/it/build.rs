//! Environments of small repositories, built for real from the package index.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
};

use curate::{
    build,
    cache::Cache,
    config, environments,
    git::{Oid, Repo},
    history,
    lab::Lab,
    record::{
        bytes::ByteText,
        candidate::{Candidate, FileChange, Role, Side},
        environment::{Build, BuildOutcome, Language},
    },
    sandbox::{self, ENVIRONMENT, Exit, Mount, Spec},
    uv,
};

use crate::support::{self, backends, plant, require};

/// Returns a lab whose cache lives as long as the build directory, or `None` where environments cannot be built.
fn lab() -> Option<&'static Lab> {
    static LAB: OnceLock<Option<Lab>> = OnceLock::new();
    LAB.get_or_init(|| {
        let backend = backends().into_iter().next()?;
        let cache = Cache::at(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("build-cache")).unwrap();
        let uv = uv::find(&cache).map_err(|error| eprintln!("{error:#}"));
        require("pip", uv.is_ok()).then_some(Lab::new(cache, backend, 2))
    })
    .as_ref()
}

/// A repository of two commits, 2024-06-01 and a day later, that differ in `src/demo/core.py`.
struct Project {
    dir: tempfile::TempDir,
    candidate: Candidate,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Project {
        Project::with_fix(files, &[])
    }

    /// As [`Project::new`], with more files that the second commit changes.
    fn with_fix(files: &[(&str, &str)], fixed: &[(&str, &str)]) -> Project {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("text");
        let history = "[[commit]]\nid = 'base'\nmessage = 'Begin'\ndate = '2024-06-01T12:00:00Z'\n\
                       [[commit]]\nid = 'fix'\nmessage = 'Fix'\ndate = '2024-06-02T12:00:00Z'\n";
        plant(
            &text,
            &[("history.toml", history), ("base/src/demo/core.py", "x = 1\n"), ("fix/src/demo/core.py", "x = 2\n")],
        );
        plant(&text.join("base"), &[("src/demo/__init__.py", "")]);
        plant(&text.join("base"), files);
        plant(&text.join("fix"), fixed);
        let target = dir.path().join("repository");
        fs::create_dir(&target).unwrap();
        let ids = history::rebuild(&text, &target).unwrap();
        let candidate = candidate(&target, &ids["base"], &ids["fix"]);
        Project { dir, candidate }
    }

    fn repository(&self) -> PathBuf {
        self.dir.path().join("repository")
    }

    /// Builds its environment; `None` where the index cannot be reached.
    fn build(&self, lab: &Lab) -> Option<BuildOutcome> {
        let outcome = build::build(lab, &self.repository(), &self.candidate, None, &config::Build::default()).unwrap();
        let reachable = !matches!(&outcome, Err(failure) if failure.kind == "no_network");
        require("pip", reachable).then_some(outcome)
    }
}

fn candidate(repository: &Path, base: &str, fix: &str) -> Candidate {
    let repo = Repo::open(repository).unwrap();
    let commit = |id: &str| repo.commit(Oid::from_str(id).unwrap()).unwrap();
    let (base_commit, fix_commit) = (commit(base), commit(fix));
    let changes = repo.compare(base_commit.tree, fix_commit.tree).unwrap().into_iter().map(|delta| FileChange {
        path: ByteText(delta.path),
        role: Role::Source,
        old: delta.old.map(|node| Side { mode: node.mode, oid: node.oid.to_string() }),
        new: delta.new.map(|node| Side { mode: node.mode, oid: node.oid.to_string() }),
        added_lines: 1,
        removed_lines: 1,
        with_new_tests: None,
    });
    Candidate { changes: changes.collect(), ..support::candidate(repository, Language::Python, base, fix) }
}

/// Runs Python in the environment without a network and returns what it prints.
fn python(lab: &Lab, build: &Build, code: &str) -> String {
    let dir = environments::ensure(lab, &build.environment).unwrap();
    let mut mounts = vec![Mount { host: dir, inside: ENVIRONMENT.into(), writable: false }];
    mounts.extend(uv::mount_of(&build.environment.toolchain));
    let spec = Spec { mounts, ..Spec::default() };
    let argv = [&format!("{ENVIRONMENT}/bin/python"), "-c", code].map(String::from);
    let output = sandbox::run(lab.backend, &spec, &argv).unwrap();
    assert_eq!(output.exit, Exit::Code(0), "{}", output.stderr.text());
    output.stdout.text().trim().to_owned()
}

const PYPROJECT: &str = r#"
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"
[project]
name = "demo-pkg"
version = "1.5"
readme = "CHANGES.md"
requires-python = ">=3.8"
dependencies = ["six"]
[project.optional-dependencies]
test = ["pytest", "demo-pkg[more]"]
more = ["iniconfig"]
[tool.setuptools.packages.find]
where = ["src"]
"#;

#[test]
fn an_environment_holds_what_was_there_on_the_day_and_never_the_project() {
    let Some(lab) = lab() else { return };
    let project = Project::new(&[("pyproject.toml", PYPROJECT), ("CHANGES.md", "The fix sets x to 2.\n")]);
    let Some(outcome) = project.build(lab) else { return };
    let build = outcome.unwrap();
    assert_eq!(build.import_roots, ["src", ""]);
    assert_eq!(build.recipe.rung, "shared");
    assert_eq!(build.recipe.failed_rungs, Vec::<String>::new());
    assert!(build.recipe.sources.contains(&String::from("extra test")), "{:?}", build.recipe);
    assert!(build.environment.lock.contains("--hash=sha256:"));
    assert!(!build.environment.lock.contains("demo-pkg") && build.environment.lock.contains("iniconfig=="));
    // The days from 2024-04-25 on share it; pytest 8.1.1 came out on 2024-03-09, 8.1.2 on 2024-04-26.
    assert_eq!(build.recipe.cutoff, "2024-04-24");
    assert!(build.environment.lock.contains("\npytest==8.1.1 "), "{}", build.environment.lock);
    let code = "import importlib.util, six, pytest; print(importlib.util.find_spec('demo'))";
    assert_eq!(python(lab, &build, code), "None");

    let metadata = build.metadata.iter().find(|file| file.path.lossy().ends_with(".dist-info/METADATA")).unwrap();
    assert!(metadata.content.lossy().contains("Version: 1.5\n"));
    assert!(build.metadata.iter().all(|file| !file.content.lossy().contains("sets x to 2")), "{:?}", build.metadata);
    assert!(build.metadata.iter().all(|file| file.path.lossy().contains(".dist-info/")));
}

#[test]
fn a_lost_environment_comes_back_from_its_lock_and_threads_share_one() {
    let Some(lab) = lab() else { return };
    let project = Project::new(&[("requirements-test.txt", "pytest\nattrs\n")]);
    let Some(outcome) = project.build(lab) else { return };
    let first = outcome.unwrap();
    let dir = environments::ensure(lab, &first.environment).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    thread::scope(|scope| {
        let builds: Vec<_> = (0..3).map(|_| scope.spawn(|| project.build(lab))).collect();
        for build in builds {
            assert_eq!(build.join().unwrap().unwrap().unwrap(), first);
        }
    });
    let compiled = python(
        lab,
        &first,
        "import attr, pathlib; print(any(pathlib.Path(attr.__file__).parent.glob('__pycache__/*.pyc')))",
    );
    assert_eq!(compiled, "True");
}

#[test]
fn a_pin_that_cannot_be_had_costs_a_rung_and_a_broken_build_the_metadata() {
    let Some(lab) = lab() else { return };
    let project = Project::new(&[
        ("setup.py", "raise SystemExit('this project does not build')\nsetup(name='demo', install_requires=['six'])\n"),
        ("requirements-test.txt", "pytest==8.999\n"),
    ]);
    let Some(outcome) = project.build(lab) else { return };
    let build = outcome.unwrap();
    assert_eq!(build.recipe.rung, "dated_without_pins");
    assert_eq!(build.metadata, []);
    let failed = &build.recipe.failed_rungs;
    assert!(failed[0].starts_with("project (") && failed[0].contains("metadata_failed"), "{failed:?}");
    assert!(failed[1].starts_with("shared (") && failed[1].contains("resolve_failed"), "{failed:?}");
    assert!(build.environment.lock.contains("six==1.16.0"), "{}", build.environment.lock);
}

#[test]
fn files_that_a_build_generates_are_kept_but_no_copy_of_the_fix() {
    let Some(lab) = lab() else { return };
    let setup = "import pathlib, shutil\nfrom setuptools import setup, find_packages\n\
                 pathlib.Path('src/demo/_version.py').write_text('version = \"1\"')\n\
                 shutil.copy('src/demo/core.py', 'src/demo/core_copy.py')\n\
                 setup(name='demo', version='1', package_dir={'': 'src'}, packages=find_packages('src'))\n";
    let project = Project::new(&[("setup.py", setup)]);
    let Some(outcome) = project.build(lab) else { return };
    let build = outcome.unwrap();
    let paths: Vec<String> = build.generated.iter().map(|file| file.path.lossy()).collect();
    assert_eq!(paths, ["src/demo/_version.py"]);
}

const COMPILED: [(&str, &str); 3] = [
    ("pyproject.toml", "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n"),
    (
        "setup.py",
        "from setuptools import Extension, find_packages, setup\n\
         setup(name='demo', version='1', package_dir={'': 'src'}, packages=find_packages('src'),\n      \
         ext_modules=[Extension('demo._fast', ['src/demo/_fast.c'])])\n",
    ),
    (
        "src/demo/_fast.c",
        "#include <Python.h>\n\
         static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, \"_fast\", NULL, -1, NULL};\n\
         PyMODINIT_FUNC PyInit__fast(void) { return PyModule_Create(&definition); }\n",
    ),
];

#[test]
fn compiled_modules_are_laid_over_the_tree() {
    let Some(lab) = lab() else { return };
    let project = Project::new(&COMPILED);
    let Some(outcome) = project.build(lab) else { return };
    let build = outcome.unwrap();
    let [module] = &build.generated[..] else { panic!("{:?}", build.recipe.failed_rungs) };
    let path = module.path.lossy();
    assert!(path.starts_with("src/demo/_fast.") && path.ends_with(".so"), "{path}");
    assert!(module.content.as_bytes().starts_with(b"\x7fELF"));
}

#[test]
fn a_fix_of_what_modules_are_compiled_from_is_refused_by_name() {
    let Some(lab) = lab() else { return };
    let project = Project::with_fix(&COMPILED, &[("src/demo/_fast.c", &format!("{}// fixed\n", COMPILED[2].1))]);
    let Some(outcome) = project.build(lab) else { return };
    let failure = outcome.unwrap_err();
    assert_eq!(failure.kind, "native_change");
    assert!(failure.detail.contains("src/demo/_fast.c"), "{}", failure.detail);
}

#[test]
fn an_interpreter_that_is_not_there_is_named() {
    let Some(lab) = lab() else { return };
    let project = Project::new(&[("setup.cfg", "[metadata]\nname = demo\n[options]\npython_requires = >=4.2\n")]);
    let failure = project.build(lab).unwrap().unwrap_err();
    assert_eq!(failure.kind, "no_interpreter");
    assert!(failure.detail.contains(">=4.2"), "{}", failure.detail);
}
