//! Images: the list, one in full, what was pulled, what was removed.

use super::View;
use super::paper::{Paper, Tone};
use super::table::{Cell, Table};
use super::time::Reader;
use serde::Serialize;
use shipway_images::layer::index::LeftOut;
use shipway_images::store::{Cleared, ImageRecord, Usage};
use shipway_model::{Bytes, Digest, ImageRef, Timestamp};
use std::path::PathBuf;

/// Enough letters of a digest to tell images apart, and to name one.
const SHORT: usize = 12;

#[derive(Debug, Serialize)]
pub struct PulledView {
    pub image: Digest,
    pub reference: ImageRef,
    /// False when it was there already.
    pub fetched: bool,
    pub tree: PathBuf,
    pub left_out: LeftOut,
}

/// The digest alone, so that a script can take it.
impl View for PulledView {
    fn text(&self, paper: &mut Paper) {
        paper.line(&self.image.to_string());
    }
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub image: Digest,
    pub names: Vec<ImageRef>,
    pub bytes: Bytes,
    pub files: u64,
    pub last_use: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
pub struct ImageTable {
    pub images: Vec<Row>,
    #[serde(skip)]
    pub reader: Reader,
}

impl View for ImageTable {
    fn text(&self, paper: &mut Paper) {
        if self.images.is_empty() {
            return paper.line("no images");
        }
        let mut table = Table::new(&["IMAGE", "SIZE", "FILES", "USED", "NAMES"]);
        for row in &self.images {
            let used = row.last_use.map(|at| format!("{} ago", self.reader.age(at)));
            let names: Vec<String> = row.names.iter().map(ToString::to_string).collect();
            table.row(vec![
                Cell::from(&row.image.hex()[..SHORT]),
                Cell::from(row.bytes),
                Cell::from(row.files),
                used.unwrap_or_default().into(),
                names.join(", ").into(),
            ]);
        }
        table.write(paper);
    }
}

#[derive(Debug, Serialize)]
pub struct ImageDetail {
    #[serde(flatten)]
    pub record: ImageRecord,
    pub names: Vec<ImageRef>,
    pub usage: Usage,
    pub cuda: Option<String>,
    pub last_use: Option<Timestamp>,
    pub tree: PathBuf,
    #[serde(skip)]
    pub reader: Reader,
}

impl View for ImageDetail {
    fn text(&self, paper: &mut Paper) {
        let record = &self.record;
        field(paper, "image", &record.image.to_string());
        for name in &self.names {
            field(paper, "name", &name.to_string());
        }
        field(paper, "platform", &record.platform);
        let Usage { shared, own } = self.usage;
        let size = format!("{} in {} files", record.bytes, record.files);
        field(paper, "size", &format!("{size}; {own} its own, {shared} shared with others"));
        field(paper, "unpacked", &self.reader.moment_and_age(record.unpacked_at));
        if let Some(at) = self.last_use {
            field(paper, "last used", &self.reader.moment_and_age(at));
        }
        if let Some(cuda) = &self.cuda {
            field(paper, "CUDA", cuda);
        }
        field(paper, "tree", &self.tree.display().to_string());
        let LeftOut { devices, set_id_bits, capabilities, xattrs } = record.left_out;
        for (count, what) in [
            (devices, "device nodes"),
            (set_id_bits, "files' set-id bits"),
            (capabilities, "files' capabilities"),
            (xattrs, "attributes"),
        ] {
            if count > 0 {
                field(paper, "left out", &format!("{count} {what}"));
            }
        }
        for (name, value) in &record.config.labels {
            field(paper, "label", &format!("{name}={value}"));
        }
        paper.end_line();
        let mut table = Table::new(&["LAYER", "FETCHED", "UNPACKED"]);
        for layer in &record.layers {
            table.row(vec![
                Cell::from(&layer.diff_id.hex()[..SHORT]),
                Cell::from(layer.packed),
                Cell::from(layer.unpacked),
            ]);
        }
        table.write(paper);
    }
}

fn field(paper: &mut Paper, name: &str, value: &str) {
    paper.write(Tone::Faint, &format!("{name:<10} "));
    paper.line(value);
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct ClearedView {
    pub cleared: Cleared,
}

impl View for ClearedView {
    fn text(&self, paper: &mut Paper) {
        let Cleared { images, files, bytes, others_at_work } = &self.cleared;
        for image in images {
            paper.line(&format!("removed {image}"));
        }
        paper.line(&format!("{files} files, {bytes} given back"));
        if *others_at_work {
            paper.line(
                "others are at work in the store; files no image needs stay until the next time",
            );
        }
    }
}
