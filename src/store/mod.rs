//! One dataset directory: `curate.db` (SQLite), `manifest.json`, `exports/`, `report.html`. Self-contained, can be moved.
//!
//! Layout of the database (schema version in `PRAGMA user_version`, migrations in [`MIGRATIONS`]):
//!
//! - `records(stage, key, subject, state, reason, attempts, wall_ms, body)`: every record ever written, by the digest of
//!   what it was made from. `body` is zstd-compressed JSON. Rows are never changed, except that a transient failure is
//!   replaced by the next try.
//! - `heads(stage, subject, key)`: which record is the current one of a subject (a commit, candidate or episode). A
//!   changed setting makes new records and moves the heads; going back to the old setting moves them back for free.
//!
//! A record is complete when its row is committed; there is no half state.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard},
};

use anyhow::{Context, Result, bail};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use serde::{Serialize, de::DeserializeOwned};

use crate::record::id::Digest;

/// Statements that lead from each schema version to the next.
const MIGRATIONS: &[&str] = &["CREATE TABLE records (
        stage TEXT NOT NULL, key TEXT NOT NULL, subject TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,
        attempts INTEGER NOT NULL, wall_ms INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (stage, key)
    ) WITHOUT ROWID;
    CREATE TABLE heads (
        stage TEXT NOT NULL, subject TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (stage, subject)
    ) WITHOUT ROWID;"];

/// How a piece of work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It gave what it was meant to give.
    Done,
    /// It ended for good without: the subject is at fault.
    Rejected,
    /// The machine failed; another run tries again.
    Transient,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Done => "done",
            State::Rejected => "rejected",
            State::Transient => "transient",
        }
    }

    fn parse(name: &str) -> Result<State> {
        Ok(match name {
            "done" => State::Done,
            "rejected" => State::Rejected,
            "transient" => State::Transient,
            other => bail!("read the store: unknown state `{other}`"),
        })
    }
}

/// A record without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub stage: String,
    pub key: String,
    pub subject: String,
    pub state: State,
    /// Snake_case; empty where the state is `Done`.
    pub reason: String,
    pub attempts: u32,
    pub wall_ms: u64,
}

/// A record to write.
#[derive(Clone, Debug)]
pub struct Put<'a, T> {
    pub stage: &'a str,
    pub key: &'a Digest,
    pub subject: &'a str,
    pub state: State,
    pub reason: &'a str,
    pub wall_ms: u64,
    pub body: &'a T,
}

#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    connection: Mutex<Connection>,
}

impl Store {
    /// Opens a dataset directory, creating it with an empty database if there is none.
    ///
    /// # Errors
    /// The directory cannot be written, the file is damaged, or a newer version wrote it.
    pub fn create(dir: &Path) -> Result<Store> {
        fs::create_dir_all(dir).with_context(|| format!("create dataset directory `{}`", dir.display()))?;
        Store::connect(dir)
    }

    /// Opens a dataset directory that exists.
    ///
    /// # Errors
    /// There is none, or as [`Store::create`].
    pub fn open(dir: &Path) -> Result<Store> {
        check_presence(dir)?;
        Store::connect(dir)
    }

    /// Opens a dataset directory that exists and may be where nothing can be written.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_to_read(dir: &Path) -> Result<Store> {
        check_presence(dir)?;
        // A reader shares the log with writers, and needs to write for that where the directory allows it at all.
        let is_writable = rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok()
            && rustix::fs::access(dir.join("curate.db"), rustix::fs::Access::WRITE_OK).is_ok();
        if is_writable {
            return Store::connect(dir);
        }
        let path = dir.join("curate.db");
        let context = || format!("read `{}`", path.display());
        let absolute = path.canonicalize().with_context(context)?;
        let escaped: String =
            absolute.as_os_str().as_encoded_bytes().iter().map(|byte| format!("%{byte:02x}")).collect();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection =
            Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags).with_context(context)?;
        if version(&connection).with_context(context)? != MIGRATIONS.len() {
            bail!("read `{}`: another version of `curate` wrote it, and it cannot be changed here", path.display());
        }
        Ok(Store { dir: dir.to_owned(), connection: Mutex::new(connection) })
    }

    fn connect(dir: &Path) -> Result<Store> {
        let path = dir.join("curate.db");
        let context = || {
            format!(
                "open `{}` (if the disk is not full and the file is damaged, restore it or move it away; it is never \
                 overwritten)",
                path.display()
            )
        };
        if fs::metadata(&path).is_ok_and(|metadata| metadata.len() == 0) && dir.join("manifest.json").exists() {
            bail!("open `{}`: it is empty; restore it or move it away", path.display());
        }
        let mut connection = Connection::open(&path).with_context(context)?;
        connection.busy_timeout(std::time::Duration::from_secs(60)).with_context(context)?;
        if version(&connection).with_context(context)? > MIGRATIONS.len() {
            bail!("open `{}`: a newer `curate` wrote it; upgrade `curate`", path.display());
        }
        connection.pragma_update(None, "journal_mode", "wal").with_context(context)?;
        connection.pragma_update(None, "synchronous", "full").with_context(context)?;
        migrate(&mut connection).with_context(context)?;
        Ok(Store { dir: dir.to_owned(), connection: Mutex::new(connection) })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the dataset's name: its directory's.
    pub fn name(&self) -> String {
        self.dir.file_name().map_or_else(|| "dataset".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A panic elsewhere cannot leave a transaction half done: dropping one rolls it back.
        self.connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Writes records and makes each the current one of its subject, in one transaction.
    ///
    /// # Errors
    /// The database cannot be written (disk full, damaged); nothing of the transaction is kept.
    pub fn put_all<T: Serialize>(&self, puts: &[Put<T>]) -> Result<()> {
        let bodies = puts.iter().map(|put| encode(put.body)).collect::<Result<Vec<_>>>()?;
        let mut connection = self.connection();
        let context = || format!("write to `{}`", self.dir.join("curate.db").display());
        let transaction = connection.transaction().with_context(context)?;
        for (put, body) in puts.iter().zip(&bodies) {
            transaction
                .prepare_cached(
                    "INSERT INTO records (stage, key, subject, state, reason, attempts, wall_ms, body)
                     VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7)
                     ON CONFLICT (stage, key) DO UPDATE SET state = excluded.state, reason = excluded.reason,
                       attempts = attempts + 1, wall_ms = excluded.wall_ms, body = excluded.body
                     WHERE records.state = 'transient'",
                )
                .and_then(|mut statement| {
                    let wall_ms = i64::try_from(put.wall_ms).unwrap_or(i64::MAX);
                    let state = put.state.name();
                    statement.execute(params![
                        put.stage,
                        put.key.as_str(),
                        put.subject,
                        state,
                        put.reason,
                        wall_ms,
                        body
                    ])
                })
                .with_context(context)?;
            set_head(&transaction, put.stage, put.subject, put.key.as_str()).with_context(context)?;
        }
        transaction.commit().with_context(context)
    }

    /// Writes one record.
    ///
    /// # Errors
    /// As [`Store::put_all`].
    pub fn put<T: Serialize>(&self, put: Put<T>) -> Result<()> {
        self.put_all(&[put])
    }

    /// Returns a record's entry, and makes it the current one of its subject if it is there.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn revive(&self, stage: &str, key: &Digest) -> Result<Option<Entry>> {
        self.reading(|connection| {
            let entry = connection
                .prepare_cached(&format!("{ENTRY} FROM records r WHERE stage = ?1 AND key = ?2"))?
                .query_row(params![stage, key.as_str()], read_entry)
                .optional()?
                .transpose()?;
            if let Some(entry) = &entry {
                let head: Option<String> = connection
                    .prepare_cached("SELECT key FROM heads WHERE stage = ?1 AND subject = ?2")?
                    .query_row(params![stage, entry.subject], |row| row.get(0))
                    .optional()?;
                if head.as_deref() != Some(key.as_str()) {
                    set_head(connection, stage, &entry.subject, key.as_str())?;
                }
            }
            Ok(entry)
        })
    }

    /// Returns the current record of every subject of a stage, sorted by subject.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn entries(&self, stage: &str) -> Result<Vec<Entry>> {
        self.reading(|connection| {
            let mut statement = connection.prepare_cached(&format!(
                "{ENTRY} FROM heads h JOIN records r USING (stage, key) WHERE h.stage = ?1 ORDER BY h.subject"
            ))?;
            let rows = statement.query_map([stage], read_entry)?.collect::<rusqlite::Result<Vec<_>>>()?;
            rows.into_iter().collect()
        })
    }

    /// Returns the current bodies of a stage, sorted by subject.
    ///
    /// # Errors
    /// The database cannot be read, or a body is damaged.
    pub fn all<T: DeserializeOwned>(&self, stage: &str) -> Result<Vec<T>> {
        Ok(self.all_with_subject(stage)?.into_iter().map(|(_, body)| body).collect())
    }

    /// Returns the subjects and current bodies of a stage, sorted by subject.
    ///
    /// # Errors
    /// As [`Store::all`].
    pub fn all_with_subject<T: DeserializeOwned>(&self, stage: &str) -> Result<Vec<(String, T)>> {
        self.reading(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT h.subject, r.body FROM heads h JOIN records r USING (stage, key) WHERE h.stage = ?1 ORDER BY h.subject",
            )?;
            let mut rows = statement.query([stage])?;
            let mut bodies = Vec::new();
            while let Some(row) = rows.next()? {
                let subject: String = row.get(0)?;
                let body: Vec<u8> = row.get(1)?;
                let body = decode(&body).with_context(|| format!("read record `{stage}` of `{subject}`"))?;
                bodies.push((subject, body));
            }
            Ok(bodies)
        })
    }

    /// Returns the current body of one subject.
    ///
    /// # Errors
    /// As [`Store::all`].
    pub fn get<T: DeserializeOwned>(&self, stage: &str, subject: &str) -> Result<Option<T>> {
        let body: Option<Vec<u8>> = self.reading(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT r.body FROM heads h JOIN records r USING (stage, key) WHERE h.stage = ?1 AND h.subject = ?2",
            )?;
            Ok(statement.query_row(params![stage, subject], |row| row.get(0)).optional()?)
        })?;
        body.map(|body| decode(&body).with_context(|| format!("read record `{stage}` of `{subject}`"))).transpose()
    }

    /// Returns the keys of all current records, by stage and subject.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn heads(&self) -> Result<Vec<(String, String, String)>> {
        self.reading(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT stage, subject, key FROM heads ORDER BY stage, subject")?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
        })
    }

    /// Runs queries; an error names the file.
    fn reading<T>(&self, query: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        query(&self.connection()).with_context(|| {
            let path = self.dir.join("curate.db");
            format!("read `{}` (if it is damaged, restore it or move it away)", path.display())
        })
    }

    /// Drops the current records of subjects of a stage that are not among `keep`; the records themselves stay.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn retain(&self, stage: &str, keep: &dyn Fn(&str) -> bool) -> Result<()> {
        let subjects: Vec<String> = self.entries(stage)?.into_iter().map(|entry| entry.subject).collect();
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        for subject in subjects.iter().filter(|subject| !keep(subject)) {
            transaction
                .prepare_cached("DELETE FROM heads WHERE stage = ?1 AND subject = ?2")?
                .execute(params![stage, subject])?;
        }
        Ok(transaction.commit()?)
    }
}

const ENTRY: &str = "SELECT r.stage, r.key, r.subject, r.state, r.reason, r.attempts, r.wall_ms";

fn read_entry(row: &rusqlite::Row) -> rusqlite::Result<Result<Entry>> {
    let state: String = row.get(3)?;
    let (attempts, wall_ms): (i64, i64) = (row.get(5)?, row.get(6)?);
    let (stage, key, subject, reason) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(4)?);
    Ok(State::parse(&state).map(|state| Entry {
        stage,
        key,
        subject,
        state,
        reason,
        attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
        wall_ms: u64::try_from(wall_ms).unwrap_or(0),
    }))
}

fn set_head(connection: &Connection, stage: &str, subject: &str, key: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO heads (stage, subject, key) VALUES (?1, ?2, ?3)
             ON CONFLICT (stage, subject) DO UPDATE SET key = excluded.key",
        )?
        .execute(params![stage, subject, key])?;
    Ok(())
}

fn check_presence(dir: &Path) -> Result<()> {
    let path = dir.join("curate.db");
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("open dataset `{}`", dir.display()))
        }
        Ok(_) | Err(_) => {
            bail!("open dataset `{}`: there is no `curate.db` in it; make one with `curate mine`", dir.display())
        }
    }
}

fn version(connection: &Connection) -> Result<usize> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(version.try_into().unwrap_or(usize::MAX))
}

fn migrate(connection: &mut Connection) -> Result<()> {
    if version(connection)? == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let version = version(&transaction)?;
    if version >= MIGRATIONS.len() {
        return Ok(());
    }
    for statements in &MIGRATIONS[version..] {
        transaction.execute_batch(statements)?;
    }
    transaction.pragma_update(None, "user_version", i64::try_from(MIGRATIONS.len())?)?;
    Ok(transaction.commit()?)
}

fn encode(body: &impl Serialize) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(body).context("encode a record")?;
    zstd::encode_all(json.as_slice(), 3).context("compress a record")
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    let json = zstd::decode_all(body).context("decompress it")?;
    serde_json::from_slice(&json).context("decode it (was it written by another version?)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put<'a>(key: &'a Digest, state: State, body: &'a str) -> Put<'a, &'a str> {
        Put { stage: "validate", key, subject: "a", state, reason: "", wall_ms: 5, body: Box::leak(Box::new(body)) }
    }

    #[test]
    fn a_changed_setting_moves_the_head_and_the_old_record_comes_back_for_free() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path()).unwrap();
        let (first, second) = (Digest::of(&[b"1"]), Digest::of(&[b"2"]));
        store.put(put(&first, State::Done, "one")).unwrap();
        store.put(put(&second, State::Done, "two")).unwrap();
        assert_eq!(store.all::<String>("validate").unwrap(), ["two"]);
        assert_eq!(store.revive("validate", &first).unwrap().map(|e| e.state), Some(State::Done));
        assert_eq!(store.get::<String>("validate", "a").unwrap().as_deref(), Some("one"));
        store.retain("validate", &|_| false).unwrap();
        assert_eq!(store.entries("validate").unwrap(), []);
    }

    #[test]
    fn only_a_transient_record_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path()).unwrap();
        let key = Digest::of(&[b"k"]);
        store.put(put(&key, State::Transient, "lost")).unwrap();
        store.put(put(&key, State::Done, "won")).unwrap();
        store.put(put(&key, State::Done, "late")).unwrap();
        assert_eq!(store.all::<String>("validate").unwrap(), ["won"]);
        assert_eq!(store.entries("validate").unwrap()[0].attempts, 2);
    }

    #[test]
    fn a_damaged_file_is_an_error_and_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("curate.db"), b"not a database, for certain").unwrap();
        let error = format!("{:#}", Store::create(dir.path()).unwrap_err());
        assert!(error.contains("curate.db") && error.contains("never overwritten"), "{error}");
        assert_eq!(fs::read(dir.path().join("curate.db")).unwrap(), b"not a database, for certain");
    }

    #[test]
    fn a_file_of_a_newer_version_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        drop(Store::create(dir.path()).unwrap());
        Connection::open(dir.path().join("curate.db")).unwrap().pragma_update(None, "user_version", 99).unwrap();
        let error = format!("{:#}", Store::open(dir.path()).unwrap_err());
        assert!(error.contains("newer") && !error.contains("damaged"), "{error}");
    }
}
