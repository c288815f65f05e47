//! Rows to Parquet files: one schema, row groups and shards cut by bytes, the same bytes each time.

use std::{fs::File, path::Path, sync::Arc};

use anyhow::{Context, Result};
use arrow::{datatypes::SchemaRef, json::ReaderBuilder, record_batch::RecordBatch};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::{
        metadata::KeyValue,
        properties::{EnabledStatistics, WriterProperties},
        reader::{FileReader, SerializedFileReader},
    },
};
use serde_json::Value;

use super::schema::{self, Column};

/// Key of the footer's metadata under which a file describes its export.
const SECTION_KEY: &str = "curate";

/// Where rows go and how they are cut.
pub struct Layout<'a> {
    pub dir: &'a Path,
    pub columns: &'static [Column],
    /// What the footer of every shard says of the whole export.
    pub section: String,
    /// Uncompressed bytes.
    pub row_group_bytes: u64,
    /// Uncompressed bytes.
    pub shard_bytes: u64,
}

/// Writes `train-00000-of-0000N.parquet` and so on; at least one shard, which may have no row.
///
/// # Errors
/// The directory cannot be written, or a row does not fit the schema (our bug).
pub fn write_shards(layout: &Layout, rows: impl Iterator<Item = Value>) -> Result<()> {
    let schema: SchemaRef = Arc::new(schema::arrow_schema(layout.columns));
    let mut shard = Shard::create(layout, &schema, 0)?;
    let mut n_shards = 1;
    for mut row in rows {
        schema::encode_json(&mut row, layout.columns);
        let size_bytes = value_bytes(&row);
        if shard.n_bytes > 0 && shard.n_bytes + size_bytes > layout.shard_bytes {
            shard.finish()?;
            shard = Shard::create(layout, &schema, n_shards)?;
            n_shards += 1;
        }
        shard.push(row, size_bytes, layout.row_group_bytes)?;
    }
    shard.finish()?;
    for index in 0..n_shards {
        let path = layout.dir.join(format!("train-{index:05}-of-{n_shards:05}.parquet"));
        std::fs::rename(unnumbered(layout.dir, index), &path).with_context(|| format!("name `{}`", path.display()))?;
    }
    Ok(())
}

/// Returns what the footer of a file says of its export, `None` where we did not write it.
///
/// # Errors
/// It is no Parquet file.
pub fn read_section(path: &Path) -> Result<Option<String>> {
    let file = File::open(path).with_context(|| format!("open `{}`", path.display()))?;
    let reader = SerializedFileReader::new(file).with_context(|| format!("read `{}`", path.display()))?;
    let pairs = reader.metadata().file_metadata().key_value_metadata();
    Ok(pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == SECTION_KEY)?.value.clone()))
}

/// The name of a shard while their number is not known.
fn unnumbered(dir: &Path, index: usize) -> std::path::PathBuf {
    dir.join(format!("{index:05}.partial"))
}

struct Shard {
    writer: ArrowWriter<File>,
    schema: SchemaRef,
    /// Rows of the row group being filled.
    pending: Vec<Value>,
    pending_bytes: u64,
    /// Of the whole shard.
    n_bytes: u64,
}

impl Shard {
    fn create(layout: &Layout, schema: &SchemaRef, index: usize) -> Result<Shard> {
        let path = unnumbered(layout.dir, index);
        let file = File::create(&path).with_context(|| format!("create `{}`", path.display()))?;
        let writer =
            ArrowWriter::try_new(file, Arc::clone(schema), Some(properties(layout))).context("start a Parquet file")?;
        Ok(Shard { writer, schema: Arc::clone(schema), pending: Vec::new(), pending_bytes: 0, n_bytes: 0 })
    }

    fn push(&mut self, row: Value, size_bytes: u64, row_group_bytes: u64) -> Result<()> {
        if !self.pending.is_empty() && self.pending_bytes + size_bytes > row_group_bytes {
            self.flush()?;
        }
        self.pending.push(row);
        self.pending_bytes += size_bytes;
        self.n_bytes += size_bytes;
        Ok(())
    }

    /// Writes the pending rows as one row group.
    fn flush(&mut self) -> Result<()> {
        let batch = record_batch(&self.schema, &self.pending)?;
        self.writer.write(&batch).context("write a row group")?;
        self.writer.flush().context("write a row group")?;
        self.pending.clear();
        self.pending_bytes = 0;
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        if !self.pending.is_empty() {
            self.flush()?;
        }
        let file = self.writer.into_inner().context("finish a Parquet file")?;
        file.sync_all().context("flush a Parquet file to disk")
    }
}

/// Turns rows into columns; a key that the schema does not have, or a null where there must be none, is an error.
fn record_batch(schema: &SchemaRef, rows: &[Value]) -> Result<RecordBatch> {
    let mut decoder = ReaderBuilder::new(Arc::clone(schema))
        .with_batch_size(rows.len())
        .with_strict_mode(true)
        .build_decoder()
        .context("make columns")?;
    decoder.serialize(rows).context("make columns")?;
    let batch = decoder.flush().context("make columns")?;
    Ok(batch.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(schema))))
}

/// zstd 3 with page index. The creator is named without a version, so that an upgrade of a library that writes the same
/// pages gives the same bytes.
fn properties(layout: &Layout) -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).expect("3 is a level of zstd")))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_created_by("curate".to_owned())
        .set_max_row_group_row_count(None)
        .set_key_value_metadata(Some(vec![KeyValue::new(SECTION_KEY.to_owned(), layout.section.clone())]))
        .build()
}

/// Returns about how many bytes a value takes in Arrow.
fn value_bytes(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Number(_) => 8,
        Value::String(text) => text.len() as u64 + 4,
        Value::Array(items) => 4 + items.iter().map(value_bytes).sum::<u64>(),
        Value::Object(fields) => fields.values().map(value_bytes).sum(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::export::schema::{SWEBENCH, VERL_RL};

    fn layout<'a>(dir: &'a Path, columns: &'static [Column]) -> Layout<'a> {
        Layout { dir, columns, section: "{}".to_owned(), row_group_bytes: 3_000, shard_bytes: 10_000 }
    }

    fn prompt_row(text: &str) -> Value {
        json!({
            "data_source": "d", "prompt": [{"role": "user", "content": text}], "ability": "coding",
            "reward_model": {"style": "rule", "ground_truth": "{}"}, "agent_name": null,
            "extra_info": {"index": 0, "split": "train", "instance_id": "i", "task": "{}", "need_tools_kwargs": false},
        })
    }

    #[test]
    fn shards_and_row_groups_are_cut_by_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let rows = (0..20).map(|_| prompt_row(&"x".repeat(1_000)));
        write_shards(&layout(dir.path(), VERL_RL), rows).unwrap();
        let mut names: Vec<_> = dir.path().read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(
            names,
            ["train-00000-of-00003.parquet", "train-00001-of-00003.parquet", "train-00002-of-00003.parquet"]
        );
        let mut n_rows = 0;
        for name in names {
            let reader = SerializedFileReader::new(File::open(dir.path().join(name)).unwrap()).unwrap();
            n_rows += reader.metadata().file_metadata().num_rows();
            for group in reader.metadata().row_groups() {
                assert!(group.total_byte_size() < 3_500, "{}", group.total_byte_size());
                assert!(group.num_rows() <= 2);
            }
        }
        assert_eq!(n_rows, 20);
    }

    #[test]
    fn a_key_outside_the_schema_or_a_null_in_a_required_column_is_refused() {
        let schema = Arc::new(schema::arrow_schema(VERL_RL));
        assert!(record_batch(&schema, &[prompt_row("x")]).is_ok());
        let mut extra = prompt_row("x");
        extra["new"] = json!(1);
        assert!(record_batch(&schema, &[extra]).is_err());
        let mut null = prompt_row("x");
        null["ability"] = Value::Null;
        assert!(record_batch(&schema, &[null]).is_err());
    }

    #[test]
    fn no_rows_make_one_file_that_describes_itself() {
        let dir = tempfile::tempdir().unwrap();
        write_shards(&layout(dir.path(), SWEBENCH), std::iter::empty()).unwrap();
        let section = read_section(&dir.path().join("train-00000-of-00001.parquet")).unwrap();
        assert_eq!(section.as_deref(), Some("{}"));
    }
}
