//! Where an export's files lie, and how they take the place of older ones.
//!
//! Shards are written to a hidden directory that changes places with the final one in a single system call, so that no
//! reader sees half an export or shards of two. Whatever a killed export left is removed by the next. A lock on the
//! output directory keeps two exports apart.

use std::{
    fs::{self, File, TryLockError},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{
    Consumer, Rows,
    card::{self, Section},
    parquet::{self, Layout},
    rl, schema,
};
use crate::{
    files::{self, Lockable},
    git::Hinted,
};

/// A ChatML template for Qwen3 and its kin with the loss of a turn gated on its `train` field; shipped beside the data.
pub const CHAT_TEMPLATE: &str = include_str!("chat_template_qwen3.jinja");

/// Writes shards, companions and card; returns their paths.
pub fn write_hub(out: &Path, rows: &Rows) -> Result<Vec<PathBuf>> {
    if out.extension().is_some_and(|extension| extension == "jsonl" || extension == "parquet") {
        bail!("write a Parquet export to `{}`: it goes to a directory", out.display());
    }
    let data = out.join("data");
    fs::create_dir_all(&data).with_context(|| format!("create `{}`", data.display()))?;
    let _lock = lock(out)?;
    card::check_ownership(out)?;

    let consumer = rows.consumer;
    let place = data.join(consumer.name());
    let partial = data.join(format!(".{}.partial", consumer.name()));
    remove_dir(&partial)?;
    fs::create_dir(&partial).with_context(|| format!("create `{}`", partial.display()))?;
    let layout = Layout {
        dir: &partial,
        columns: schema::columns(consumer),
        section: Section::new(rows).to_json(),
        row_group_bytes: rows.settings.row_group_bytes,
        shard_bytes: rows.settings.shard_bytes,
    };
    parquet::write_shards(&layout, rows.iter())?;
    files::sync_dir(&partial)?;
    replace_dir(&partial, &place)?;
    files::sync_dir(&data)?;

    let mut files = shards(&place)?;
    for (name, text) in companions(consumer) {
        files.push(out.join(name));
        files::write(&out.join(name), text.as_bytes())?;
    }
    files.push(out.join(card::FILE_NAME));
    files::write(&out.join(card::FILE_NAME), card::render(&sections(&data)?).as_bytes())?;
    Ok(files)
}

/// Writes one JSON object a line to `out` itself, if it ends in `.jsonl`, or into it.
pub fn write_jsonl(out: &Path, rows: &Rows) -> Result<Vec<PathBuf>> {
    let path = if out.extension().is_some_and(|extension| extension == "jsonl") {
        out.to_owned()
    } else {
        out.join(format!("{}.jsonl", rows.consumer.name()))
    };
    let dir = files::directory(&path);
    fs::create_dir_all(dir).with_context(|| format!("create `{}`", dir.display()))?;
    let mut file = std::io::BufWriter::new(files::Partial::create(&path)?);
    for row in rows.iter() {
        serde_json::to_writer(&mut file, &row).context("write a row")?;
        file.write_all(b"\n").context("write a row")?;
    }
    file.into_inner().with_context(|| format!("write `{}`", path.display()))?.publish()?;
    Ok(vec![path])
}

fn companions(consumer: Consumer) -> Vec<(&'static str, &'static str)> {
    match consumer {
        Consumer::Trl => vec![("chat_template_qwen3.jinja", CHAT_TEMPLATE)],
        Consumer::VerlRl => vec![("reward_fn.py", rl::REWARD_FN)],
        Consumer::SweBench => Vec::new(),
    }
}

/// Reads back what each export in the directory says of itself, so that the card covers all of them.
fn sections(data: &Path) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    for consumer in Consumer::ALL {
        let place = data.join(consumer.name());
        if !place.is_dir() {
            continue;
        }
        if let Some(first) = shards(&place)?.first()
            && let Some(json) = parquet::read_section(first)?
        {
            sections.push(Section::from_json(&json).with_context(|| format!("read `{}`", first.display()))?);
        }
    }
    Ok(sections)
}

/// Returns the shards of a finished export in order.
fn shards(place: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(place).with_context(|| format!("list `{}`", place.display()))? {
        let name = entry.with_context(|| format!("list `{}`", place.display()))?.file_name();
        if is_shard(&name.to_string_lossy()) {
            paths.push(place.join(name));
        }
    }
    paths.sort();
    Ok(paths)
}

fn is_shard(name: &str) -> bool {
    name.starts_with("train-") && Path::new(name).extension().is_some_and(|extension| extension == "parquet")
}

fn lock(out: &Path) -> Result<Lockable> {
    let directory = Lockable(File::open(out).with_context(|| format!("open `{}`", out.display()))?);
    match directory.try_lock() {
        Ok(()) => Ok(directory),
        Err(TryLockError::WouldBlock) => Err(Hinted::error(
            "another export writes there",
            "wait until it is done, then run the same command again; what was finished is kept",
        ))
        .with_context(|| format!("export to `{}`", out.display())),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("lock `{}`", out.display())),
    }
}

/// Puts `partial` at `place`; an older export that was there is gone afterwards.
fn replace_dir(partial: &Path, place: &Path) -> Result<()> {
    let context = || format!("put the export at `{}`", place.display());
    if !place.exists() {
        return fs::rename(partial, place).with_context(context);
    }
    for entry in fs::read_dir(place).with_context(context)? {
        let name = entry.with_context(context)?.file_name();
        if !is_shard(&name.to_string_lossy()) {
            bail!("replace `{}`: it holds `{}`, which no export wrote", place.display(), name.to_string_lossy());
        }
    }
    if renameat_with(CWD, partial, CWD, place, RenameFlags::EXCHANGE).is_err() {
        // Not every file system can exchange two names.
        fs::remove_dir_all(place).with_context(context)?;
        return fs::rename(partial, place).with_context(context);
    }
    remove_dir(partial)
}

fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove `{}`", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_export_is_replaced_as_a_whole_and_foreign_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let (partial, place) = (dir.path().join(".trl.partial"), dir.path().join("trl"));
        let fill = |dir: &Path, names: &[&str]| {
            fs::create_dir(dir).unwrap();
            for name in names {
                fs::write(dir.join(name), name).unwrap();
            }
        };
        fill(&place, &["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]);
        fill(&partial, &["train-00000-of-00001.parquet"]);
        replace_dir(&partial, &place).unwrap();
        assert_eq!(shards(&place).unwrap(), [place.join("train-00000-of-00001.parquet")]);
        assert!(!partial.exists());

        fs::write(place.join("notes.txt"), "mine").unwrap();
        fill(&partial, &["train-00000-of-00001.parquet"]);
        assert!(replace_dir(&partial, &place).is_err());
        assert!(place.join("notes.txt").exists());
    }

    #[test]
    fn two_exports_to_one_place_are_kept_apart() {
        let dir = tempfile::tempdir().unwrap();
        let first = lock(dir.path()).unwrap();
        assert!(lock(dir.path()).is_err());
        drop(first);
        assert!(lock(dir.path()).is_ok());
    }
}
