"""Reads an export as its users do and prints what it got as JSON. usage: readers.py EXPORT CONFIG [TEMPLATE]"""

import glob
import json
import sys

import datasets
import pyarrow.parquet

EXPORT, CONFIG = sys.argv[1:3]
FILES = sorted(glob.glob(f"{EXPORT}/data/{CONFIG}/*.parquet"))


def by_datasets(*source, **files):
    # Without streaming, the library refuses any split that has no rows.
    has_rows = any(pyarrow.parquet.ParquetFile(file).metadata.num_rows for file in FILES)
    loaded = datasets.load_dataset(*source, **files, split="train", streaming=not has_rows)
    return {"rows": list(loaded), "features": {name: str(kind) for name, kind in loaded.features.items()}}


def by_pyarrow(files):
    tables = [pyarrow.parquet.read_table(file) for file in files]
    schemas = {table.schema.serialize().to_pybytes() for table in tables}
    groups = [pyarrow.parquet.ParquetFile(file).metadata for file in files]
    return {
        "rows": [row for table in tables for row in table.to_pylist()],
        "n_schemas": len(schemas),
        "created_by": sorted({group.created_by for group in groups}),
        "row_group_bytes": [g.row_group(i).total_byte_size for g in groups for i in range(g.num_row_groups)],
        "has_index": all(g.row_group(i).column(0).has_offset_index for g in groups for i in range(g.num_row_groups)),
    }


def rendered(rows, template):
    from transformers.utils.chat_template_utils import render_jinja_template

    texts, spans = [], []
    for row in rows:
        text, span = render_jinja_template(
            [row["messages"]], tools=row["tools"], chat_template=template, return_assistant_tokens_mask=True
        )
        texts.append(text[0])
        spans.append([text[0][start:end] for start, end in span[0]])
    return {"texts": texts, "trained": spans}


def main():
    result = {
        "files": by_datasets("parquet", data_files=FILES),
        "card": by_datasets(EXPORT, CONFIG),
        "default": by_datasets(EXPORT),
        "pyarrow": by_pyarrow(FILES),
        "configs": datasets.get_dataset_config_names(EXPORT),
    }
    if len(sys.argv) > 3:
        with open(sys.argv[3], encoding="utf-8") as file:
            result["template"] = rendered(result["card"]["rows"], file.read())
    print("\n@@" + json.dumps(result))


main()
